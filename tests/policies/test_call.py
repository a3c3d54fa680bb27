"""call, acall and retry: what is called how often, and what the caller receives."""

from __future__ import annotations

import asyncio
import copy
import pickle
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaguard import Action, RetryPolicy, errors, retry
from kafkaguard.errors import BreakerOpenError
from kafkaguard.policies import CallContext, StopReason, outcome_of
from kafkaguard_policies.running.retrier import Retrier
from kafkaguard_policies.running.watchdog import _watchdogs
from tests.policies.helpers import FakeTime, Script, retrier

LOADING = errors.CoordinatorLoadInProgressError
DENIED = errors.TopicAuthorizationFailedError
FAST = RetryPolicy(backoff={"kind": "fixed", "base": 1, "jitter": "none"})


def ended(script, policy=FAST, **more):
    """Run a script that fails for good; return error, outcome and time."""
    time = FakeTime()
    with pytest.raises(Exception) as caught:
        retrier(policy, time, **more).run(script)
    return caught.value, outcome_of(caught.value), time


def test_success_is_a_direct_call():
    """Arguments go in, the result comes out, once."""
    calls = []

    def fn(*args, **kwargs):
        calls.append((args, kwargs))
        return "sent"

    assert FAST.call(fn, 1, topic="t") == "sent"
    assert calls == [((1,), {"topic": "t"})]


def test_a_failure_is_tried_again_after_the_wait():
    """A call that fails once is called again after one wait."""
    time, script = FakeTime(), Script(LOADING(), "ready")
    assert retrier(FAST, time).run(script) == "ready"
    assert (script.calls, time.waits) == (2, [1.0])


def test_the_failure_that_opens_the_retry_is_attempt_one():
    """Five attempts are five calls, and the outcome lists each."""
    script = Script(LOADING())
    error, outcome, time = ended(script)
    assert isinstance(error, LOADING)
    assert StopReason.ATTEMPTS is outcome.reason
    assert [attempt.number for attempt in outcome.attempts] == [1, 2, 3, 4, 5]
    assert [attempt.wait for attempt in outcome.attempts] == [1.0, 1.0, 1.0, 1.0, 0.0]
    assert time.waits == [1.0] * 4
    assert script.calls == 5


def test_the_exception_says_what_was_tried():
    """A note for people: reason, attempts, time, policy and its id."""
    error, outcome, _ = ended(Script(LOADING()))
    (note,) = error.__notes__
    assert "ATTEMPTS after 5 attempts in 4 s" in note
    assert FAST.policy_id in note
    assert FAST.policy_id == outcome.policy_id
    attempt = outcome.attempts[0]
    assert (attempt.code, attempt.error) == (14, "COORDINATOR_LOAD_IN_PROGRESS")
    assert (attempt.rule, attempt.action) == ("retry", Action.RETRY)


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))]
)
def test_the_outcome_survives_copies(copied):
    """Pickling an exception to another process keeps what was tried."""
    error, outcome, _ = ended(Script(LOADING()))
    assert outcome == outcome_of(copied(error))


def test_what_cannot_succeed_is_called_once():
    """A denied request is not repeated, and the exception is the client's own."""
    script = Script(DENIED())
    error, outcome, time = ended(script)
    assert error is script.outcomes[0]
    assert StopReason.CONFIGURE is outcome.reason
    assert (script.calls, time.waits) == (1, [])


def test_an_error_that_is_not_kafkas_passes():
    """A bug of the application is raised as it is, after one call."""
    script = Script(ZeroDivisionError("1/0"))
    error, outcome, _ = ended(script)
    assert isinstance(error, ZeroDivisionError)
    assert (outcome.reason, script.calls) == (StopReason.REJECTED, 1)


def test_ignore_is_done_without_a_result():
    """The broker had the batch already: no failure, nothing to return."""
    script = Script(errors.DuplicateSequenceNumberError())
    assert retrier(FAST, api="Produce").run(script) is None
    assert script.calls == 1


def test_the_deadline_covers_attempts_and_waits():
    """Attempts of 3 s and waits of 1 s: the third begins at 8 s, a fourth never."""
    time = FakeTime()

    def slow():
        time.now += 3
        raise LOADING

    with pytest.raises(LOADING) as caught:
        retrier(FAST.replace(deadline=11), time).run(slow)
    outcome = outcome_of(caught.value)
    assert (outcome.reason, len(outcome.attempts)) == (StopReason.DEADLINE, 3)
    assert time.now <= 1_000 + 11


