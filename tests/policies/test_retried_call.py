"""One call by hand: its breaker, its budget, and how its attempts are numbered."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaguard import Action, RetryPolicy, classify, errors
from kafkaguard._retries.breaker import BreakerState
from kafkaguard.policies import CallContext, StopReason, outcome_of
from tests.policies.helpers import FakeTime, Script, retrier

#: An error for each action, as answers to a Produce request.
SAID = {
    Action.RETRY: errors.NotEnoughReplicasError,
    Action.REFRESH: errors.LeaderNotAvailableError,
    Action.WAIT: errors.ThrottlingQuotaExceededError,
    Action.IN_DOUBT: errors.RequestTimedOutError,
    Action.RECREATE: errors.OutOfOrderSequenceNumberError,
    Action.REJECT: errors.MessageTooLargeError,
    Action.CONFIGURE: errors.TopicAuthorizationFailedError,
    Action.ABORT: errors.TransactionAbortableError,
    Action.REJOIN: errors.IllegalGenerationError,
    Action.FENCED: errors.ProducerFencedError,
    Action.IGNORE: errors.DuplicateSequenceNumberError,
}
#: Those that say that the cluster is unwell.
UNWELL = {Action.RETRY, Action.REFRESH, Action.IN_DOUBT, Action.RECREATE}
BREAKING = RetryPolicy(
    backoff={"kind": "fixed", "base": 1, "jitter": "none"},
    breaker={"failures": 3, "open_for": 30, "probes": 1},
    max_attempts=50,
)


def test_the_errors_stand_for_their_actions():
    """What is used below has the verdict that it stands for."""
    actions = {
        action: classify(cls(api="Produce")).action for action, cls in SAID.items()
    }
    assert {action: action for action in Action} == actions


def fail(one, action):
    """Let one call fail once, with an error that stands for an action."""
    call = one.start_call()
    assert call.begin() is None
    return call.failed(SAID[action](api="Produce"))


def opened(**settings):
    """A retrier whose breaker has just opened, and its time."""
    time = FakeTime()
    one = retrier(BREAKING.replace(**settings), time, api="Produce")
    for _ in range(3):
        fail(one, Action.RETRY)
    assert BreakerState.OPEN is one.shared.breaker.state
    return one, time


@given(st.lists(st.sampled_from(list(Action)), max_size=12))
def test_the_breaker_counts_what_says_that_the_cluster_is_unwell(actions):
    """In a row: what a broker answers well, or refuses, begins the row anew."""
    one = retrier(BREAKING, api="Produce")
    strikes = 0
    for action in actions:
        fail(one, action)
        strikes = strikes + 1 if action in UNWELL else 0
        if strikes == 3:
            break
    state = BreakerState.OPEN if strikes == 3 else BreakerState.CLOSED
    assert state is one.shared.breaker.state
    assert bool(strikes) == one.shared.breaker.disturbed


@pytest.mark.parametrize("action", list(Action))
def test_a_probe_that_is_refused_closes_the_breaker(action):
    """The cluster has answered; only what says that it is unwell opens it again."""
    one, time = opened()
    time.now += 30
    fail(one, action)
    well = action not in UNWELL
    assert (BreakerState.CLOSED if well else BreakerState.OPEN) is (
        one.shared.breaker.state
    )


def test_a_success_forgets_the_failures_before_it():
    """Two failures, a success, two failures: not three in a row."""
    one = retrier(BREAKING, api="Produce")
    for _ in range(2):
        fail(one, Action.RETRY)
        fail(one, Action.RETRY)
        call = one.start_call()
        assert call.begin() is None
        call.succeeded()
        assert not one.shared.breaker.disturbed


def test_a_call_that_does_not_probe_frees_nobodys_probe():
    """It began before the breaker opened, and is cancelled while another one probes."""
    time = FakeTime()
    one = retrier(BREAKING, time, api="Produce")
    early = one.start_call()
    assert early.begin() is None
    for _ in range(3):
        fail(one, Action.RETRY)
    time.now += 30
    assert one.start_call().begin() is None  # the probe
    early.abandoned()
    assert one.start_call().begin().reason is StopReason.BREAKER_OPEN


def test_a_failed_probe_holds_no_place_any_more():
    """Cancelled after it has failed, it frees no place of the next probe."""
    one, time = opened(breaker={"failures": 3, "open_for": 30, "probes": 1})
    time.now += 30
    probe = one.start_call()
    assert probe.begin() is None
    probe.failed(SAID[Action.RETRY](api="Produce"))
    time.now += 30
    assert one.start_call().begin() is None
    probe.abandoned()
    assert one.start_call().begin().reason is StopReason.BREAKER_OPEN


def test_what_the_open_breaker_refuses_says_where_and_why():
    """The request and the topic of the call, since when and until when."""
    one, time = opened()
    time.now += 10
    call = one.start_call()
    step = call.begin()
    assert (step.kind, step.reason) == ("stop", StopReason.BREAKER_OPEN)
    assert call.error.api == "Produce"
    text = (
        "open since 10 s, because calls kept failing; it lets a probe through in 20 s"
    )
    assert text in str(call.error)
    assert outcome_of(call.error) is call.outcome


def test_a_pause_for_the_breaker_costs_no_attempt():
    """The call waits as long as the breaker says, then probes."""
    rules = {"failures": 3, "open_for": 30, "when_open": "pause"}
    one, time = opened(breaker=rules)
    time.now += 12
    call = one.start_call()
    assert call.begin()[:2] == ("again", 18)
    assert call.outcome is None
    time.now += 18
    assert call.begin() is None
    call.failed(SAID[Action.REJECT](api="Produce"))
    assert [attempt.number for attempt in call.outcome.attempts] == [1]


def test_waits_have_the_number_of_the_attempt_that_they_delay():
    """WAIT, a failure, WAIT, a failure: attempts 1, 1, 2, 2."""
    time = FakeTime()
    call = retrier(BREAKING, time, api="Produce").start_call()
    for action in (Action.WAIT, Action.RETRY, Action.WAIT, Action.REJECT):
        time.now += 0.5
        call.failed(SAID[action](api="Produce"))
    attempts = call.outcome.attempts
    assert [attempt.number for attempt in attempts] == [1, 1, 2, 2]
    assert [attempt.elapsed for attempt in attempts] == [0.5, 1.0, 1.5, 2.0]
    assert [attempt.wait for attempt in attempts] == [1.0, 1.0, 1.0, 0.0]
    assert call.outcome.elapsed == 2.0
    assert (
        call.outcome.reason,
        call.possible_duplicate,
    ) == (StopReason.REJECTED, False)


def test_an_attempt_that_a_guard_inside_gave_up_is_an_attempt():
    """The outer call failed once by itself, so the nested one is its second."""
    time, events = FakeTime(), []
    inner = retrier(BREAKING.replace(max_attempts=2), time, api="Produce")
    first = Script(SAID[Action.RETRY](api="Produce"), None)
    failing = Script(SAID[Action.RETRY](api="Produce"))

    def work():
        first()
        inner.run(failing)

    outer = retrier(BREAKING, time, api="Produce", hooks=[events.append])
    with pytest.raises(errors.NotEnoughReplicasError) as caught:
        outer.run(work)
    outcome = outcome_of(caught.value)
    assert (outcome.reason, failing.calls) == (StopReason.NESTED, 2)
    assert [attempt.number for attempt in outcome.attempts] == [1, 2]
    assert events[-1].attempts == 2


def test_the_budget_pays_for_retries_alone():
    """Not for the first attempt, nor for a failure that ends the call."""
    policy = BREAKING.replace(breaker=None, budget={"capacity": 2, "deposit": 0.5})
    one = retrier(policy, api="Produce")
    call = one.start_call()
    steps = [call.failed(SAID[Action.RETRY](api="Produce")) for _ in range(3)]
    assert [step.kind for step in steps] == ["again", "again", "stop"]
    assert StopReason.BUDGET is call.outcome.reason
    assert one.shared.budget.tokens == 0
    fail(one, Action.REJECT)
    fail(one, Action.WAIT)
    assert one.shared.budget.tokens == 0
    one.start_call().succeeded()
    assert one.shared.budget.tokens == 0.5


def test_the_time_that_is_left_for_a_call():
    """The caller's deadline, the policy's, and that of one attempt: the least counts."""
    time = FakeTime()
    one = retrier(BREAKING.replace(deadline=20, attempt_timeout=8), time)
    call = one.start_call(deadline=15)
    assert (call.remaining, call.attempt_timeout) == (15, 8)
    time.now += 10
    assert (call.remaining, call.attempt_timeout) == (5, 5)
    endless = retrier(BREAKING.replace(deadline="unbounded"), time).start_call()
    assert endless.attempt_timeout is None
    time.now += 5
    call.failed(SAID[Action.RETRY](api="Produce"))
    assert StopReason.DEADLINE is call.outcome.reason


def test_a_deadline_that_has_passed_makes_no_attempt():
    """A deadline that ends now allows none either: an attempt needs time."""
    time = FakeTime()
    call = retrier(BREAKING, time, api="Produce").start_call(deadline=10)
    assert call.failed(SAID[Action.RETRY](api="Produce")).kind == "again"
    time.now += 10
    step = call.begin()
    assert (step.kind, step.reason) == ("stop", StopReason.DEADLINE)


def test_the_brokers_wish_to_wait_is_in_milliseconds():
    """The error's attribute is in milliseconds, a wait in seconds."""
    error = SAID[Action.WAIT](api="Produce")
    error.throttle_time_ms = 2_500
    call = retrier(BREAKING, api="Produce").start_call()
    assert call.failed(error).wait == 2.5


