"""The retry budget, compared with a simple model."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kafkaguard._retries.budget import RetryBudget, shared_budget


class BudgetMachine(RuleBasedStateMachine):
    """Successes and retries in any order, beside a float that is kept by hand."""

    @initialize(capacity=st.integers(1, 20), deposit=st.sampled_from([0, 0.25, 0.5, 1]))
    def start(self, capacity, deposit):
        """Begin with a full bucket."""
        self.budget = RetryBudget(capacity, deposit)
        self.tokens = self.capacity = capacity
        self.deposit = deposit

    @rule(times=st.integers(1, 30))
    def succeed(self, times):
        """Each success puts in the deposit, up to the capacity."""
        for _ in range(times):
            self.budget.succeeded()
            self.tokens = min(self.capacity, self.tokens + self.deposit)

    @rule(cost=st.sampled_from([0, 0.5, 1, 2, 5]))
    def take(self, cost):
        """A retry is allowed if and only if there are tokens for it."""
        allowed = cost <= self.tokens
        assert allowed == self.budget.take(cost)
        self.tokens -= cost if allowed else 0

    @invariant()
    def same_tokens(self):
        """The bucket holds what the model holds, never less than none."""
        if hasattr(self, "budget"):
            assert self.tokens == self.budget.tokens
            assert 0 <= self.budget.tokens <= self.capacity


TestBudget = BudgetMachine.TestCase


def test_threads_lose_no_success_and_take_no_token_twice():
    """Eight threads succeed and retry at once; the sum is exact."""
    budget = RetryBudget(capacity=1_000_000, deposit=1)
    budget.take(1_000_000)

    def work(_):
        for _ in range(1_000):
            budget.succeeded()
            budget.succeeded()
        return sum(budget.take(1) for _ in range(1_000))

    with ThreadPoolExecutor(8) as pool:
        taken = sum(pool.map(work, range(8)))
    assert pytest.approx(16_000) == budget.tokens + taken


def test_clients_of_a_cluster_share_a_budget():
    """The same cluster and settings give the same bucket, others another."""
    ours = shared_budget("test-a:9092", 10, 0.1)
    assert ours is shared_budget("test-a:9092", 10, 0.1)
    assert ours is not shared_budget("test-b:9092", 10, 0.1)
    assert ours is not shared_budget("test-a:9092", 20, 0.1)
    assert ours is not shared_budget("test-a:9092", 10, 0.2)
    assert (ours.capacity, ours.deposit, ours.tokens) == (10, 0.1, 10)


def test_a_retry_finds_what_successes_have_put_in():
    """Nobody looked at the bucket in between."""
    budget = RetryBudget(2, 1)
    assert budget.take(2)
    assert not budget.take(1)
    budget.succeeded()
    assert budget.take(1)
    assert not budget.take(1)
