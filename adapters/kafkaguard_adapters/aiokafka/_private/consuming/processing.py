"""Handling records with aiokafka: listeners, deserialisers, automatic commits."""

# ruff: noqa: SLF001 - this module exists to use private attributes

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from aiokafka.abc import ConsumerRebalanceListener

from kafkaguard._cluster.reports import as_partition
from kafkaguard_adapters.processing.assignment import Pauses, chain

if TYPE_CHECKING:
    from kafkaguard_adapters.processing.shell import AwaitedListener

_MS: Final = 1000


def commits_itself(consumer: Any) -> bool:
    """Return whether the client commits what was read."""
    return bool(consumer._enable_auto_commit and consumer._group_id)


def switch_off_commits(consumer: Any) -> None:
    """Let the client commit nothing by itself from now on."""
    consumer._enable_auto_commit = False
    consumer._coordinator._enable_auto_commit = False


def revocation_limit(consumer: Any) -> float:
    """Return after how many seconds a listener loses the member its place."""
    limit = consumer._rebalance_timeout_ms or consumer._session_timeout_ms
    return float(limit) / _MS


class Deserialisers:
    """Takes the application's deserialisers out of the client, and calls them.

    Args:
        consumer: The client's consumer, which was started.
    """

    def __init__(self, consumer: Any) -> None:
        self._fetcher = fetcher = consumer._fetcher
        self.key = fetcher._key_deserializer
        self.value = fetcher._value_deserializer

    @property
    def are_there(self) -> bool:
        """Whether the application has any."""
        return self.key is not None or self.value is not None

    def take_out(self) -> None:
        """Let the client return bytes."""
        self._fetcher._key_deserializer = self._fetcher._value_deserializer = None

    def call(self, part: str, record: Any) -> Any:
        """Deserialise the key or the value of a record."""
        deserialiser, data = getattr(self, part), getattr(record, part)
        return data if deserialiser is None else deserialiser(data)

    def put_back(self) -> None:
        """Let the client call them again."""
        self._fetcher._key_deserializer = self.key
        self._fetcher._value_deserializer = self.value


class Rebalances(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka is untyped
    """Tells the guard of rebalances, and then the application's listener.

    Args:
        consumer: The client's consumer.
        driver: The driver of the run.
    """

    def __init__(self, consumer: Any, driver: AwaitedListener) -> None:
        self._subscription = consumer._subscription
        self.pauses = Pauses(self._subscription)
        self._driver = driver
        self._theirs = self._subscription._listener
        self._subscription._listener = self

    def stop(self) -> None:
        """Leave the client to the application."""
        self.pauses.stop()
        if self._subscription._listener is self:
            self._subscription._listener = self._theirs

    async def on_partitions_revoked(self, revoked: Any) -> None:
        """Wait for what runs, and commit it."""
        await self._driver.revoke(map(as_partition, revoked))
        await chain(self._theirs, "on_partitions_revoked", revoked)

    async def on_partitions_assigned(self, assigned: Any) -> None:
        """Read new partitions."""
        self.pauses.assigned(assigned)
        await chain(self._theirs, "on_partitions_assigned", assigned)
        self._driver.assigned(map(as_partition, assigned))
