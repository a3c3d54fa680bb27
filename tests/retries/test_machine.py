"""The state machine of retries: what it allows, and what it never does."""

from __future__ import annotations

import math
from random import Random
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kafkaguard import Action, classify
from kafkaguard._retries.budget import RetryBudget
from kafkaguard._retries.machine import (
    DONE,
    CallContext,
    Machine,
    Ruling,
    StopReason,
)

#: A code, and what else must be known, for each action.
EXAMPLES = {
    Action.IGNORE: (46, {"api": "Produce"}),
    Action.RETRY: (14, {"api": "FindCoordinator"}),
    Action.REFRESH: (6, {"api": "Fetch"}),
    Action.WAIT: (89, {"api": "CreateTopics"}),
    Action.REJOIN: (22, {"api": "OffsetCommit"}),
    Action.ABORT: (120, {"api": "EndTxn"}),
    Action.REJECT: (10, {"api": "Produce"}),
    Action.IN_DOUBT: (7, {"api": "Produce"}),
    Action.CONFIGURE: (29, {"api": "Produce"}),
    Action.RECREATE: (45, {"api": "Produce"}),
    Action.FENCED: (90, {"api": "Produce"}),
}
VERDICTS = {action: classify(code, **kw) for action, (code, kw) in EXAMPLES.items()}
RETRIED = (Action.RETRY, Action.REFRESH)
REPAIRED = (Action.REJOIN, Action.ABORT, Action.RECREATE)


def ruling(action, **changes):
    """What a policy of five attempts in 100 s says."""
    backoff = SimpleNamespace(
        kind="exponential", base=1.0, factor=2.0, floor=0.5, cap=8.0, jitter="full"
    )
    backoff.honour_throttle = True
    values = {"action": action, "max_attempts": 5, "max_waits": 10, "deadline": 100.0}
    values |= {"backoff": backoff, "in_doubt": "raise", "on_reject": "raise"}
    return Ruling(**{**values, "cost": 1.0, **changes})


def machine(**changes):
    """A machine that began at 0 and always draws one half."""
    return Machine(0.0, lambda: 0.5, **changes)


def failed(one, action, now=0.0, **changes):
    """Let a machine fail with an example of an action."""
    return one.failed(VERDICTS[action], ruling(action, **changes), now)


def test_examples_are_examples():
    """The verdicts used here have the actions that they stand for."""
    assert {a: a for a in Action} == {a: v.action for a, v in VERDICTS.items()}


@pytest.mark.parametrize("action", RETRIED)
def test_retries_until_attempts_are_used_up(action):
    """The failure that opens the retry is attempt 1: four more, then the end."""
    one = machine()
    steps = [failed(one, action) for _ in range(5)]
    assert [step.kind for step in steps] == ["again"] * 4 + ["stop"]
    assert StopReason.ATTEMPTS is steps[-1].reason
    assert one.attempts == 5


def test_decorrelated_waits_grow_from_one_failure_to_the_next():
    """Each is drawn up to three times the one before; a pause of the client is none."""
    one = Machine(0.0, lambda: 1.0)
    rules = SimpleNamespace(**vars(ruling(Action.RETRY).backoff))
    rules.kind, rules.jitter, rules.cap = "decorrelated", "none", 1_000.0
    rules.base = 0.5
    waits = [
        failed(one, action, max_attempts=99, deadline=math.inf, backoff=rules).wait
        for action in (*[Action.RETRY] * 3, Action.WAIT, Action.RETRY)
    ]
    assert waits == [1.5, 4.5, 13.5, 1.5, 40.5]


def test_exponential_waits_grow_with_failures_and_not_with_waits():
    """A full queue in between neither grows the wait after a failure nor resets it."""
    one, waits = machine(), []
    for action in (Action.RETRY, Action.WAIT, Action.WAIT, Action.RETRY, Action.RETRY):
        waits.append(failed(one, action).wait)
    assert waits == [0.5, 0.5, 1.0, 1.0, 2.0]
    assert (one.attempts, one.waits) == (3, 2)


