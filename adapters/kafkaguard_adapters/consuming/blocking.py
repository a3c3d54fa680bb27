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
    """A guarded consumer with blocking calls: it reports its own lag, handles forks."""

    #: The consumer's group; None if it has no group.
    _group: str | None
    _isolation: Isolation

    @abstractmethod
    def _positions(self) -> Mapping[TopicPartition, int | None]:
        """Return the position in each partition; None: not known yet."""

    def lag(self, groups: Any = None, *args: Any, **kwargs: Any) -> LagReport:
        """Measure the lag of groups, or by default of this consumer.

        The consumer's own report has its assigned partitions, each with the committed
        offset, the position, and the lag of both. A partition that cannot be read has a
        ``read_error``.

        Args:
            groups: Names of groups. Default: this consumer only.
            args: Other arguments of ``lag`` of the other guarded clients.
            kwargs: Other arguments of ``lag``, by name.
        """
        if groups is not None or args or "topics" in kwargs:
            return super().lag(groups, *args, **kwargs)
        view = self.cluster_view
        positions = {} if view.is_closed else self._positions()
        kwargs = {"isolation": self._isolation, **kwargs}
        return run(own_lag(view, self._group, positions, **kwargs))
