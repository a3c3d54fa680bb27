"""Pauses of a run and of the application, with the clients' own subscription state.

aiokafka's state needs an event loop that runs.
"""

from __future__ import annotations

from types import SimpleNamespace

import aiokafka.consumer.subscription_state as aiokafka_state
import kafka.consumer.subscription_state as kafka_state
import pytest
from aiokafka.structs import TopicPartition as AwaitedPartition
from kafka.structs import TopicPartition as BlockingPartition

from kafkaguard_adapters.consuming.answers_shell import KeptPauses
from kafkaguard_adapters.processing.assignment import AssignmentShell, Pauses

CLIENTS = {
    "kafka-python": (kafka_state.SubscriptionState, BlockingPartition),
    "aiokafka": (aiokafka_state.SubscriptionState, AwaitedPartition),
}


pytestmark = pytest.mark.parametrize("name", CLIENTS)


class Client:
    """A consumer with three partitions, whose pauses the application may keep."""

    def __init__(self, name, *, keeps):
        make, self.partition = CLIENTS[name]
        self.state = state = make()
        state.subscribe(["t"] if name == "kafka-python" else {"t"})
        if keeps:
            KeptPauses(state)
        self.assign(0, 1, 2)
        self.shell = AssignmentShell(self, self.partition)
        self.shell._rebalances = SimpleNamespace(pauses=Pauses(state))

    def places(self, *numbers):
        """Return partitions."""
        return {self.partition("t", n) for n in numbers}

    def assign(self, *numbers):
        """Get partitions from the group."""
        self.state.assign_from_subscribed(self.places(*numbers))

    def assignment(self):
        """Return the partitions."""
        return self.state.assigned_partitions()

    def pause(self, number):
        """Pause, as the application does."""
        self.state.pause(self.partition("t", number))

    def resume(self, number):
        """Resume."""
        self.state.resume(self.partition("t", number))

    @property
    def paused(self):
        """The numbers of the paused partitions."""
        return {place.partition for place in self.state.paused_partitions()}

    @property
    def pauses(self):
        """Those of the run and of the application."""
        return self.shell._rebalances.pauses


async def test_a_partition_is_read_if_neither_has_paused_it(name):
    """Whoever came first."""
    client = Client(name, keeps=False)
    client.pause(0)
    client.shell.pause(client.places(0, 1, 2))
    client.pause(1)
    assert client.paused == {0, 1, 2}
    client.resume(0)
    client.resume(2)
    assert client.paused == {0, 1, 2}
    client.shell.resume(client.places(0, 1, 2))
    assert client.paused == {1}
    client.resume(1)
    assert client.paused == set()


async def test_the_end_of_a_run_ends_its_pauses_only(name):
    """Afterwards the application has the client for itself."""
    client = Client(name, keeps=False)
    client.shell.pause(client.places(0, 1))
    client.pause(1)
    client.pauses.stop()
    assert client.paused == {1}
    client.resume(1)
    assert client.paused == set()


async def test_a_pause_of_the_run_does_not_outlive_a_rebalance(name):
    """The policy keeps the application's pauses, and no others."""
    keeping = Client(name, keeps=True)
    keeping.shell.pause(keeping.places(0, 1, 2))
    keeping.pause(1)
    keeping.assign(0)
    keeping.assign(0, 1, 2)
    keeping.pauses.assigned(keeping.places(1, 2))
    assert keeping.paused - {0} == {1}
    keeping.shell.pause(keeping.places(0, 1, 2))
    keeping.shell.resume(keeping.places(0, 1, 2))
    assert keeping.paused == {1}