def test_the_verdict_that_a_guard_has_given_stands():
    """It knew more than the error's code says."""
    given_one = errors.RequestTimedOutError(verdict=classify(7, api="Fetch"))
    call = retrier(BREAKING, api="Produce").start_call()
    assert call.failed(given_one).kind == "again"
    assert call.failed(errors.RequestTimedOutError()).reason is StopReason.IN_DOUBT


def test_a_repair_that_raises_ends_the_call_with_its_text():
    """Type and words of what went wrong, beside the failure itself."""
    call = retrier(
        BREAKING, api="Produce", repairs={Action.REFRESH: print}
    ).start_call()
    step = call.failed(SAID[Action.REFRESH](api="Produce"))
    assert Action.REFRESH is step.repair
    step = call.repair_failed(OSError("no route"))
    assert (step.kind, step.reason) == ("stop", StopReason.REPAIR_FAILED)
    assert call.outcome.repair_error == "OSError: no route"


def told(action, **settings):
    """The events of one call that fails once with an example of an action."""
    events = []
    repairs = settings.pop("repairs", None)
    one = retrier(
        BREAKING.replace(**settings),
        api="Produce",
        hooks=[events.append],
        repairs=repairs or {},
    )
    one.start_call().failed(SAID[action](api="Produce"))
    return [event.name.removeprefix("kafkaguard.") for event in events]


