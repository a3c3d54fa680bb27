"""Settings of a policy that have no effect together."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkaguard_policies.model.policy import Backoff, PolicyDocument


def doubts(policy: PolicyDocument) -> tuple[str, ...]:
    """Return settings of a valid policy that leave another one without effect.

    Returns:
        A sentence for each: both settings, what happens, and what would work.
    """
    return (*_no_retry(policy), *_no_probe(policy), *_own_letters(policy))


def _no_retry(policy: PolicyDocument) -> Iterator[str]:
    shortest = _shortest(policy.backoff)
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


def _shortest(backoff: Backoff) -> float:
    """Return the shortest first wait that the jitter allows."""
    share = {"none": 1.0, "equal": 0.5, "full": 0.0}[backoff.jitter]
    return max(backoff.floor, share * min(backoff.base, backoff.cap))
