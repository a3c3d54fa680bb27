"""What a guarded client can ask of the cluster, beside what its client can."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kafkaguard_adapters import _log_dirs
from kafkaguard_adapters._cluster import Cluster
from kafkaguard_adapters._loop import run

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from kafkaguard._log_dirs import LogDirsReport
    from kafkaguard._reports import Make
    from kafkaguard_adapters._settings import Settings

#: Seconds for a whole call, all brokers and all attempts together.
TIMEOUT_S = 30.0


class ClusterView:
    """Asks the cluster over connections of its own, kept from call to call.

    Args:
        settings: Reads how to reach the cluster, at the first call.
        make: Makes the errors.
    """

    def __init__(self, settings: Callable[[], Settings], make: Make) -> None:
        self._settings = settings
        self._make = make
        self._cluster: Cluster | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def cluster(self) -> Cluster:
        """Return the cluster as seen from the running loop."""
        loop = asyncio.get_running_loop()
        if self._cluster is None or self._loop is not loop:
            self._cluster = Cluster(self._settings(), self._make)
            self._loop = loop
        return self._cluster

    async def close(self) -> None:
        """Close the connections; the next call opens them again."""
        if self._cluster is not None and self._loop is asyncio.get_running_loop():
            self._cluster.close()
        self._cluster = None


class AsyncClusterCalls:
    """The calls for clients whose users await. Subclasses set ``cluster_view``."""

    cluster_view: ClusterView

    async def log_dirs(
        self,
        topics: Iterable[str] | Mapping[str, Collection[int]] | None = None,
        brokers: Iterable[int] | None = None,
        timeout: float = TIMEOUT_S,  # noqa: ASYNC109 - of the whole report, not to cancel
        *,
        max_version: int | None = None,
    ) -> LogDirsReport:
        """Ask all brokers at once for their log directories (KIP-113, KIP-784).

        Args:
            topics: Only replicas of these topics, or of these partitions of topics.
                Default: all. Directories are listed in any case.
            brokers: Only these. Default: all of the cluster.
            timeout: Seconds for the whole report. Default: 30.
            max_version: A cap on the version of the request. Default: the highest that
                a broker and kafkaguard have in common.

        Returns:
            A value or an error for each broker. It needs the operation Describe on the
            resource Cluster; without, each broker's error says so.

        Raises:
            KafkaGuardError: No broker can be reached at all, or the client's settings
                cannot be used for a connection of our own.
        """
        cluster = self.cluster_view.cluster()
        return await _log_dirs.log_dirs(cluster, topics, brokers, timeout, max_version)


class ClusterCalls:
    """The calls for clients whose users block. Subclasses set ``cluster_view``."""

    cluster_view: ClusterView

    def log_dirs(
        self,
        topics: Iterable[str] | Mapping[str, Collection[int]] | None = None,
        brokers: Iterable[int] | None = None,
        timeout: float = TIMEOUT_S,
        *,
        max_version: int | None = None,
    ) -> LogDirsReport:
        """Ask for log directories, as :meth:`AsyncClusterCalls.log_dirs` says."""
        return run(
            self._awaited.log_dirs(topics, brokers, timeout, max_version=max_version)
        )

    def close_view(self) -> None:
        """Close the connections of these calls; the next call opens them again."""
        run(self.cluster_view.close())

    @property
    def _awaited(self) -> AsyncClusterCalls:
        calls = AsyncClusterCalls()
        calls.cluster_view = self.cluster_view
        return calls