def test_refresh_asks_for_a_refresh_where_there_is_one():
    """With a repair for it the step says so; without one waiting must do."""
    assert (
        Action.REFRESH
        is failed(machine(repairs={Action.REFRESH}), Action.REFRESH).repair
    )
    assert failed(machine(), Action.REFRESH).repair is None


@pytest.mark.parametrize("action", REPAIRED)
def test_repairs_come_before_the_next_attempt(action):
    """REJOIN, ABORT and RECREATE go on after a repair, and stop without one."""
    step = failed(machine(repairs={action}), action)
    assert ("again", action) == (step.kind, step.repair)
    step = failed(machine(), action)
    assert ("stop", StopReason(action.value)) == (step.kind, step.reason)


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        (Action.REJECT, StopReason.REJECTED),
        (Action.CONFIGURE, StopReason.CONFIGURE),
        (Action.FENCED, StopReason.FENCED),
        (Action.IN_DOUBT, StopReason.IN_DOUBT),
    ],
)
def test_what_ends_a_call_ends_it_at_once(action, reason):
    """No second attempt, whatever can be repaired."""
    step = failed(machine(repairs=set(Action)), action)
    assert ("stop", reason, None) == (step.kind, step.reason, step.repair)


def test_fenced_stops_against_every_ruling():
    """No override makes the guard fence another instance back."""
    step = machine().failed(VERDICTS[Action.FENCED], ruling(Action.RETRY), 0.0)
    assert StopReason.FENCED is step.reason


@pytest.mark.parametrize("action", [Action.REJECT, Action.CONFIGURE, Action.ABORT])
def test_what_is_not_repeated_is_not_in_doubt(action):
    """An override orders it of a call that may have succeeded."""
    step = machine().failed(VERDICTS[Action.IN_DOUBT], ruling(action), 0.0)
    names = {Action.REJECT: "REJECTED"}
    assert names.get(action, action.value) == step.reason


def test_an_aborted_transaction_leaves_nothing_in_doubt():
    """What may have been written is aborted with it, so the next attempt is safe."""
    one = machine(repairs={Action.ABORT})
    step = one.failed(VERDICTS[Action.IN_DOUBT], ruling(Action.ABORT), 0.0)
    assert (step.kind, one.possible_duplicate) == ("again", False)


def test_ignore_is_no_failure():
    """The call is done, and nothing is tried again."""
    assert failed(machine(), Action.IGNORE) is DONE


def test_wait_costs_no_attempt_and_has_a_bound_of_its_own():
    """A full queue is waited for as often as max_waits says, then it ends."""
    one = machine()
    steps = [failed(one, Action.WAIT, max_waits=3) for _ in range(4)]
    assert [step.kind for step in steps] == ["again"] * 3 + ["stop"]
    assert StopReason.WAITS is steps[-1].reason
    assert one.attempts == 0


def test_in_doubt_goes_on_where_it_is_allowed_and_says_so():
    """in_doubt: resend tries again and marks a possible duplicate."""
    one = machine()
    assert failed(one, Action.IN_DOUBT, in_doubt="resend").kind == "again"
    assert one.possible_duplicate


def test_an_ordered_retry_of_a_possible_write_is_still_in_doubt():
    """An override to RETRY alone does not allow to write twice."""
    doubt = VERDICTS[Action.IN_DOUBT]
    step = machine().failed(doubt, ruling(Action.RETRY), 0.0)
    assert StopReason.IN_DOUBT is step.reason


def test_a_repeatable_call_is_never_in_doubt():
    """Whoever repeats a batch with its sequence number cannot write it twice."""
    one = machine(repeatable=True)
    assert failed(one, Action.IN_DOUBT).kind == "again"
    assert not one.possible_duplicate


