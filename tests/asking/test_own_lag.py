"""The lag of a consumer's own assignment, from brokers that say what a test tells them."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from kafkaguard._cluster.lag import LagReason
from kafkaguard._cluster.reports import make
from kafkaguard_adapters.consuming.base import NO_GROUP, own_lag
from tests.asking.test_lag_alone import A, Brokers, Facts


def lag_of(brokers, group, positions, **read_errors):
    """Return the group in the report of a consumer with these positions."""
    view = SimpleNamespace(
        cluster=lambda: brokers, facts=Facts(), read_errors={A(0): read_errors["a"]}
    )
    report = asyncio.run(
        own_lag(view, group, positions, isolation="read_uncommitted", timeout=5)
    )
    (found,) = report.groups.values()
    assert found.group == (group or NO_GROUP)
    return found.partitions


@pytest.mark.parametrize("group", ["g", None])
def test_only_its_own_partitions_count(group):
    """The group may have others, which another member reads."""
    error = make(6)
    found = lag_of(Brokers(g={A(0): 90, A(1): 40}), group, {A(0): 95}, a=error)
    assert list(found) == [A(0)]
    assert (found[A(0)].position, found[A(0)].position_lag) == (95, 5)
    assert found[A(0)].committed == (90 if group else None)
    assert found[A(0)].read_error is error


@pytest.mark.parametrize("group", ["g", None])
def test_an_end_that_is_refused_hides_no_other_partition(group):
    """An end offset that is refused leaves the lag of the other partitions."""
    brokers = Brokers(g={A(0): 90, A(1): 40})
    brokers.refuses["ListOffsets", A(0)] = 29
    found = lag_of(brokers, group, {A(0): 95, A(1): 45}, a=None)
    assert (found[A(0)].reason, found[A(0)].position) == (LagReason.ERROR, 95)
    assert found[A(0)].error.code == 29
    assert found[A(1)].position_lag == 5


def test_without_an_assignment_nothing_is_asked():
    """The report is empty, and not that of the whole group."""
    brokers = Brokers(g={A(0): 90})
    assert lag_of(brokers, "g", {}, a=None) == {}
    assert brokers.asked == []
