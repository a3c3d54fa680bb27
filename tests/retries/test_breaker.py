"""The circuit breaker, compared with a simple model."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kafkaguard._retries.breaker import (
    BreakerOpenError,
    BreakerState,
    Change,
    CircuitBreaker,
    shared_breaker,
)

CLOSED, OPEN, HALF_OPEN = BreakerState


class BreakerMachine(RuleBasedStateMachine):
    """Calls that ask, succeed and fail in any order, and time that passes."""

    @initialize(failures=st.integers(1, 4), probes=st.integers(1, 3))
    def start(self, failures, probes):
        """Begin closed."""
        self.breaker = CircuitBreaker(failures, open_for=10.0, probes=probes)
        self.failures, self.probes = failures, probes
        self.now, self.state, self.strikes = 0.0, CLOSED, 0
        self.opened, self.out, self.good = 0.0, [], 0

    def move(self, state):
        """Change the model's state."""
        self.state, self.opened, self.strikes = state, self.now, 0
        self.out, self.good = [], 0

    @rule(seconds=st.sampled_from([0.5, 3.0, 9.5, 10.0]))
    def wait(self, seconds):
        """Time passes."""
        self.now += seconds

    @rule()
    def ask(self):
        """A call may go through when closed, or as one of the probes."""
        if self.state is OPEN and self.now >= self.opened + 10:
            self.move(HALF_OPEN)
        self.out = [t for t in self.out if self.now < t + 10]
        may = self.state is CLOSED or (
            self.state is HALF_OPEN and len(self.out) + self.good < self.probes
        )
        if may and self.state is HALF_OPEN:
            self.out.append(self.now)
        wait, _ = self.breaker.ask(self.now)
        assert may == (wait == 0)
        assert 0 <= wait <= 10

    @rule()
    def succeed(self):
        """Successes forget strikes, and close it after enough probes."""
        if self.state is CLOSED:
            self.strikes = 0
        elif self.state is HALF_OPEN:
            self.out, self.good = self.out[1:], self.good + 1
            if self.good >= self.probes:
                self.move(CLOSED)
        self.breaker.succeeded(self.now)

    @rule()
    def fail(self):
        """Failures in a row open it; one is enough when half-open."""
        if self.state is not OPEN:
            self.strikes += 1
            if self.state is HALF_OPEN or self.strikes >= self.failures:
                self.move(OPEN)
        self.breaker.failed(self.now)

    @rule()
    def abandon(self):
        """A cancelled probe gives its place back."""
        self.out = self.out[1:]
        self.breaker.abandoned()

    @invariant()
    def same_state(self):
        """It stands where the model stands, and quiet means closed without strikes."""
        if hasattr(self, "breaker"):
            assert self.state is self.breaker.state
            quiet = self.state is CLOSED and self.strikes == 0
            assert quiet == (not self.breaker.disturbed)


TestBreaker = BreakerMachine.TestCase


def test_changes_are_told_once():
    """Whoever makes it change learns of it."""
    breaker = CircuitBreaker(failures=2, open_for=10, probes=1)
    assert breaker.failed(0) is None
    assert Change(CLOSED, OPEN) == breaker.failed(1)
    assert breaker.failed(2) is None
    assert breaker.ask(2) == (9.0, None)
    assert (0.0, Change(OPEN, HALF_OPEN)) == breaker.ask(11)
    assert Change(HALF_OPEN, CLOSED) == breaker.succeeded(12)


def test_one_breaker_for_each_cluster_and_api():
    """Produce may be broken where Fetch works."""
    ours = shared_breaker("test-c:9092", "Produce", 2, 10, 1)
    assert ours is shared_breaker("test-c:9092", "Produce", 2, 10, 1)
    others = [
        shared_breaker("test-d:9092", "Produce", 2, 10, 1),
        shared_breaker("test-c:9092", "Fetch", 2, 10, 1),
        shared_breaker("test-c:9092", "Produce", 3, 10, 1),
        shared_breaker("test-c:9092", "Produce", 2, 11, 1),
        shared_breaker("test-c:9092", "Produce", 2, 10, 2),
    ]
    assert len({id(each) for each in (ours, *others)}) == 6
    assert (ours.failures, ours.open_for, ours.probes) == (2, 10, 1)