@pytest.mark.parametrize(
    ("code", "context"),
    [
        (7, {"api": "EndTxn"}),
        (7, {"api": "CreateTopics"}),
        (7, {"api": "Produce", "idempotent": True}),
    ],
)
def test_a_verdict_to_repeat_what_may_be_done_is_followed(code, context):
    """It says that doing it again does no harm: a commit, a topic, a sequence."""
    verdict = classify(code, **context)
    assert (verdict.action, verdict.written) == (Action.RETRY, "maybe")
    one = machine()
    assert one.failed(verdict, ruling(verdict.action), 0.0).kind == "again"
    assert not one.possible_duplicate


def test_a_dead_client_in_doubt_is_replaced_but_its_call_ends():
    """RECREATE with written=maybe repairs for later calls and sends nothing again."""
    verdict = classify(-150, client="confluent-kafka")
    assert (verdict.action, verdict.written) == (Action.RECREATE, "maybe")
    one = machine(repairs={Action.RECREATE})
    step = one.failed(verdict, ruling(Action.RECREATE), 0.0)
    assert (
        step.kind,
        step.repair,
        step.reason,
    ) == ("stop", Action.RECREATE, StopReason.IN_DOUBT)


def test_deadline_covers_waits_and_attempts():
    """A wait that would end after the deadline is not begun."""
    assert StopReason.DEADLINE is failed(machine(), Action.RETRY, now=99.5).reason
    assert (
        StopReason.DEADLINE is failed(machine(until=1.0), Action.RETRY, now=0.6).reason
    )
    assert failed(machine(until=1.6), Action.RETRY, now=0.6).kind == "again"


def test_budget_ends_it_and_only_real_retries_pay():
    """The last token allows one retry; a failure that ends anyway takes none."""
    bucket = RetryBudget(1, 0)
    assert failed(machine(bucket=bucket), Action.REJECT).kind == "stop"
    assert failed(machine(bucket=bucket), Action.RETRY, now=99.9).reason == "DEADLINE"
    assert bucket.tokens == 1
    assert failed(machine(bucket=bucket), Action.RETRY).kind == "again"
    assert StopReason.BUDGET is failed(machine(bucket=bucket), Action.RETRY).reason


def test_a_stop_says_that_it_is_one():
    """With its reason: time, money, or the breaker; at the very deadline, too."""
    stops = (
        (failed(machine(), Action.RETRY, now=99.5), StopReason.DEADLINE),
        (failed(machine(bucket=RetryBudget(0, 0)), Action.RETRY), StopReason.BUDGET),
        (machine().paused(40.0, ruling(Action.RETRY), 60.0), StopReason.BREAKER_OPEN),
    )
    for step, reason in stops:
        assert (step.kind, step.reason) == ("stop", reason)
    assert machine().paused(39.9, ruling(Action.RETRY), 60.0).kind == "again"


def test_a_policy_may_call_a_failure_doubtful():
    """An override to IN_DOUBT of what was surely not written is obeyed."""
    step = machine().failed(VERDICTS[Action.RETRY], ruling(Action.IN_DOUBT), 0.0)
    assert (step.kind, step.reason) == ("stop", StopReason.IN_DOUBT)


def test_what_is_not_sent_again_is_no_possible_duplicate():
    """In doubt at the last attempt: nothing follows that could be the second copy."""
    one = machine()
    step = failed(one, Action.IN_DOUBT, in_doubt="resend", max_attempts=1)
    assert step.reason is StopReason.ATTEMPTS
    assert not one.possible_duplicate


def test_only_a_dead_client_is_repaired_in_doubt():
    """A doubt about a live one needs no other client."""
    one = machine(repairs={Action.RECREATE})
    assert failed(one, Action.IN_DOUBT).repair is None
    dead = classify(-150, client="confluent-kafka")
    assert machine().failed(dead, ruling(Action.RECREATE), 0.0).repair is None


def test_a_pause_is_never_below_the_floor():
    """The pause for an open breaker has a lower bound."""
    assert machine().paused(0.1, ruling(Action.RETRY), 0.0).wait == 0.5


@pytest.mark.parametrize(
    "known",
    [{"null_key": 1}, {"idempotent": 1}, {"transactional": 1}, {"repeatable": None}],
)
def test_a_context_takes_no_number_for_a_flag(known):
    """A CallContext with a number for a flag raises TypeError with its name."""
    with pytest.raises(TypeError, match=next(iter(known))):
        CallContext(**known)


