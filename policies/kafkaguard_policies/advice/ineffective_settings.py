"""Settings of a policy that have no effect together."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from kafkaguard_policies.model.fields import UNBOUNDED_COUNT
from kafkaguard_policies.model.policy import ways_of_rejecting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkaguard_policies.model.policy import Backoff, PolicyDocument


def find_doubts(policy: PolicyDocument) -> tuple[str, ...]:
    """Return settings of a valid policy that leave another one without effect.

    Returns:
        A sentence for each: both settings, what happens, and what would work.
    """
    checks = (
        _no_retry,
        _no_probe,
        _own_letters,
        _no_letters,
        _no_factor,
        _no_budget,
        _only_budget,
    )
    return tuple(text for check in checks for text in check(policy))


def _no_retry(policy: PolicyDocument) -> Iterator[str]:
    shortest = _shortest_wait(policy.backoff)
    if policy.max_attempts > 1 and policy.deadline <= shortest:
        yield (
            f"deadline ({policy.deadline:g} s) is over before the first wait "
            f"({shortest:g} s at least): no retry ever happens; give a longer deadline "
            f"or a shorter backoff.base"
        )


def _no_probe(policy: PolicyDocument) -> Iterator[str]:
    breaker = policy.breaker
    if breaker is None or breaker.when_open != "pause":
        return
    if breaker.open_for > policy.deadline:
        yield (
            f"breaker.open_for ({breaker.open_for:g} s) is longer than deadline "
            f"({policy.deadline:g} s): with when_open: pause most calls fail, not "
            f"wait for the probe; give a longer deadline or a shorter open_for"
        )


def _own_letters(policy: PolicyDocument) -> Iterator[str]:
    topic = policy.dead_letter.topic
    if "{topic}" in topic:
        return
    for index, override in enumerate(policy.overrides):
        on_reject = override.on_reject or policy.on_reject
        if on_reject == "dead_letter" and topic in override.when.topic:
            yield (
                f"overrides[{index}] is about topic {topic}, which is "
                f"dead_letter.topic itself: a record that it refuses has no dead "
                f"letter and fails; name another topic, or give that override "
                f"on_reject: raise"
            )


def _no_letters(policy: PolicyDocument) -> Iterator[str]:
    default = type(policy).model_fields["dead_letter"].default
    if policy.dead_letter == default or "dead_letter" in ways_of_rejecting(policy):
        return
    yield (
        f"dead_letter has no effect with on_reject: {policy.on_reject}: no record "
        f"becomes a dead letter; give on_reject: dead_letter, or leave dead_letter out"
    )


def _no_factor(policy: PolicyDocument) -> Iterator[str]:
    parts = {"backoff": policy.backoff} | {
        f"overrides[{index}].backoff": each.backoff
        for index, each in enumerate(policy.overrides)
        if each.backoff is not None
    }
    for place, part in parts.items():
        default = type(part).model_fields["factor"].default
        if part.kind != "exponential" and part.factor != default:
            yield (
                f"{place}.factor ({part.factor:g}) has no effect with kind: "
                f"{part.kind}; give kind: exponential, or leave factor out"
            )


def _no_budget(policy: PolicyDocument) -> Iterator[str]:
    for index, override in enumerate(policy.overrides):
        if policy.budget is None and override.cost is not None:
            yield (
                f"overrides[{index}].cost ({override.cost:g}) has no effect with "
                f"budget: none; give a budget, or leave cost out"
            )


def _only_budget(policy: PolicyDocument) -> Iterator[str]:
    is_endless = policy.max_attempts == UNBOUNDED_COUNT and policy.deadline == inf
    if policy.budget is None or not is_endless:
        return
    yield (
        f"max_attempts and deadline are unbounded, and budget.capacity "
        f"({policy.budget.capacity:g}) ends a call all the same, when nothing has "
        f"succeeded for as many retries; give budget: none for a call without an end, "
        f"or a number for max_attempts or deadline"
    )


def _shortest_wait(backoff: Backoff) -> float:
    """Return the shortest first wait that the jitter allows."""
    share = {"none": 1.0, "equal": 0.5, "full": 0.0}[backoff.jitter]
    return max(backoff.floor, share * min(backoff.base, backoff.cap))
