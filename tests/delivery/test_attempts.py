"""Attempts, waits, budget and breaker of a policy, without a client or a clock."""

from __future__ import annotations

import pytest

from kafkaguard import Action, classify
from kafkaguard._delivery.attempts import NEVER, AttemptLimits, Attempts, describe
from kafkaguard._delivery.facts import Place, Raw, Traits
from kafkaguard._delivery.records import Record
from kafkaguard._retries.breaker import CircuitBreaker
from kafkaguard._retries.budget import RetryBudget
from kafkaguard._retries.events import BreakerEvent, BudgetEvent, GiveUpEvent
from kafkaguard.errors import ClientTimeoutError
from tests.delivery.world.words import PlainPolicy

#: What the client gives a record, beyond that its own margin; what the policy gives it.
CLIENT_S, MARGIN_S, POLICY_S = 30.0, 1.0, 100.0
ERROR = ClientTimeoutError("never sent", verdict=classify(19, api="Produce"))


class Tried:
    """The attempts of a producer whose records fail when a test says so."""

    def __init__(self, *, attempts=4, deadline=POLICY_S, transactional=False, **shared):
        self.told = []
        traits = Traits(
            "model",
            CLIENT_S,
            "delivery.timeout",
            transactional=transactional,
            margin=MARGIN_S,
        )
        policy = PlainPolicy(attempts=attempts, deadline=deadline)
        self.ruling = policy.ruling(ERROR.verdict, None)
        self.attempts = Attempts(
            traits, AttemptLimits(random=lambda: 0.5, **shared), self.tell
        )

    def tell(self, event, topic, **known):
        """Note an event."""
        self.told.append((event, topic, known))

    def record(self, topic="t", sent_at=0.0):
        """Make a record that was handed over at a time."""
        due = sent_at + CLIENT_S + MARGIN_S
        return Record(object(), None, 0, Place(topic, 0), due, Raw(b"k", b"v"))

    def fail(self, record, now):
        """Have a record fail; return what is next."""
        return self.attempts.failed(record, ERROR, self.ruling, now)


def test_open_breaker_bars_a_topic_until_its_next_hand_over():
    """Where the policy does not wait for it."""
    breaker, kinds = CircuitBreaker(2, 5.0, 1), []
    tried = Tried(breaker=breaker, pauses=False)
    for now in (30.0, 31.0, 50.0):
        kinds.append(tried.fail(tried.record(), now).kind)
        tried.attempts.handed_over("t")
        if now == 31.0:
            breaker.ask(40.0)
            tried.attempts.succeeded(40.0)
    assert kinds == ["again", "stop", "again"]


def test_waits_grow_and_end_with_the_last_attempt():
    """Four attempts have three waits; the end says why."""
    tried, steps = Tried(), []
    record = tried.record()
    for now in (30.0, 40.0, 50.0, 60.0):
        steps.append(tried.fail(record, now))
        tried.attempts.handed_over("t")
    assert [step.kind for step in steps] == ["again", "again", "again", "stop"]
    assert [step.wait for step in steps[:3]] == [0.05, 0.1, 0.2]
    (ended,) = tried.told
    assert (GiveUpEvent, "t", "ATTEMPTS", 4) == (
        *ended[:2],
        ended[2]["reason"],
        ended[2]["attempts"],
    )


def test_the_deadline_counts_from_the_call():
    """A record that was handed over later has its time for longer."""
    tried = Tried(attempts=50)
    old, young = tried.record(sent_at=0.0), tried.record(sent_at=20.0)
    assert tried.fail(old, 99.0).kind == "again"
    assert tried.fail(old, 100.0).reason == "DEADLINE"
    assert tried.fail(young, 119.0).kind == "again"
    assert tried.fail(young, 120.0).reason == "DEADLINE"


