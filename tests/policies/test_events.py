"""Events and hooks, and the mode for users' tests."""

from __future__ import annotations

import dataclasses
import logging

import pytest

from kafkaguard import Action, RetryPolicy, errors
from kafkaguard._retries.events import emit
from kafkaguard.events import (
    AttemptEvent,
    BreakerEvent,
    BudgetEvent,
    DeadLetterEvent,
    GiveUpEvent,
    RecreateEvent,
    RefreshEvent,
    RejectEvent,
    RetryEvent,
    WaitEvent,
)
from kafkaguard.policies import (
    BreakerState,
    CallContext,
    StopReason,
    outcome_of,
    retry_testing,
)
from tests.policies.helpers import FakeTime, Script, retrier

LOADING = errors.CoordinatorLoadInProgressError
FAST = RetryPolicy(backoff={"kind": "fixed", "base": 1, "jitter": "none"})


def events_of(script, policy=FAST, **more):
    """What the hooks are told about a call."""
    seen = []
    one = retrier(policy, hooks=[seen.append], **more)
    try:
        one.run(script)
    except Exception:
        assert seen
    return seen


def test_a_success_makes_no_event():
    """A call that succeeds at once emits no event."""
    assert events_of(Script("sent")) == []


def test_events_of_a_retry_that_succeeds():
    """Attempt, retry, attempt: with numbers, waits and the policy's id."""
    first, again, last = events_of(Script(LOADING(), "done"))
    context = CallContext(api="FindCoordinator")
    common = {"policy": "custom", "policy_id": FAST.policy_id, "context": context}
    assert first == AttemptEvent(
        **common,
        number=1,
        elapsed=0.0,
        error="COORDINATOR_LOAD_IN_PROGRESS",
        action=Action.RETRY,
        rule="retry",
    )
    assert again == RetryEvent(**common, number=2, wait=1.0, action=Action.RETRY)
    assert last == AttemptEvent(**common, number=2, elapsed=1.0)


@pytest.mark.parametrize(
    ("script", "more", "kind", "values"),
    [
        (
            Script(errors.ThrottlingQuotaExceededError(), 1),
            {"api": "CreateTopics"},
            WaitEvent,
            {"wait": 1.0},
        ),
        (
            Script(errors.NotLeaderOrFollowerError(), 1),
            {"api": "Fetch"},
            RefreshEvent,
            {},
        ),
        (
            Script(errors.OutOfOrderSequenceNumberError(), 1),
            {"api": "Produce"},
            RecreateEvent,
            {},
        ),
        (
            Script(errors.MessageTooLargeError()),
            {"api": "Produce"},
            RejectEvent,
            {"error": "MESSAGE_TOO_LARGE", "on_reject": "raise"},
        ),
        (
            Script(LOADING()),
            {},
            GiveUpEvent,
            {"reason": StopReason.ATTEMPTS, "attempts": 5},
        ),
        (
            Script(LOADING()),
            {"policy": FAST.replace(budget={"capacity": 1, "deposit": 0})},
            BudgetEvent,
            {"cost": 1.0},
        ),
        (
            Script(LOADING()),
            {"policy": FAST.replace(breaker={"failures": 2})},
            BreakerEvent,
            {"old": BreakerState.CLOSED, "new": BreakerState.OPEN},
        ),
    ],
)
def test_each_thing_that_happens_has_its_event(script, more, kind, values):
    """Once, with what there is to know."""
    repairs = dict.fromkeys((Action.REFRESH, Action.RECREATE), lambda: None)
    found = [e for e in events_of(script, repairs=repairs, **more) if type(e) is kind]
    assert len(found) == 1
    assert values == {name: getattr(found[0], name) for name in values}


def test_events_are_frozen():
    """A hook cannot change what the next one sees."""
    (event, *_) = events_of(Script(LOADING()))
    with pytest.raises(dataclasses.FrozenInstanceError):
        event.number = 7


