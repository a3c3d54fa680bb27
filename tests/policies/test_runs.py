"""Calls of functions and of coroutines: repairs, cancellations, and what is known."""

from __future__ import annotations

import asyncio
import functools

import pytest

from kafkaguard import Action, RetryPolicy, errors, retry
from kafkaguard.policies import CallContext, StopReason, outcome_of, retry_testing
from tests.policies.helpers import FakeTime, Script, retrier

MOVED = errors.NotLeaderOrFollowerError
FAST = RetryPolicy(backoff={"kind": "fixed", "base": 1, "jitter": "none"})
BREAKING = FAST.replace(breaker={"failures": 1, "open_for": 30}, max_attempts=1)


def run(one, script):
    """Call a plain function."""
    return one.run(script)


def arun(one, script):
    """Await the same as a coroutine."""
    return asyncio.run(one.arun(script.awaited))


both = pytest.mark.parametrize("drive", [run, arun])


def ended(drive, one, script):
    """Drive a script that fails for good; its outcome."""
    with pytest.raises(Exception) as caught:
        drive(one, script)
    return outcome_of(caught.value)


def test_each_attempt_gets_the_same_arguments():
    """The first one and the next, of functions and of coroutines."""
    calls = []

    def fn(*args, **kwargs):
        calls.append((args, kwargs))
        if len(calls) % 2:
            raise MOVED

    async def afn(*args, **kwargs):
        fn(*args, **kwargs)

    one = retrier(FAST, api="Fetch")
    one.run(fn, (1,), {"topic": "t"})
    asyncio.run(one.arun(afn, (1,), {"topic": "t"}))
    assert calls == [((1,), {"topic": "t"})] * 4


@both
def test_a_success_fills_the_budget(drive):
    """At the first attempt, and after a failure, which takes a token."""
    one = retrier(FAST.replace(budget={"capacity": 9, "deposit": 0.5}), api="Fetch")
    one.shared.budget.take(5)
    drive(one, Script("ok"))
    assert one.shared.budget.tokens == 4.5
    drive(one, Script(MOVED(), "ok"))
    assert one.shared.budget.tokens == 4


def test_calls_of_a_cluster_share_a_breaker_for_each_request():
    """Fetch may go on while Produce is not answered."""
    fetch, other, produce, elsewhere = (
        retrier(BREAKING, context=CallContext(api=api, cluster=cluster)).shared.breaker
        for api, cluster in (
            ("Fetch", "test-shared:1"),
            ("Fetch", "test-shared:1"),
            ("Produce", "test-shared:1"),
            ("Fetch", "test-shared:2"),
        )
    )
    assert fetch is other
    assert fetch not in (produce, elsewhere)


@pytest.mark.parametrize(
    ("settings", "is_timed"),
    [
        ({"deadline": 0.9}, True),
        ({"deadline": 1}, False),
        ({"attempt_timeout": 5}, True),
        ({}, False),
    ],
)
def test_only_a_coroutine_with_a_short_time_has_a_timer_of_its_own(settings, is_timed):
    """One timer for all others would end it too late."""
    shared = retrier(RetryPolicy(**settings)).shared
    assert is_timed == shared.async_gate.disturbed


@both
@pytest.mark.parametrize("broken", [OSError("no route"), False])
def test_a_repair_that_fails_ends_the_call(drive, broken):
    """Its type and text are told, and there is no other attempt."""
    script = Script(MOVED())
    one = retrier(FAST, api="Fetch", repairs={Action.REFRESH: Script(broken)})
    outcome = ended(drive, one, script)
    assert (outcome.reason, script.calls) == (StopReason.REPAIR_FAILED, 1)
    expected = (
        "RuntimeError: the repair returned False"
        if broken is False
        else ("OSError: no route")
    )
    assert expected == outcome.repair_error


@both
def test_a_repair_may_return_nothing(drive):
    """A repair that returns None has succeeded; only False means failure."""
    repair = Script(None)
    one = retrier(FAST, api="Fetch", repairs={Action.REFRESH: repair})
    assert drive(one, Script(MOVED(), "read")) == "read"
    assert repair.calls == 1


@both
def test_a_dead_client_in_doubt_is_repaired_for_the_calls_after(drive):
    """The call itself ends, since what it sent may have been written."""
    repair = Script(None)
    one = retrier(FAST, api="Produce", repairs={Action.RECREATE: repair})
    dead = errors.for_code(-150)()
    outcome = ended(drive, one, Script(dead))
    assert (outcome.reason, repair.calls) == (StopReason.IN_DOUBT, 1)


@both
@pytest.mark.parametrize("end", [KeyboardInterrupt, asyncio.CancelledError])
def test_a_cancelled_probe_gives_its_place_back(drive, end):
    """Whatever ends it, the next call may probe at once."""
    time = FakeTime()
    one = retrier(BREAKING, time, api="Fetch")
    ended(drive, one, Script(MOVED()))
    assert ended(drive, one, Script("held")).reason is StopReason.BREAKER_OPEN
    time.now += 31
    with pytest.raises(end):
        drive(one, Script(end()))
    assert drive(one, Script("well")) == "well"