def test_its_time_is_the_policys_from_the_first_attempt_on():
    """Until then it is the client's; a policy without an end gives each attempt some."""
    tried = Tried()
    record = tried.record()
    tried.fail(record, 30.0)
    assert record.due == POLICY_S + MARGIN_S
    unbounded = Tried(deadline=float("inf"))
    record = unbounded.record()
    wait = unbounded.fail(record, 30.0).wait
    assert 30.0 + wait + 2 * CLIENT_S == record.due


@pytest.mark.parametrize(
    "short",
    [{"deadline": CLIENT_S}, {"attempts": 1}, {"transactional": True}],
    ids=["no-more-time", "one-attempt", "transactional"],
)
def test_what_leaves_nothing_for_the_policy_is_left_to_the_client(short):
    """No wait, no event, and the record keeps the client's time."""
    tried = Tried(**short)
    record = tried.record()
    step = tried.fail(record, CLIENT_S)
    assert (step.kind, step.reason) == ("stop", None)
    assert (tried.told, record.retry) == ([], None)
    assert record.due == CLIENT_S + MARGIN_S


def test_records_that_fail_together_take_one_token():
    """After they were handed over they take another one; another topic pays its own."""
    tried = Tried(budget=RetryBudget(3.0, 0.0))
    records = [tried.record() for _ in range(10)]
    assert {"again"} == {tried.fail(record, 30.0).kind for record in records}
    assert tried.fail(tried.record("other"), 30.0).kind == "again"
    tried.attempts.handed_over("t")
    assert tried.fail(records[0], 40.0).kind == "again"
    tried.attempts.handed_over("t")
    assert tried.fail(records[1], 50.0).reason == "BUDGET"
    assert [BudgetEvent, GiveUpEvent] == [event for event, *_ in tried.told]


def test_an_error_that_the_policy_does_not_try_again_says_so():
    """With the attempts that were made for other errors before."""
    tried = Tried()
    record = tried.record()
    assert tried.fail(record, 30.0).kind == "again"
    said = describe(NEVER, record.retry, "mine")
    assert said == "1 attempt was made; policy mine allows none after this"


def test_accepted_batches_fill_the_budget():
    """Each accepted batch puts a deposit into the retry budget."""
    tried = Tried(budget=RetryBudget(1.0, 0.5))
    record = tried.record()
    assert tried.fail(record, 30.0).kind == "again"
    tried.attempts.handed_over("t")
    for _ in range(2):
        tried.attempts.succeeded(35.0)
    assert tried.fail(record, 40.0).kind == "again"


def test_an_open_breaker_keeps_records_back():
    """Until a probe is due; a batch that is accepted then closes it."""
    tried = Tried(breaker=CircuitBreaker(1, 5.0, 1))
    record = tried.record()
    assert tried.fail(record, 30.0).kind == "again"
    assert tried.attempts.wait("t", 31.0) == 4.0
    assert tried.attempts.wait("t", 35.0) == 0.0
    tried.attempts.succeeded(36.0)
    states = [(known["old"], known["new"]) for _, _, known in tried.told]
    assert states == [
        ("closed", "open"),
        ("open", "half-open"),
        ("half-open", "closed"),
    ]
    assert {BreakerEvent} == {event for event, *_ in tried.told}


def test_a_breaker_that_fails_ends_them():
    """With `when_open: fail` an open breaker ends the records that wait."""
    tried = Tried(breaker=CircuitBreaker(1, 5.0, 1), pauses=False)
    assert tried.fail(tried.record(), 30.0).reason == "BREAKER_OPEN"
    assert tried.attempts.wait("t", 31.0) == 0.0


def test_a_throttled_record_costs_no_attempt():
    """WAIT: as often as the policy waits."""
    tried = Tried(attempts=2)
    waits = PlainPolicy(attempts=2, deadline=POLICY_S)
    verdict = classify(89, api="Produce")
    tried.ruling = waits.ruling(verdict, None)
    record = tried.record()
    assert Action.WAIT is verdict.action
    assert tried.fail(record, 30.0).kind == "again"
    assert record.retry.attempts == 0
