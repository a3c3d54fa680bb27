"""Make the plan for one request, and the answer from the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkaguard._common.logs import Log
from kafkaguard.testing.proxy import frames
from kafkaguard.testing.proxy.actions import Plan
from kafkaguard.testing.proxy.places import layout

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from uuid import UUID

    from kafkaguard.testing.proxy.actions import CountedFault
    from kafkaguard.testing.proxy.journal import Exchange
    from kafkaguard.testing.proxy.matching import DecodedRequest
    from kafkaguard.testing.proxy.places import Item, Keys

_log = Log("testing")
_PER_SECOND = 1000


def make_plan(
    request: DecodedRequest, exchange: Exchange, faults: Iterable[CountedFault]
) -> Plan:
    """Decide what to do with a request.

    Faults are tried in the order in which they were set. Delays and throttling add up.
    Of all other faults, the first one decides about an item.
    """
    header = request.header
    plan = Plan(request, exchange, layout(header.api_key, header.version))
    plan.is_answered = frames.expects_answer(header, request.body)
    undecided: set[Item] | None = set(request.items)
    for fault in faults:
        items = fault.select(request)
        exclusive = fault.action.is_exclusive
        if exclusive and items is not None:
            items = _undecided_items(items, undecided, request)
        if items is None:
            continue
        if not fault.action.apply(plan, items, fault.match):
            if plan.layout is None:
                exchange.faults += (f"cannot {fault}: this version is not known",)
            continue
        fault.fired += 1
        exchange.faults += (str(fault),)
        if exclusive:
            undecided = (undecided or set()) - set(items) or None
    return plan


def _undecided_items(
    items: list[Item], undecided: set[Item] | None, request: DecodedRequest
) -> list[Item] | None:
    """Return the items about which no fault has decided yet; None if none is left."""
    if undecided is None:
        return None
    remaining = [item for item in items if item in undecided]
    return None if request.items and not remaining else remaining


def outgoing(plan: Plan, frame: bytes) -> bytes | None:
    """Return the frame for the broker, or None."""
    if plan.is_made_here or (plan.breakage and not plan.written):
        return None
    if not plan.withheld:
        return frame
    items = plan.request.items
    if all(item.keys in plan.withheld for item in items):
        plan.is_made_here = True
        return None
    if plan.request.api == "Fetch":
        # The broker's Fetch session must stay the same as the client's view of it. So
        # the broker gets the request even if the result of the read is not used.
        return frame
    body = frames.decode_request(plan.request.header, frame)
    assert plan.layout is not None
    plan.layout.without(body, set(plan.withheld))
    return frames.encode_request(plan.request.header, frame, body)


def shape(plan: Plan, answer: Any, names: Mapping[UUID, str]) -> Any:
    """Make the client's answer from the broker's answer or None."""
    answer_layout = plan.layout
    assert answer_layout is not None
    answer = answer_layout.blank() if answer is None else answer
    answer_layout.add(answer, plan.withheld.values())
    answer_layout.add(answer, _items_to_refuse(plan))
    answer = _refuse(plan, answer, names)
    if plan.throttle is not None:
        answer.throttle_time_ms = round(plan.throttle * _PER_SECOND)
    if plan.empty:
        answer_layout.clear(answer)
    for edit in plan.edits:
        try:
            edit(answer)
        except Exception:  # noqa: BLE001 - a user's hook never breaks the proxy
            _log.exception(
                "edit_raised",
                "the function of an edit raised an exception; the answer "
                "is passed on unchanged",
            )
    return answer


def _items_to_refuse(plan: Plan) -> list[Item]:
    """List the items to refuse; a session's answer may lack some of them."""
    answer_layout = plan.layout
    assert answer_layout is not None
    refusals = [r for r in plan.refusals if not answer_layout.needs_broker(r.kind)]
    return [
        item
        for item in plan.request.items
        if any(r.kind != "top" and r.match.matches_item(item) for r in refusals)
    ]


def _refuse(plan: Plan, answer: Any, names: Mapping[UUID, str]) -> Any:
    answer_layout = plan.layout
    assert answer_layout is not None
    refused_keys: set[Keys] = set()
    for refusal in plan.refusals:
        if refusal.kind == "top":
            answer = answer_layout.refused(refusal.error)
            continue

        def is_chosen(item: Item, match: Any = refusal.match) -> bool:
            is_new = item.keys not in refused_keys and match.matches_item(item)
            if is_new:
                refused_keys.add(item.keys)
            return bool(is_new)

        answer_layout.refuse(answer, refusal.kind, refusal.error, is_chosen, names)
    return answer