@both
def test_forced_outcomes_take_the_place_of_calls(drive):
    """In a test of a user's: the error is raised, None lets the call through."""
    script = Script("read")
    with retry_testing() as forced:
        forced.force(MOVED(), None)
        assert drive(retrier(FAST, api="Fetch"), script) == "read"
        assert (script.calls, forced.waits) == (1, [1.0])


def test_what_returns_nothing_to_await_is_refused():
    """The error has the function's name; the function is called once."""
    script = Script(1)
    with pytest.raises(TypeError, match=r"Script.* returned nothing to await"):
        asyncio.run(retrier(FAST.replace(attempt_timeout=5)).arun(script))
    named = functools.partial(script)
    with pytest.raises(TypeError, match=r"functools\.partial.* returned nothing"):
        asyncio.run(retrier(FAST.replace(attempt_timeout=5)).arun(named))


def test_what_a_session_knows_goes_into_the_verdict():
    """Each fact of the context turns a verdict, or a place, round."""
    from kafkaguard import TopicFacts

    for known, error, rule in (
        ({"client": "aiokafka"}, errors.UnknownServerError, "code-not-kept"),
        ({"idempotent": True, "repeatable": True}, MOVED, "leader-lost-after-append"),
        ({"transactional": True}, MOVED, "leader-lost-after-append"),
        (
            {"transactional": True},
            errors.InvalidProducerEpochError,
            "abort-after-sequence-error",
        ),
        ({"null_key": True}, errors.InvalidRecordError, "null-key-on-compacted-topic"),
        ({"null_key": False}, errors.InvalidRecordError, "batch-mate-refused"),
        (
            {"null_key": True, "facts": TopicFacts(compacted=False)},
            errors.InvalidRecordError,
            "record-refused",
        ),
        ({"phase": "single"}, errors.InvalidRecordError, "refused-alone"),
    ):
        context = CallContext(api="Produce", **known)
        call = retrier(FAST.replace(max_attempts=1), context=context).start_call()
        call.failed(error())
        (attempt,) = call.outcome.attempts
        assert rule == attempt.rule, known


def test_the_open_breaker_says_whose_call_it_refused():
    """The error of an open breaker has request, topic and client."""
    context = CallContext(api="Fetch", topic="t", client="aiokafka")
    one = retrier(BREAKING, context=context)
    ended(run, one, Script(MOVED()))
    call = one.start_call()
    assert call.begin().kind == "stop"
    assert call.error.place == "Fetch, topic t, aiokafka"


def test_the_decorator_hands_over_all_that_it_is_told():
    """The context of events is what was said at the decorator."""
    events = []
    known = {"api": "Produce", "topic": "t", "client": "aiokafka", "cluster": "c:9092"}
    known |= {"idempotent": True, "transactional": True}
    fails = Script(errors.MessageTooLargeError())
    with pytest.raises(errors.MessageTooLargeError):
        retry(FAST, hooks=[events.append], **known)(fails)()
    assert CallContext(**known) == events[0].context


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"api": "Produced"}, "did you mean 'Produce'"),
        ({"client": 3}, "client"),
        ({"idempotent": "yes"}, "idempotent"),
        ({"transactional": "yes"}, "transactional"),
    ],
)
def test_the_decorator_refuses_a_wrong_word_at_once(wrong, said):
    """A wrong argument of retry() raises at decoration, not at the first failure."""
    with pytest.raises((TypeError, ValueError), match=said):
        retry(FAST, **wrong)


def test_an_outcome_is_found_behind_what_was_raised_from_it():
    """The cause's, a member's, and not that of an error in whose handling it came."""
    one, caught = retrier(FAST, api="Fetch"), None
    try:
        one.run(Script(errors.TopicAuthorizationFailedError()))
    except errors.KafkaGuardError as error:
        caught = error
    wrapped = LookupError("wrapped")
    wrapped.__cause__ = caught
    unrelated = LookupError("while handling")
    unrelated.__context__ = caught
    group = ExceptionGroup("g", [ValueError(), ExceptionGroup("h", [wrapped])])
    assert outcome_of(caught) is outcome_of(wrapped) is outcome_of(group)
    assert outcome_of(unrelated) is None
    assert outcome_of(ExceptionGroup("g", [ValueError()])) is None


def test_an_outcome_in_one_line():
    """How many attempts, for how long, why, and whether it may be there twice."""
    time = FakeTime()
    policy = FAST.replace(in_doubt="resend", max_attempts=2, name="p")
    one = retrier(policy, time, api="Produce")
    text = str(ended(run, one, Script(errors.RequestTimedOutError())))
    assert text == (
        "kafkaguard: ATTEMPTS after 2 attempts in 1 s: all attempts of the policy were "
        "made; it may have been written twice (policy p, "
        f"{policy.policy_id})"
    )
    once = retrier(FAST, api="Produce")
    text = str(ended(run, once, Script(errors.MessageTooLargeError())))
    assert text.startswith("kafkaguard: REJECTED after 1 attempt in 0 s: it can never")
    assert "twice" not in text