@pytest.mark.parametrize("deadline", [2.5, timedelta(seconds=2.5)])
def test_the_callers_deadline_is_a_bound(deadline):
    """It ends the call before the policy does."""
    time, script = FakeTime(), Script(LOADING())
    with pytest.raises(LOADING) as caught:
        retrier(FAST, time).run(script, deadline=deadline)
    assert StopReason.DEADLINE is outcome_of(caught.value).reason
    assert script.calls == 3


@pytest.mark.parametrize("deadline", [0, -1, timedelta(0)])
def test_a_deadline_of_nothing_is_refused(deadline):
    """`deadline=0` raises an error with the values that are allowed."""
    with pytest.raises(ValueError, match="above 0"):
        retrier(FAST).run(Script(LOADING()), deadline=deadline)


def test_an_overslept_deadline_makes_no_attempt():
    """Where the sleep took longer than asked, the deadline still holds."""
    time, script = FakeTime(), Script(LOADING())

    def oversleep(_seconds):
        time.now += 500

    one = Retrier(FAST, CallContext(api="Fetch"), clock=time.clock, sleep=oversleep)
    with pytest.raises(LOADING) as caught:
        one.run(script)
    assert (outcome_of(caught.value).reason, script.calls) == (StopReason.DEADLINE, 1)


def test_throttle_time_of_an_error_is_honoured():
    """The broker asks for 7 s, so the wait is 7 s."""
    error = errors.ThrottlingQuotaExceededError()
    error.throttle_time_ms = 7_000
    time = FakeTime()
    retrier(FAST, time, api="CreateTopics").run(Script(error, "made"))
    assert time.waits == [7.0]


@pytest.mark.parametrize(
    "passing", [KeyboardInterrupt, SystemExit, asyncio.CancelledError]
)
def test_what_ends_a_program_passes_untouched(passing):
    """At the first attempt and at a later one, without a note or an outcome."""
    for script in (Script(passing()), Script(LOADING(), passing())):
        with pytest.raises(passing) as caught:
            retrier(FAST).run(script)
        assert outcome_of(caught.value) is None
        assert not hasattr(caught.value, "__notes__")


def test_cancellation_of_a_task_passes_untouched():
    """A cancelled coroutine is cancelled: at once, and nothing is tried again."""
    started = []

    async def hang():
        started.append(1)
        await asyncio.Event().wait()

    async def main():
        task = asyncio.create_task(RetryPolicy().acall(hang))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return task.cancelled()

    assert asyncio.run(main())
    assert len(started) == 1


def test_a_cause_says_what_the_wrapper_does_not():
    """The application wraps a Kafka error in its own: it is still tried again."""

    def wrapped():
        try:
            script()
        except LOADING as error:
            raise LookupError("no coordinator") from error
        return "found"

    script = Script(LOADING(), "found")
    assert retrier(FAST).run(wrapped) == "found"
    assert script.calls == 2


def test_a_group_is_as_severe_as_its_severest_member():
    """All members may be repeated: again. One may not: stop."""
    good = ExceptionGroup("two partitions", [LOADING(), LOADING()])
    bad = ExceptionGroup("two partitions", [LOADING(), DENIED()])
    assert retrier(FAST).run(Script(good, "done")) == "done"
    _, outcome, _ = ended(Script(bad))
    assert StopReason.CONFIGURE is outcome.reason


@pytest.mark.parametrize(
    "wrap",
    [
        lambda e: e,
        lambda e: ExceptionGroup("some", [e]),
    ],
)
def test_nested_guards_do_not_multiply(wrap):
    """The inner guard made its five attempts; the outer one adds none."""
    script, time = Script(LOADING()), FakeTime()

    def inner():
        try:
            retrier(FAST, time).run(script)
        except LOADING as error:
            raise wrap(error)

    _, outcome, _ = ended(inner)
    assert (outcome.reason, script.calls) == (StopReason.NESTED, 5)


@pytest.mark.parametrize("wrap", [lambda e: e, lambda e: ExceptionGroup("some", [e])])
def test_a_record_that_a_guarded_producer_has_given_up_is_not_sent_again(wrap):
    """Newer records of its key may have been accepted; the note says what to do."""
    failed = LOADING()
    failed.is_outcome = True
    script = Script(wrap(failed))
    error, outcome, _ = ended(script)
    assert (outcome.reason, script.calls) == (StopReason.NESTED, 1)
    assert "give the policy to that one" in error.__notes__[0]


