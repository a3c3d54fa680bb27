"""What a policy does about a verdict, in a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkaguard._errors.base import Action, Verdict
from kafkaguard._retries.backoff import worst_wait
from kafkaguard._retries.machine import CallContext, Machine, Ruling, Step
from kafkaguard_policies.model.fields import UNBOUNDED_COUNT
from kafkaguard_policies.running.outcome import SENTENCES

if TYPE_CHECKING:
    from kafkaguard_policies.running.rulings import RuledPolicy

_REPAIRS = {
    Action.REFRESH: "refreshes metadata or the coordinator, then ",
    Action.REJOIN: "polls, checks that the partitions are still owned, then ",
    Action.ABORT: "aborts the transaction, then ",
    Action.RECREATE: "builds a new client, then ",
}


def explain_ruling(
    policy: RuledPolicy,
    verdict: Verdict,
    context: CallContext | None = None,
    error: Any = None,
) -> str:
    """Describe in one sentence what a policy does about a failure.

    Args:
        policy: The policy.
        verdict: What the failure means.
        context: What is known about the call. Default: nothing.
        error: The exception or code, for overrides by code and client.
    """
    ruling = policy.ruling(verdict, context or CallContext(), error)
    step = first_step(policy, verdict, ruling)
    by = "" if ruling.override is None else f" (overrides[{ruling.override}])"
    return (
        f"policy {policy.name} ({policy.policy_id}){by} {describe_step(ruling, step)}"
    )


def first_step(policy: RuledPolicy, verdict: Verdict, ruling: Ruling) -> Step:
    """Ask the machine for its first step, as if all repairs were possible."""
    machine = Machine(0.0, lambda: 0.0, repairs=_REPAIRS, until=policy.deadline)
    return machine.failed(verdict, ruling, 0.0)


def describe_step(ruling: Ruling, step: Step) -> str:
    """Describe the machine's step at the first failure."""
    if step.kind == "done":
        return "goes on: it is not a failure"
    if step.reason is not None:
        return f"stops: {SENTENCES[step.reason]}{_describe_fate(ruling)}"
    longest = f"{worst_wait(ruling.backoff, 1):.3g} s"
    if ruling.action is Action.WAIT:
        return f"waits up to {longest} and tries again{_describe_limit(ruling)}"
    repair = _REPAIRS.get(ruling.action, "")
    return f"{repair}waits up to {longest} and tries again, {_describe_bounds(ruling)}"


def _describe_fate(ruling: Ruling) -> str:
    fates = {
        "dead_letter": "a record goes to the dead-letter topic",
        "drop": "a record is dropped",
    }
    if ruling.action is not Action.REJECT or ruling.on_reject not in fates:
        return ""
    return f"; {fates[ruling.on_reject]}"


def _describe_bounds(ruling: Ruling) -> str:
    attempts = (
        "without a bound on attempts"
        if ruling.max_attempts == UNBOUNDED_COUNT
        else f"at most {ruling.max_attempts} attempts in all"
    )
    return attempts + _describe_limit(ruling)


def _describe_limit(ruling: Ruling) -> str:
    return "" if ruling.deadline == float("inf") else f", within {ruling.deadline:g} s"
