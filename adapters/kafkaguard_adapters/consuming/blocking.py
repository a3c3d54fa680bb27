"""Shared parts of guarded consumers with blocking calls."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from kafkaguard_adapters.consuming.forks import ForkSafe
from kafkaguard_adapters.consuming.own_lag import own_lag
from kafkaguard_adapters.stand_in import GuardedClient
from kafkaguard_adapters.wire.io_thread import run

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkaguard._cluster.lag import LagReport
    from kafkaguard._cluster.reports import TopicPartition
    from kafkaguard_adapters.asking.cluster_calls import Isolation


class BlockingConsumer(ForkSafe, GuardedClient):
    """A consumer that knows its own lag, and its own process."""

    #: The consumer's group; None: it has none.
    _group: str | None
    _isolation: Isolation

    @abstractmethod
    def _positions(self) -> Mapping[TopicPartition, int | None]:
        """Return where it is in each partition; None: it does not know yet."""

    def lag(self, groups: Any = None, *args: Any, **kwargs: Any) -> LagReport:
        """Say how far groups are behind; without a group, this consumer.

        Its own report has the partitions that it is assigned, each with the committed
        offset, the position, and the lags of both. A partition that cannot be read has
        its ``read_error``.

        Args:
            groups: Their names. Default: this consumer alone.
            args: As for the other guarded clients.
            kwargs: The same, by name.
        """
        if groups is not None or args or "topics" in kwargs:
            return super().lag(groups, *args, **kwargs)
        view = self.cluster_view
        positions = {} if view.is_closed else self._positions()
        kwargs = {"isolation": self._isolation, **kwargs}
        return run(own_lag(view, self._group, positions, **kwargs))