def test_an_exception_of_an_earlier_call_is_not_nested():
    """A dead client raises the same object again and again; each call is its own."""
    same, time = LOADING(), FakeTime()
    for _ in range(2):
        script = Script(same)
        with pytest.raises(LOADING):
            retrier(FAST, time).run(script)
        assert script.calls == 5
        time.now += 1


def test_a_generator_is_refused_with_the_reason():
    """Decorated, called or async: what it has yielded cannot be taken back."""

    def items():
        yield 1

    async def later():
        yield 1

    for refuse in (
        lambda: retry(FAST)(items),
        lambda: retry(FAST)(later),
        lambda: FAST.call(items),
    ):
        with pytest.raises(
            TypeError, match=r"(?s)is a generator.*cannot be taken back"
        ):
            refuse()


def test_a_coroutine_function_is_sent_to_acall():
    """call() cannot await, and says who can."""
    with pytest.raises(TypeError, match=r"await policy\.acall"):
        FAST.call(Script(1).awaited)


def test_a_plain_function_is_sent_to_call():
    """acall() has nothing to await, and says so."""
    policy = FAST.replace(attempt_timeout=5)
    with pytest.raises(TypeError, match=r"use policy\.call"):
        asyncio.run(policy.acall(Script(1)))


def test_attempt_timeout_of_a_plain_function_is_refused():
    """Nothing can stop a plain function that runs."""
    policy = FAST.replace(attempt_timeout=5)
    script = Script("never called")
    for refuse in (lambda: retry(policy)(script), lambda: policy.call(script)):
        with pytest.raises(
            TypeError, match=r"(?s)plain function.*client's own timeout"
        ):
            refuse()
    assert script.calls == 0


def test_attempt_timeout_ends_an_attempt_of_a_coroutine():
    """The first attempt hangs and is ended; reading again is allowed."""
    script = Script(None)

    async def hang_once():
        script()
        if script.calls == 1:
            await asyncio.Event().wait()
        return "read"

    policy = FAST.replace(attempt_timeout=0.01)
    assert asyncio.run(retrier(policy, api="Fetch").arun(hang_once)) == "read"
    assert script.calls == 2


def test_a_write_that_timed_out_is_in_doubt():
    """The same timeout of a write stops: it may have been written."""

    async def hang():
        await asyncio.Event().wait()

    policy = FAST.replace(attempt_timeout=0.01)
    with pytest.raises(TimeoutError) as caught:
        asyncio.run(retrier(policy, api="Produce").arun(hang))
    assert StopReason.IN_DOUBT is outcome_of(caught.value).reason


def test_the_decorator_keeps_the_function():
    """Name, docstring and kind stay; a keyword called deadline is the function's."""

    @retry(FAST, api="Fetch")
    def fetch(deadline):
        """Read."""
        return deadline

    @retry("none")
    async def later():
        """Read later."""
        return 1

    assert (fetch.__name__, fetch.__doc__, fetch(deadline=3)) == ("fetch", "Read.", 3)
    assert asyncio.iscoroutinefunction(later)
    assert asyncio.run(later()) == 1


def test_the_decorator_knows_the_request():
    """Code 7 of a read is repeated; not said, it counts as a write."""
    timed_out = errors.RequestTimedOutError
    policy = FAST.replace(backoff={"base": 0.001})
    assert retry(policy, api="ListOffsets")(Script(timed_out(), 1))() == 1
    script = Script(timed_out(), 1)
    with pytest.raises(timed_out):
        retry(policy)(script)()
    assert script.calls == 1


def test_repairs_run_before_the_next_attempt():
    """Refresh, then wait, then call: in this order."""
    log, time = [], FakeTime()
    one = retrier(
        FAST, time, api="Fetch", repairs={Action.REFRESH: lambda: log.append("refresh")}
    )
    script = Script(errors.NotLeaderOrFollowerError(), "read")

    def fetch():
        log.append("call")
        return script()

    assert one.run(fetch) == "read"
    assert log == ["call", "refresh", "call"]


