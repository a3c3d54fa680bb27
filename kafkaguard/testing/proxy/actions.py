"""Faults: which requests each matches, how often, and what it does to the plan."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self

from kafkaguard.testing.proxy.journal import code_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkaguard.testing.proxy.journal import Exchange
    from kafkaguard.testing.proxy.matching import DecodedRequest, Match
    from kafkaguard.testing.proxy.places import Item, Keys, Layout

Breakage = Literal["drop", "close", "reset", "cut", "garble"]
_HEAD = 8  # bytes of the length and the correlation id


@dataclass(frozen=True, slots=True)
class InsertedError:
    """An error to insert into an answer.

    Attributes:
        kind: The level of the error in the answer.
        error: The fields to set.
        match: Selects the items.
    """

    kind: str
    error: Mapping[str, Any]
    match: Match


@dataclass(slots=True)
class Plan:
    """What the proxy does with one request and its answer.

    Attributes:
        request: The request.
        exchange: Its entry in the journal.
        layout: The places of items and errors in its answer; None if unknown.
        withheld: Items that the broker does not receive.
        is_answered: The client expects an answer.
        is_made_here: The proxy makes the answer, without the broker.
        awaits_broker: The request was sent to the broker, which will answer.
        breakage: How the exchange is broken off.
        written: The exchange is broken off after the broker has answered.
        down: Seconds for which the broker cannot be reached.
    """

    request: DecodedRequest
    exchange: Exchange
    layout: Layout | None
    is_answered: bool = True
    delay_before: float = 0.0
    delay_after: float = 0.0
    throttle: float | None = None
    refusals: list[InsertedError] = field(default_factory=list)
    withheld: dict[Keys, Item] = field(default_factory=dict)
    is_made_here: bool = False
    awaits_broker: bool = False
    empty: bool = False
    edits: list[Callable[[Any], None]] = field(default_factory=list)
    breakage: Breakage | None = None
    written: bool = True
    down: float | None = None
    damage: Callable[[bytes], bytes] | None = None

    @property
    def changes_answer(self) -> bool:
        """Whether the answer differs from the broker's."""
        shaped = self.refusals or self.edits or self.empty
        return bool(shaped) or self.throttle is not None


@dataclass(frozen=True, slots=True)
class Action:
    """The effect of a fault.

    Attributes:
        text: The effect in words.
        apply: Changes the plan of a request, of which the fault selects these items;
            returns False if the action cannot be applied to the request.
        is_exclusive: Whether no other exclusive action may be applied to these items.
        versions: The lowest and the highest version of the API to offer, if the action
            limits them. Without any, the highest is below the lowest.
    """

    text: str
    apply: Callable[[Plan, list[Item], Match], bool]
    is_exclusive: bool = True
    versions: tuple[int, int] | None = None


def fail(
    code: int, fields: Mapping[str, Any], *, written: bool, at: str | None
) -> Action:
    """Answer with an error code, where a broker sets it, or at the place ``at``."""

    def apply(plan: Plan, items: list[Item], match: Match) -> bool:
        layout = plan.layout
        if layout is None:
            return False
        kind = layout.default_kind(code, item_wanted=match.selects_items)
        if at in layout.kinds:
            kind = at
        if kind is None:
            return False
        error = {"error_code": code, **fields}
        plan.refusals.append(InsertedError(kind, error, match))
        if not written and not layout.needs_broker(kind):
            _withhold(plan, kind, items)
        return True

    after = " after the broker did the work" if written else ""
    return Action(f"fail with {code_name(code)}({code}){after}", apply)


def _withhold(plan: Plan, kind: str, items: list[Item]) -> None:
    """Do not let the broker see refused items."""
    if kind == "top":
        plan.is_made_here = True
    elif not any(item.everything for item in items):
        plan.withheld.update((item.keys, item) for item in items)


def delay(seconds: float, *, before: bool) -> Action:
    """Delay a request (``before``) or its answer; delays add up."""

    def apply(plan: Plan, *_: object) -> bool:
        if before:
            plan.delay_before += seconds
        else:
            plan.delay_after += seconds
        return True

    part = "request" if before else "answer"
    return Action(f"delay the {part} by {seconds:g} s", apply, is_exclusive=False)


def throttle(seconds: float) -> Action:
    """Tell the client that it is over its quota (``throttle_time_ms``)."""

    def apply(plan: Plan, *_: object) -> bool:
        if plan.layout is None or not plan.layout.has_throttle:
            return False
        plan.throttle = seconds
        return True

    return Action(f"throttle by {seconds:g} s", apply, is_exclusive=False)