def test_adapters_emit_dead_letters_themselves():
    """The event has the record's place and never the record."""
    seen = []
    event = DeadLetterEvent(
        policy="bulk-load",
        policy_id="x",
        context=CallContext(topic="orders"),
        error="MESSAGE_TOO_LARGE",
        dead_letter_topic="orders.dlq",
    )
    emit([seen.append], event)
    assert seen == [event]
    fields = {field.name for field in dataclasses.fields(event)}
    assert fields.isdisjoint({"key", "value", "headers"})


def test_a_broken_hook_never_breaks_a_call(caplog):
    """It is logged, the other hooks are told, and the result comes."""

    class Broken:
        def __call__(self, event):
            raise RuntimeError("bug in the hook")

        def on_success(self, context, elapsed, policy_id):
            raise RuntimeError("bug in the hook")

    seen = []
    with caplog.at_level(logging.ERROR, "kafkaguard.events"):
        one = retrier(FAST, hooks=[Broken(), seen.append])
        assert one.run(Script(LOADING(), "done")) == "done"
        assert one.run(Script("done")) == "done"
    assert len(seen) == 3
    assert len(caplog.records) == 4


def test_metrics_are_told_of_successes_without_an_event():
    """on_success has the context and the seconds, for functions and coroutines."""
    import asyncio

    class Metrics:
        seen = ()

        def __call__(self, event):
            raise AssertionError("no event is due")

        def on_success(self, context, elapsed, policy_id):
            self.seen += ((context.api, elapsed, policy_id),)

    metrics, time = Metrics(), FakeTime()
    one = retrier(FAST, time, hooks=[metrics])

    def slow():
        time.now += 2

    one.run(slow)
    asyncio.run(one.arun(Script("done").awaited))
    api, policy_id = "FindCoordinator", FAST.policy_id
    assert metrics.seen == ((api, 2.0, policy_id), (api, 0.0, policy_id))


def test_testing_mode_waits_for_nothing_and_records():
    """A policy of minutes runs in no time, and its schedule is there to look at."""
    policy = RetryPolicy(
        backoff={"kind": "linear", "base": 60, "cap": 600, "jitter": "none"},
        deadline="unbounded",
    )
    script = Script(LOADING(), LOADING(), "done")
    with retry_testing() as testing:
        assert policy.call(script) == "done"
    assert testing.waits == [60.0, 120.0]


def test_testing_mode_forces_outcomes():
    """Failures on order, without a broker: raised instead of calling."""
    script = Script("done")
    with retry_testing() as testing:
        testing.force(LOADING(), LOADING(), None)
        assert RetryPolicy().call(script) == "done"
    assert (script.calls, len(testing.waits)) == (1, 2)


def test_testing_mode_keeps_deadlines():
    """The waits that are skipped count, so a deadline ends the call as it would."""
    policy = RetryPolicy(
        deadline=10, backoff={"kind": "fixed", "base": 4, "jitter": "none"}
    )
    with retry_testing() as testing, pytest.raises(LOADING) as caught:
        policy.call(Script(LOADING()))
    assert StopReason.DEADLINE is outcome_of(caught.value).reason
    assert testing.waits == [4.0, 4.0]


def test_testing_mode_ends_with_its_block():
    """Also one inside another; outcomes of one are not those of the other."""
    with retry_testing() as outer:
        outer.force(errors.MessageTooLargeError())
        with retry_testing() as inner:
            assert RetryPolicy().call(Script("done")) == "done"
            assert inner is not outer
        with pytest.raises(errors.MessageTooLargeError):
            RetryPolicy().call(Script("done"))
    assert RetryPolicy().call(Script("done")) == "done"


async def test_testing_mode_of_coroutines():
    """retry_testing() skips the waits of acall()."""
    script = Script("done")
    with retry_testing() as testing:
        testing.force(LOADING())
        assert await RetryPolicy().acall(script.awaited) == "done"
    assert (script.calls, len(testing.waits)) == (1, 1)