@pytest.mark.parametrize("broken", [Script(OSError("no route")), Script(False)])
def test_a_repair_that_fails_ends_the_call(broken):
    """The caller receives the failure itself, and reads what went wrong besides."""
    moved = errors.NotLeaderOrFollowerError
    error, outcome, _ = ended(
        Script(moved()), api="Fetch", repairs={Action.REFRESH: broken}
    )
    assert isinstance(error, moved)
    assert StopReason.REPAIR_FAILED is outcome.reason
    assert outcome.repair_error
    assert outcome.repair_error in str(outcome)


def test_abort_happens_at_most_once_a_transaction():
    """Each attempt is a transaction: aborted once, and not again if that fails."""
    abortable = errors.TransactionAbortableError
    abort = Script(None)
    one = retrier(FAST, api="EndTxn", repairs={Action.ABORT: abort})
    assert one.run(Script(abortable(), abortable(), "committed")) == "committed"
    assert abort.calls == 2
    abort = Script(abortable())
    _, outcome, _ = ended(
        Script(abortable()), api="EndTxn", repairs={Action.ABORT: abort}
    )
    assert (outcome.reason, abort.calls) == (StopReason.REPAIR_FAILED, 1)


def test_a_coroutine_may_repair():
    """Acall awaits repairs that are coroutine functions."""
    refresh = Script(None)
    one = retrier(FAST, api="Fetch", repairs={Action.REFRESH: refresh.awaited})
    script = Script(errors.NotLeaderOrFollowerError(), "read")
    assert asyncio.run(one.arun(script.awaited)) == "read"
    assert refresh.calls == 1


def test_fenced_is_never_answered_by_a_new_client():
    """Not even where a repair for everything is there."""
    repair = Script(None)
    _, outcome, _ = ended(
        Script(errors.ProducerFencedError()), repairs=dict.fromkeys(Action, repair)
    )
    assert (outcome.reason, repair.calls) == (StopReason.FENCED, 0)


BREAKING = FAST.replace(breaker={"failures": 3, "open_for": 30}, max_attempts=10)


def test_an_open_breaker_fails_at_once():
    """Three failures open it: the call ends, the next one is not even made."""
    time, script = FakeTime(), Script(LOADING())
    one = retrier(BREAKING, time)
    with pytest.raises(LOADING) as caught:
        one.run(script)
    assert (
        outcome_of(caught.value).reason,
        script.calls,
    ) == (StopReason.BREAKER_OPEN, 3)
    with pytest.raises(BreakerOpenError, match=r"probe through in 2\d") as refused:
        one.run(script)
    assert StopReason.BREAKER_OPEN is outcome_of(refused.value).reason
    assert script.calls == 3


def test_a_breaker_closes_after_a_good_probe():
    """When open_for has passed one call goes through, and then all."""
    time = FakeTime()
    one = retrier(BREAKING, time)
    with pytest.raises(LOADING):
        one.run(Script(LOADING()))
    time.now += 31
    assert one.run(Script("well")) == "well"
    assert not one.shared.breaker.disturbed


def test_a_cancelled_probe_gives_its_place_back():
    """The next call may probe at once."""
    time = FakeTime()
    one = retrier(BREAKING, time)
    with pytest.raises(LOADING):
        one.run(Script(LOADING()))
    time.now += 31
    with pytest.raises(KeyboardInterrupt):
        one.run(Script(KeyboardInterrupt()))
    assert one.run(Script("well")) == "well"


def test_a_breaker_can_pause_instead():
    """A consumer waits for the probe; the pause costs no attempt."""
    policy = BREAKING.replace(
        breaker={"failures": 3, "open_for": 30, "when_open": "pause"}, max_attempts=4
    )
    time, script = FakeTime(), Script(LOADING(), LOADING(), LOADING(), "read")
    assert retrier(policy, time).run(script) == "read"
    assert time.waits == [1.0, 1.0, 1.0, 29.0]


def test_refusals_say_that_the_cluster_is_well():
    """A broker that rejects is a broker that answers: the breaker stays closed."""
    one = retrier(BREAKING)
    for _ in range(10):
        with pytest.raises(errors.MessageTooLargeError):
            one.run(Script(errors.MessageTooLargeError()))
    assert not one.shared.breaker.disturbed