def test_a_pause_waits_for_the_breaker_within_the_deadline():
    """No attempt is counted, and a deadline that is too near ends it."""
    one = machine()
    assert one.paused(30.0, ruling(Action.RETRY), 0.0)[:2] == ("again", 30.0)
    assert one.attempts == 0
    assert one.paused(30.0, ruling(Action.RETRY), 80.0).reason == "BREAKER_OPEN"


class EngineMachine(RuleBasedStateMachine):
    """Failures of all kinds, in any order, with time passing as the steps say."""

    @initialize(
        attempts=st.integers(1, 6),
        waits=st.integers(0, 6),
        deadline=st.sampled_from([3.0, 20.0, math.inf]),
        until=st.sampled_from([2.0, 10.0, math.inf]),
        tokens=st.integers(1, 8),
        seed=st.integers(0, 1000),
        resend=st.sampled_from(["raise", "report", "resend"]),
    )
    def start(self, attempts, waits, deadline, until, tokens, seed, resend):
        """Begin a call under some policy."""
        self.bounds = {"max_attempts": attempts, "max_waits": waits}
        self.bounds |= {"deadline": deadline, "in_doubt": resend}
        self.until = min(deadline, until)
        self.tokens = tokens
        self.seed, self.history = seed, []
        self.bucket = RetryBudget(tokens, 0)
        self.machine = self.fresh(self.bucket)
        self.now, self.calls, self.waited, self.paid, self.over = 0.0, 1, 0, 0, False

    def fresh(self, bucket):
        """Make a machine with the policy and the seed of this run."""
        return Machine(
            0.0,
            Random(self.seed).random,
            bucket=bucket,
            repairs=set(Action),
            until=self.until,
        )

    @rule(
        action=st.sampled_from(list(Action)),
        throttle=st.sampled_from([0.0, 0.0, 0.3, 30.0]),
        cost=st.sampled_from([0.0, 1.0, 2.0]),
    )
    def fail(self, action, throttle, cost):
        """The attempt fails; if there is another one, the wait passes first."""
        if self.over:
            return
        said = ruling(action, cost=cost, **self.bounds)
        arguments = (VERDICTS[action], said, self.now, throttle)
        step = self.machine.failed(*arguments)
        self.history.append((arguments, step))
        if step.kind != "again":
            self.over = True
            return
        assert step.wait >= max(said.backoff.floor, throttle)
        assert self.now + step.wait < self.until
        assert action not in {Action.REJECT, Action.CONFIGURE, Action.FENCED}
        assert action is not Action.IN_DOUBT or said.in_doubt == "resend"
        self.now += step.wait
        self.paid += cost
        self.waited += action is Action.WAIT
        self.calls += action is not Action.WAIT

    @invariant()
    def within_the_bounds(self):
        """Never more attempts, waits, time or tokens than allowed."""
        if hasattr(self, "machine"):
            assert self.calls <= self.bounds["max_attempts"]
            assert self.waited <= self.bounds["max_waits"]
            assert self.now < self.until
            assert self.paid <= self.tokens
            assert self.tokens - self.paid == self.bucket.tokens

    def teardown(self):
        """The same failures with the same seed give the same steps."""
        if hasattr(self, "machine"):
            again = self.fresh(RetryBudget(self.tokens, 0))
            replayed = [again.failed(*arguments) for arguments, _ in self.history]
            assert [step for _, step in self.history] == replayed


TestEngine = EngineMachine.TestCase


@given(st.integers(0, 2**32), st.integers(2, 50))
def test_same_seed_same_schedule(seed, length):
    """Two machines with the same random numbers draw the same waits."""

    def schedule():
        one = Machine(0.0, Random(seed).random)
        return [
            failed(one, Action.RETRY, max_attempts=99, deadline=math.inf).wait
            for _ in range(length)
        ]

    assert schedule() == schedule()
