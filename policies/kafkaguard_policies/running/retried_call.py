"""One call after its first failure: classify, ask the policy, call the hooks.

The retry machine decides. This module gives it the verdict, the policy's ruling and the
time.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkaguard._errors import KafkaGuardError
from kafkaguard._errors.base import Action, Verdict
from kafkaguard._retries.breaker import BreakerOpenError
from kafkaguard._retries.events import (
    AttemptEvent,
    BreakerEvent,
    BudgetEvent,
    Event,
    GiveUpEvent,
    RecreateEvent,
    RefreshEvent,
    RejectEvent,
    RetryEvent,
    WaitEvent,
    emit,
)
from kafkaguard._retries.machine import (
    Machine,
    Ruling,
    Step,
    StopReason,
)
from kafkaguard._verdicts.classification import classify
from kafkaguard_policies.running.outcome import (
    Attempt,
    Outcome,
    attach,
    is_of_record,
    outcome_of,
)
from kafkaguard_policies.running.repeats import DONE_BEFORE, is_done_before, report_done

if TYPE_CHECKING:
    from kafkaguard._retries.breaker import Change
    from kafkaguard._verdicts.context import Phase
    from kafkaguard_policies.running.caller import Caller
    from kafkaguard_policies.running.shared_limits import SharedLimits

#: Failures that count for the breaker.
_UNWELL = frozenset({Action.RETRY, Action.REFRESH, Action.IN_DOUBT, Action.RECREATE})
_REPAIR_EVENTS: dict[Action | None, type[Event]] = {
    Action.REFRESH: RefreshEvent,
    Action.RECREATE: RecreateEvent,
}


class _FailedAttempt(NamedTuple):
    """A failed attempt; most are never read."""

    attempts: int
    verdict: Verdict
    action: Action
    time: float
    step: Step

    def attempt(self, started: float) -> Attempt:
        """Return it as part of an outcome."""
        cls = self.verdict.error_class
        return Attempt(
            self.attempts + (self.action is Action.WAIT),
            cls.name,
            cls.code,
            self.action,
            self.verdict.rule.id,
            self.time - started,
            self.step.wait,
        )


class RetriedCall:
    """A call after its first failure, until it succeeds or ends.

    ``failed(error)`` returns the next step, ``succeeded()`` ends the call.

    Attributes:
        error: The last failure.
        outcome: The outcome, or None while the call continues.
        calls: Whether it calls a function, which may contain other retried calls.
    """

    calls = False
    error: Exception | None = None
    outcome: Outcome | None = None
    _ruling: Ruling | None = None
    _probing = False
    #: An earlier attempt may have made the change.
    _may_be_done = False

    def __init__(
        self,
        retrier: Caller,
        shared: SharedLimits,
        started: float,
        until: float,
    ) -> None:
        self._retrier = retrier
        self._shared = shared
        self._policy = shared.policy
        self._context = context = retrier.context
        self._failures: list[_FailedAttempt] = []
        self._machine = Machine(
            started,
            retrier.random,
            bucket=shared.budget,
            repairs=retrier.repairs,
            until=until,
            repeatable=context.repeatable,
        )

    @property
    def possible_duplicate(self) -> bool:
        """Whether something that may have been written was sent again."""
        return self._machine.possible_duplicate

    @property
    def remaining(self) -> float:
        """Seconds until the deadline."""
        ruling = self._ruling or self._policy.first_ruling
        return self._machine.deadline(ruling) - self._retrier.now()

    @property
    def attempt_timeout(self) -> float | None:
        """The time limit of the next attempt in seconds, or None."""
        seconds = min(self._policy.attempt_timeout or math.inf, self.remaining)
        return None if seconds == math.inf else seconds

    def begin(self) -> Step | None:
        """Request the next attempt; return None if it may be made."""
        ruling = self._ruling
        if ruling and self._machine.deadline(ruling) <= self._retrier.now():
            return self._stop(StopReason.DEADLINE)
        breaker = self._shared.breaker
        if not breaker.disturbed:
            return None
        now = self._retrier.now()
        wait, change = breaker.ask(now)
        self._report_change(change)
        if not wait:
            self._probing = True
            return None
        return self._wait_for_breaker(wait, now)

    def _wait_for_breaker(self, wait: float, now: float) -> Step:
        """Wait for the breaker, or give up at once, as the policy says."""
        ruling = self._ruling or self._policy.first_ruling
        rules = self._policy.breaker
        if rules is not None and rules.when_open == "pause":
            step = self._machine.paused(wait, ruling, now)
            if step.kind == "again":
                self._emit(WaitEvent, wait=step.wait)
                return step
        if self.error is None:
            self.error = BreakerOpenError(
                self._shared.breaker.describe(wait, now),
                api=self._context.api,
                topic=self._context.topic,
                client=self._context.client,
            )
        return self._stop(StopReason.BREAKER_OPEN)

    def failed(self, error: Exception) -> Step:
        """Record a failure and return the next step.

        Args:
            error: The exception. If it has ``throttle_time_ms``, the next wait is at
                least that long.
        """
        verdict, now = self._judge(error), self._retrier.now()
        self._may_be_done |= verdict.written == "maybe"
        ruling = self._policy.ruling(verdict, self._context, error)
        self.error, self._ruling = error, ruling
        throttle = getattr(error, "throttle_time_ms", 0) / 1000
        self._report_breaker(verdict, now)
        if self.calls and self._is_given_up_inside(error):
            self._machine.attempts += 1
            step = Step("stop", reason=StopReason.NESTED)
        else:
            step = self._machine.failed(verdict, ruling, now, throttle)
        failure = _FailedAttempt(
            self._machine.attempts, verdict, ruling.action, now, step
        )
        self._failures.append(failure)
        if self._retrier.hooks:
            self._report_failure(failure)
        if step.kind == "stop":
            return self._stop(step.reason, step.repair, verdict)
        if step.kind == "done" and verdict.rule.id in DONE_BEFORE:
            report_done(error, verdict, self._retrier.confirm)
        return step

    def _judge(self, error: Exception) -> Verdict:
        if self._may_be_done and self._context.phase is None:
            verdict = self._classify(error, "repeated")
            if is_done_before(error, verdict):
                return verdict
        if isinstance(error, KafkaGuardError) and error.given_verdict is not None:
            return error.given_verdict
        return self._classify(error, self._context.phase)

    def _classify(self, error: Exception, phase: Phase | None) -> Verdict:
        context = self._context
        return classify(
            error,
            api=context.api,
            client=context.client,
            null_key=context.null_key,
            facts=context.facts,
            idempotent=context.idempotent,
            transactional=context.transactional,
            phase=phase,
        )

    def _is_given_up_inside(self, error: Exception) -> bool:
        """Return whether a retry inside this call has ended with this error.

        It is a retried call, or a guarded producer: newer records of the same key may
        have been accepted since, so another send could put an old value last.
        """
        inner = outcome_of(error)
        is_inside = inner is not None and inner.ended >= self._machine.started
        return is_inside or is_of_record(error)

    def _report_failure(self, failure: _FailedAttempt) -> None:
        """Report a failed attempt and the decision to the hooks."""
        step, action = failure.step, failure.action
        if action is not Action.WAIT:
            self._emit(
                AttemptEvent,
                number=failure.attempts,
                elapsed=failure.time - self._machine.started,
                error=failure.verdict.error_class.name,
                action=action,
                rule=failure.verdict.rule.id,
                possible_duplicate=self.possible_duplicate,
            )
        if step.kind != "again":
            return
        if action is Action.WAIT:
            self._emit(WaitEvent, wait=step.wait)
        else:
            following = failure.attempts + 1
            self._emit(RetryEvent, number=following, wait=step.wait, action=action)
        self._report_repair(step.repair)

    def _report_repair(self, repair: Action | None) -> None:
        if event := _REPAIR_EVENTS.get(repair):
            self._emit(event)

    def _stop(
        self,
        reason: StopReason | None,
        repair: Action | None = None,
        verdict: Verdict | None = None,
        repair_error: str | None = None,
    ) -> Step:
        """End the call: attach the outcome and report it to the hooks."""
        assert self.error is not None
        assert reason is not None
        now = self._retrier.now()
        elapsed = now - self._machine.started
        self.outcome = Outcome(
            reason,
            tuple(f.attempt(self._machine.started) for f in self._failures),
            elapsed,
            self._policy.name,
            self._policy.policy_id,
            self.possible_duplicate,
            repair_error,
            now,
        )
        attach(self.error, self.outcome)
        self._report_repair(repair)
        if self._retrier.hooks:
            self._report_end(reason, elapsed, (verdict or self._judge(self.error)))
        return Step("stop", repair=repair, reason=reason)

    def _report_end(self, reason: StopReason, elapsed: float, verdict: Verdict) -> None:
        error = verdict.error_class.name
        ruling = self._ruling or self._policy.first_ruling
        if reason is StopReason.BUDGET:
            self._emit(BudgetEvent, cost=ruling.cost)
        if reason is StopReason.REJECTED:
            self._emit(RejectEvent, error=error, on_reject=ruling.on_reject)
        self._emit(
            GiveUpEvent,
            reason=reason,
            attempts=self._machine.attempts,
            elapsed=elapsed,
            error=error,
        )

    def repair_failed(self, error: Exception) -> Step:
        """Record that a repair raised; the call ends with its last failure."""
        text = f"{type(error).__name__}: {error}"
        return self._stop(StopReason.REPAIR_FAILED, repair_error=text)

    def succeeded(self) -> None:
        """Record that the last attempt succeeded."""
        self._shared.count_success()
        breaker = self._shared.breaker
        if breaker.disturbed:
            self._report_change(breaker.succeeded(self._retrier.now()))
        if self.error is not None and self._retrier.hooks:
            self._emit(
                AttemptEvent,
                number=self._machine.attempts + 1,
                elapsed=self._retrier.now() - self._machine.started,
                possible_duplicate=self.possible_duplicate,
            )

    def abandoned(self) -> None:
        """Record that the attempt was cancelled; the breaker does not count it."""
        if self._probing:
            self._shared.breaker.abandoned()

    def _report_breaker(self, verdict: Verdict, now: float) -> None:
        breaker = self._shared.breaker
        self._probing = False
        if verdict.action in _UNWELL:
            if change := breaker.failed(now):
                self._report_change(change)
        elif breaker.disturbed:
            self._report_change(breaker.succeeded(now))

    def _report_change(self, change: Change | None) -> None:
        if change is not None:
            self._emit(BreakerEvent, old=change.old, new=change.new)

    def _emit(self, event: type[Event], **details: Any) -> None:
        if hooks := self._retrier.hooks:
            name, policy_id = self._policy.name, self._policy.policy_id
            context = self._context
            emit(
                hooks,
                event(policy=name, policy_id=policy_id, context=context, **details),
            )