@pytest.mark.parametrize(
    ("action", "settings", "names"),
    [
        (Action.RETRY, {}, ["attempt", "retry"]),
        (Action.WAIT, {}, ["wait"]),
        (Action.IGNORE, {}, ["attempt"]),
        (Action.REJECT, {}, ["attempt", "reject", "give_up"]),
        (Action.CONFIGURE, {}, ["attempt", "give_up"]),
        (
            Action.REFRESH,
            {"repairs": {Action.REFRESH: print}},
            ["attempt", "retry", "refresh"],
        ),
        (
            Action.RECREATE,
            {"repairs": {Action.RECREATE: print}},
            ["attempt", "retry", "recreate"],
        ),
        (
            Action.RETRY,
            {"budget": {"capacity": 1, "cost": {"RETRY": 2}}},
            ["attempt", "budget_exhausted", "give_up"],
        ),
    ],
)
def test_each_failure_is_told_as_what_it_is(action, settings, names):
    """The names of the events show it, in order."""
    assert names == told(action, **settings)


def test_a_dead_client_in_doubt_is_told_of_as_replaced():
    """The call ends, and the repair for the calls after it is told."""
    events = []
    one = retrier(
        BREAKING, hooks=[events.append], repairs={Action.RECREATE: print}, api="Produce"
    )
    step = one.start_call().failed(errors.for_code(-150)())
    assert (step.reason, step.repair) == (StopReason.IN_DOUBT, Action.RECREATE)
    names = [event.name.removeprefix("kafkaguard.") for event in events]
    assert names == ["attempt", "recreate", "give_up"]