def break_off(
    breakage: Breakage,
    *,
    written: bool,
    damage: Callable[[bytes], bytes] | None = None,
) -> Action:
    """Break an exchange off; of several breakages, the first counts."""

    def apply(plan: Plan, *_: object) -> bool:
        if plan.breakage is not None:
            return False
        plan.breakage, plan.written, plan.damage = breakage, written, damage
        return True

    when = "after" if written else "before"
    return Action(f"{breakage} {when} the broker did the work", apply)


def empty(*, written: bool) -> Action:
    """Answer without items and without an error."""

    def apply(plan: Plan, *_: object) -> bool:
        plan.empty = True
        plan.is_made_here = plan.is_made_here or not written
        return plan.layout is not None

    return Action("answer empty", apply)


def edit(function: Callable[[Any], None]) -> Action:
    """Let a function change the decoded answer."""

    def apply(plan: Plan, *_: object) -> bool:
        plan.edits.append(function)
        return plan.layout is not None

    name = getattr(function, "__name__", "a function")
    return Action(f"edit by {name}", apply, is_exclusive=False)


def take_down(seconds: float) -> Action:
    """Make the request's broker unreachable for some time."""

    def apply(plan: Plan, *_: object) -> bool:
        plan.down = seconds
        return True

    return Action(f"take the broker away for {seconds:g} s", apply)


def limit_versions(low: int, high: int) -> Action:
    """Offer only these versions of an API; takes effect without requests too.

    The connection of a request in another version is closed, as a broker does.
    """

    def apply(plan: Plan, *_: object) -> bool:
        if low <= plan.request.version <= high:
            return False
        plan.breakage, plan.written = "close", False
        return True

    text = f"offer versions {low} to {high}" if low <= high else "hide the API"
    return Action(text, apply, is_exclusive=False, versions=(low, high))


def cut(keep: int | None) -> Callable[[bytes], bytes]:
    """Return a function that cuts a frame after ``keep`` bytes; default: its half."""

    def damage(frame: bytes) -> bytes:
        return frame[: len(frame) // 2 if keep is None else keep]

    return damage


def garble(seed: int | None) -> Callable[[bytes], bytes]:
    """Return a function that overwrites a frame's body with noise of equal length."""
    dice = random.Random(seed)  # noqa: S311 - chaos needs no secrecy

    def damage(frame: bytes) -> bytes:
        return frame[:_HEAD] + dice.randbytes(len(frame) - _HEAD)

    return damage


class Fault(Protocol):
    """A fault of a proxy; ``with`` removes it at the end of the block."""

    fired: int
    """How often it was applied."""

    def remove(self) -> None:
        """Remove the fault."""

    def __enter__(self) -> Self:
        """Return the fault."""

    def __exit__(self, *_: object) -> None:
        """Remove the fault."""


@dataclass
class CountedFault:
    """A fault, which counts how often it was applied.

    Args:
        match: Selects the requests.
        action: The effect.
        times: How often it is applied at most; None: no limit.
        skip: How many matching requests pass before the first one.
        rate: The share of matching requests to which it is applied, 0 to 1.
        seed: Makes the choice of that share repeatable.
        owner: The owner, which removes it.
    """

    match: Match
    action: Action
    times: int | None = None
    skip: int = 0
    rate: float = 1.0
    seed: int | None = None
    owner: Callable[[CountedFault], None] | None = None
    fired: int = field(default=0, init=False)
    """How often it was applied."""

    def __post_init__(self) -> None:
        """Seed the random numbers."""
        self._dice = random.Random(self.seed)  # noqa: S311 - chaos needs no secrecy
        self._seen = 0

    @property
    def is_spent(self) -> bool:
        """Whether it was applied as often as ``times`` allows."""
        return self.times is not None and self.fired >= self.times

    def select(self, request: DecodedRequest) -> list[Item] | None:
        """Return the selected items of a request; None if it is not selected now.

        All matching requests count, also those that another fault decides about.
        """
        if self.is_spent or not self.match.matches(request):
            return None
        items = [item for item in request.items if self.match.matches_item(item)]
        if not items and (request.items or self.match.selects_items):
            return None
        return items if self._is_due() else None

    def remove(self) -> None:
        """Remove the fault."""
        if self.owner is not None:
            self.owner(self)

    def __enter__(self) -> Self:
        """Return the fault, which is removed at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the fault."""
        self.remove()

    def __str__(self) -> str:
        """Describe the fault in words."""
        return self.action.text

    def _is_due(self) -> bool:
        self._seen += 1
        if self._seen <= self.skip:
            return False
        return self.rate >= 1.0 or self._dice.random() < self.rate