def test_a_refused_probe_is_told_when_the_next_place_is_free():
    """The oldest probe out holds its place for open_for seconds."""
    breaker = CircuitBreaker(failures=1, open_for=10, probes=2)
    breaker.failed(0)
    assert breaker.ask(4) == (6, None)
    assert breaker.ask(10)[0] == 0
    assert breaker.ask(13) == (0, None)
    assert breaker.ask(15) == (5, None)
    assert breaker.ask(20) == (0, None)
    assert breaker.ask(21) == (2, None)


def half_open(probes, failures=1):
    """A breaker that is half-open at 10, with one probe on its way."""
    breaker = CircuitBreaker(failures=failures, open_for=10, probes=probes)
    for _ in range(failures):
        breaker.failed(0)
    assert breaker.ask(10) == (0, Change(OPEN, HALF_OPEN))
    return breaker


def test_probes_that_succeeded_count_with_those_on_their_way():
    """Two may go: one is well, one is out, and there is no third."""
    breaker = half_open(probes=2)
    assert breaker.succeeded(11) is None
    assert breaker.ask(12) == (0, None)
    assert breaker.ask(13) == (9, None)
    assert breaker.succeeded(14) == Change(HALF_OPEN, CLOSED)
    assert not breaker.disturbed


def test_an_abandoned_probe_gives_its_place_back():
    """The oldest one's; and where none is out, nothing happens."""
    breaker = half_open(probes=1)
    assert breaker.ask(11) == (9, None)
    breaker.abandoned()
    breaker.abandoned()
    assert breaker.ask(12) == (0, None)
    assert breaker.ask(13) == (9, None)


def test_the_place_of_the_oldest_probe_is_given_back():
    """The next is free when the younger one's time is over."""
    breaker = half_open(probes=2)
    assert breaker.ask(15) == (0, None)
    breaker.abandoned()
    assert breaker.ask(16) == (0, None)
    assert breaker.ask(17) == (8, None)


def test_a_new_state_remembers_nothing_of_the_old():
    """Neither strikes nor probes, good ones or those on their way."""
    breaker = half_open(probes=2, failures=2)
    breaker.succeeded(11)
    assert breaker.ask(12) == (0, None)
    assert breaker.failed(13) == Change(HALF_OPEN, OPEN)
    assert breaker.ask(23) == (0, Change(OPEN, HALF_OPEN))
    assert breaker.ask(23) == (0, None)
    assert breaker.ask(23) == (10, None)
    assert breaker.succeeded(24) is None
    assert breaker.succeeded(24) == Change(HALF_OPEN, CLOSED)
    assert breaker.failed(25) is None
    assert breaker.failed(26) == Change(CLOSED, OPEN)


def test_what_it_says_of_itself():
    """A breaker reports its state, since when, and until when."""
    breaker = CircuitBreaker(failures=1, open_for=10, probes=1)
    breaker.failed(3)
    assert breaker.describe(6.5, 6.5) == (
        "the circuit breaker is open since 3.5 s, because calls kept failing; it lets "
        "a probe through in 6.5 s"
    )


def test_the_error_says_that_nothing_was_sent():
    """With its place, and where there is none, without."""
    bare = BreakerOpenError("it is open")
    assert str(bare) == "BREAKER_OPEN: it is open; nothing was sent"
    placed = BreakerOpenError("it is open", api="Produce", topic="t")
    assert str(placed) == (
        "BREAKER_OPEN [Produce, topic t]: it is open; nothing was sent"
    )
    told = BreakerOpenError(broker_message="away")
    assert str(told) == "BREAKER_OPEN: away; nothing was sent"
