"""Handling records with kafka-python: listeners, deserialisers, automatic commits.

The client calls listeners in its own thread, and asynchronous ones do not stop its
heartbeats. So the guard's listener is one, and chains the application's.

In an eager rebalance the client keeps the state of a partition that it gets back: the
position behind records that were dropped, and a mark that it is not to be fetched. So
the guard forgets the state of revoked partitions, as Java's client does.
"""

# ruff: noqa: SLF001 - this module is for the use of private attributes

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkaguard._cluster.reports import as_partition
from kafkaguard_adapters.processing.assignment import Pauses, chain

if TYPE_CHECKING:
    from kafkaguard_adapters.processing.shell import Listener

#: Seconds between two looks whether a listener may return.
_STEP_S: Final = 0.02


def switch_off_commits(consumer: Any) -> None:
    """Let the client commit nothing by itself from now on."""
    consumer.config["enable_auto_commit"] = False
    consumer._coordinator.config["enable_auto_commit"] = False


class Deserialisers:
    """Takes the application's deserialisers out of the client, and calls them.

    Args:
        consumer: The client's consumer.
    """

    def __init__(self, consumer: Any) -> None:
        self._config = consumer._fetcher.config
        self._call = consumer._fetcher.PartitionRecords._deserialize
        names = ("key_deserializer", "value_deserializer")
        self._taken = {name: self._config[name] for name in names}

    @property
    def are_there(self) -> bool:
        """Whether the application has any."""
        return any(self._taken.values())

    def take_out(self) -> None:
        """Let the client return bytes."""
        self._config.update(dict.fromkeys(self._taken))

    def put_back(self) -> None:
        """Let the client call them again."""
        self._config.update(self._taken)

    def call(self, part: str, record: Any) -> Any:
        """Deserialise the key or the value of a record."""
        deserialiser = self._taken[f"{part}_deserializer"]
        data = getattr(record, part)
        return self._call(None, deserialiser, record.topic, record.headers, data)


class Rebalances:
    """Tells the guard of rebalances, and then the application's listener.

    Args:
        consumer: The client's consumer.
        listener: The guard's.
    """

    def __init__(self, consumer: Any, listener: Listener) -> None:
        self._subscription = consumer._subscription
        self.pauses = Pauses(self._subscription)
        self._net = consumer._coordinator._net if consumer._coordinator else None
        self._listener = listener
        self._theirs = self._subscription.rebalance_listener
        self._subscription.rebalance_listener = self

    def stop(self) -> None:
        """Leave the client to the application."""
        self.pauses.stop()
        if self._subscription.rebalance_listener is self:
            self._subscription.rebalance_listener = self._theirs

    async def on_partitions_revoked(self, revoked: Any) -> None:
        """Wait for what runs; commits are made meanwhile."""
        listener = self._listener
        revocation = listener.begin_revocation(map(as_partition, revoked))
        while not listener.is_given_up(revocation):
            await self._net.sleep(_STEP_S)  # type: ignore[union-attr]  # it has a group
        await chain(self._theirs, "on_partitions_revoked", revoked)
        state = self._subscription
        kept = set(state.assignment) - set(revoked)
        if len(kept) < len(state.assignment):
            state.assign_from_subscribed(sorted(kept))

    async def on_partitions_assigned(self, assigned: Any) -> None:
        """Read new partitions."""
        for place in self.pauses.of_user.intersection(assigned):
            self._subscription.pause(place)
        self.pauses.assigned(assigned)
        await chain(self._theirs, "on_partitions_assigned", assigned)
        self._listener.assigned(map(as_partition, assigned))

    async def on_partitions_lost(self, lost: Any) -> None:
        """Commit nothing of partitions that are lost."""
        self._listener.lost(map(as_partition, lost))
        await chain(self._theirs, "on_partitions_lost", lost)