def test_the_breaker_tells_of_each_of_its_steps():
    """Open, half-open when a probe is let through, closed; and a pause is a wait."""
    rules = {"failures": 3, "open_for": 30, "when_open": "pause"}
    events, time = [], FakeTime()
    one = retrier(
        BREAKING.replace(breaker=rules), time, api="Produce", hooks=[events.append]
    )
    for _ in range(3):
        fail(one, Action.RETRY)
    waiting = one.start_call()
    assert waiting.begin().wait == 30
    assert events[-1].wait == 30
    time.now += 30
    assert waiting.begin() is None
    waiting.succeeded()
    moves = [(e.old, e.new) for e in events if e.name == "kafkaguard.breaker"]
    closed, open_, half_open = BreakerState
    assert moves == [(closed, open_), (open_, half_open), (half_open, closed)]
    assert events[-1].name == "kafkaguard.breaker"


def test_what_may_be_there_twice_is_told_with_each_attempt_after_it():
    """The success is marked too; a call without a doubt has no such mark."""
    for action, settings, possible in (
        (Action.IN_DOUBT, {"in_doubt": "resend"}, True),
        (Action.RETRY, {}, False),
    ):
        events = []
        one = retrier(
            BREAKING.replace(**settings), api="Produce", hooks=[events.append]
        )
        call = one.start_call()
        call.failed(SAID[action](api="Produce"))
        call.failed(SAID[Action.RETRY](api="Produce"))
        call.succeeded()
        attempts = [e for e in events if e.name == "kafkaguard.attempt"]
        assert [possible] * 3 == [e.possible_duplicate for e in attempts]
        assert [e.number for e in attempts] == [1, 2, 3]


def test_the_last_failure_and_its_ruling_are_told_at_the_end():
    """What an override says of this failure, not what the policy says of others."""
    override = {"when": {"code": 10}, "on_reject": "drop", "deadline": 7}
    events = []
    one = retrier(
        BREAKING.replace(overrides=[override]), api="Produce", hooks=[events.append]
    )
    call = one.start_call()
    assert call.remaining == 120
    call.failed(SAID[Action.REJECT](api="Produce"))
    assert call.remaining == 7
    rejected, gave_up = events[-2:]
    assert (rejected.on_reject, rejected.error) == ("drop", "MESSAGE_TOO_LARGE")
    assert (gave_up.error, gave_up.attempts) == ("MESSAGE_TOO_LARGE", 1)


def test_a_repeatable_call_is_tried_again_whatever_was_written():
    """Its caller repeats a batch with its sequence number."""
    context = CallContext(api="Produce", repeatable=True)
    call = retrier(BREAKING, context=context).start_call()
    assert call.failed(SAID[Action.IN_DOUBT](api="Produce")).kind == "again"
    assert not call.possible_duplicate


def test_an_idempotent_producers_answer_is_judged_as_one():
    """What the context knows of the producer goes into the verdict."""
    known = {"api": "Produce", "idempotent": True}
    answered = errors.RequestTimedOutError(verdict=classify(7, **known))
    call = retrier(BREAKING, context=CallContext(**known)).start_call()
    assert call.failed(answered).kind == "again"


def test_by_hand_nothing_is_nested():
    """Only where a function is called there may be a guard inside."""
    time = FakeTime()
    error = SAID[Action.RETRY](api="Produce")
    inner = retrier(BREAKING.replace(max_attempts=1), time, api="Produce")
    with pytest.raises(errors.NotEnoughReplicasError):
        inner.run(Script(error))
    call = retrier(BREAKING, time, api="Produce").start_call()
    assert call.failed(error).kind == "again"