def test_the_budget_is_shared_by_the_cluster():
    """One client's retries leave fewer for the other."""
    policy = FAST.replace(budget={"capacity": 5, "deposit": 0})
    context = CallContext(api="Fetch", cluster="test-shared-budget:9092")
    one, other = (retrier(policy, context=context) for _ in range(2))
    with pytest.raises(LOADING):
        one.run(Script(LOADING()))
    with pytest.raises(LOADING) as caught:
        other.run(Script(LOADING()))
    outcome = outcome_of(caught.value)
    assert (outcome.reason, len(outcome.attempts)) == (StopReason.BUDGET, 2)


def test_deadline_ends_a_coroutine_that_hangs():
    """Without any timer of its own: the watchdog sees it within its period."""

    async def hang():
        await asyncio.Event().wait()

    async def main():
        loop = asyncio.get_running_loop()
        start = loop.time()
        with pytest.raises(TimeoutError) as caught:
            await RetryPolicy(deadline=1, budget=None).acall(hang)
        return outcome_of(caught.value), loop.time() - start

    outcome, took = asyncio.run(main())
    assert StopReason.IN_DOUBT is outcome.reason
    assert took >= 1


def test_a_short_deadline_ends_a_coroutine_in_time():
    """Below a second it is worth a timer."""

    async def hang():
        await asyncio.Event().wait()

    async def main():
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(RetryPolicy().acall(hang, deadline=0.02), 5)
        return asyncio.current_task().cancelling()

    assert asyncio.run(main()) == 0


def test_the_watchdog_leaves_no_trace():
    """After a call was ended its task can go on: nothing watches or cancels it."""

    async def hang():
        await asyncio.Event().wait()

    async def main():
        with pytest.raises(TimeoutError):
            await RetryPolicy(deadline=1).acall(hang)
        mine = asyncio.get_running_loop()
        assert [set()] == [d.watched for d in _watchdogs.values() if d.loop is mine]
        return asyncio.current_task().cancelling()

    assert asyncio.run(main()) == 0


def test_the_watchdog_does_not_hide_a_cancellation_from_outside():
    """Cancelled and timed out at once: the cancellation wins."""

    async def stubborn():
        try:
            await asyncio.Event().wait()
        finally:
            asyncio.current_task().cancel()
            await asyncio.sleep(0)

    async def main():
        task = asyncio.create_task(RetryPolicy(deadline=1).acall(stubborn))
        await asyncio.wait([task], timeout=5)
        return task.cancelled()

    assert asyncio.run(main())


OUTCOMES = st.sampled_from(
    [
        lambda: "result",
        LOADING,
        errors.NotLeaderOrFollowerError,
        errors.ThrottlingQuotaExceededError,
        errors.RequestTimedOutError,
        errors.IllegalGenerationError,
        errors.TransactionAbortableError,
        errors.OutOfOrderSequenceNumberError,
        DENIED,
        lambda: ValueError("not Kafka's"),
        lambda: ExceptionGroup("g", [LOADING(), errors.RequestTimedOutError()]),
    ]
)
POLICIES = st.builds(
    RetryPolicy,
    max_attempts=st.integers(1, 6),
    max_waits=st.integers(0, 4),
    deadline=st.sampled_from([1, 30, "unbounded"]),
    budget=st.sampled_from([None, {"capacity": 2, "deposit": 0.5}]),
    breaker=st.sampled_from(
        [None, {"failures": 2, "open_for": 3, "when_open": "pause"}]
    ),
    in_doubt=st.sampled_from(["raise", "report", "resend"]),
)


@given(
    POLICIES,
    st.lists(OUTCOMES, min_size=1, max_size=8),
    st.sampled_from([None, "Produce", "Fetch"]),
    st.booleans(),
)
def test_sync_and_async_decide_the_same(policy, outcomes, api, repairable):
    """The same outcomes give the same calls, waits, repairs and end."""

    def trace(drive):
        time, log = FakeTime(), []
        script = Script(*(make() for make in outcomes))
        repairs = (
            {a: lambda a=a: log.append(str(a)) for a in Action} if repairable else {}
        )
        hooks = [lambda event: log.append(event.name)]
        one = retrier(policy, time, api=api, repairs=repairs, hooks=hooks)
        try:
            end = drive(one, script)
        except Exception as error:
            end = (type(error), outcome_of(error))
        return end, script.calls, time.waits, log

    sync = trace(lambda one, script: one.run(script))
    later = trace(lambda one, script: asyncio.run(one.arun(script.awaited)))
    assert sync == later
