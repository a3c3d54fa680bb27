"""Calls that every guarded client has: lag, log directories, offsets."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from kafkaguard._cluster.offsets import (
    EARLIEST,
    ISOLATION_LEVELS,
    LATEST,
    MAX_TIMESTAMP,
    READ_UNCOMMITTED,
    SPECIAL_TIMES,
    OffsetsReport,
)
from kafkaguard._cluster.reports import as_partition
from kafkaguard._common import arguments
from kafkaguard_adapters.asking import log_dirs
from kafkaguard_adapters.asking.lag import COLUMNS, Question, read_lag
from kafkaguard_adapters.asking.list_offsets import OffsetLister
from kafkaguard_adapters.wire.io_thread import run

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from kafkaguard._cluster.lag import LagReport
    from kafkaguard._cluster.log_dirs import LogDirsReport
    from kafkaguard._cluster.reports import TopicPartition
    from kafkaguard_adapters.asking.cluster_view import ClusterView

#: Seconds for a whole call, all brokers and all attempts together.
TIMEOUT_S = 30.0

#: No request has more versions than an int16 counts.
_MOST = 2**15 - 1

Isolation = Literal["read_uncommitted", "read_committed"]
Assume = Literal["earliest", "latest"]


class AsyncReportCalls:
    """Disks and lag, for users who await. Subclasses set ``cluster_view``."""

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
                cannot be used for a connection of the guard.
        """
        wanted: Any = topics
        if not isinstance(topics, Mapping):
            wanted = arguments.names("topics", topics)
        asked = arguments.ids("brokers", brokers)
        limit = arguments.seconds("timeout", timeout)
        if max_version is not None:
            max_version = arguments.whole_number("max_version", max_version, 0, _MOST)
        cluster = self.cluster_view.cluster()
        return await log_dirs.log_dirs(cluster, wanted, asked, limit, max_version)

    async def lag(
        self,
        groups: Iterable[str] | str | None = None,
        topics: Iterable[str] | str | None = None,
        *,
        isolation: Isolation = "read_uncommitted",
        assume: Assume | None = None,
        columns: Iterable[str] = (),
        stable: bool = False,
        timeout: float = TIMEOUT_S,  # noqa: ASYNC109 - of the whole report, not to cancel
    ) -> LagReport:
        """Say how far groups are behind: committed offset, end and lag (KIP-17).

        All groups share the requests: one FindCoordinator, one OffsetFetch for each
        coordinator, one Metadata, one ListOffsets for each leader. Where a group is
        behind, one more ListOffsets for each leader (for the offsets that are gone) and
        one or two requests for each coordinator (for the topics that its members have
        left). It needs Describe on the groups and topics, and never makes a topic.

        Args:
            groups: Their names. Default: all groups (one ListGroups for each broker
                more), whatever their state.
            topics: Only these; for groups that are named also where they have no
                commit. Default: the topics that a group has committed.
            isolation: Whether the end is the high watermark, or with
                ``"read_committed"`` the last stable offset.
            assume: Where a reader without a commit begins: ``"earliest"`` or
                ``"latest"``. Default: not known, so there is no lag.
            columns: More of ``log_start``, ``last_stable``, ``time`` (each one empty
                Fetch for each leader where Read is allowed, else a ListOffsets;
                ``time`` reads one batch of each partition that lags), ``members`` (two
                requests for each coordinator), ``facts`` (one DescribeConfigs).
            stable: Wait, for half of ``timeout``, for commits of transactions that are
                running (KIP-447).
            timeout: Seconds for the whole report. Default: 30.

        Returns:
            A lag, or the reason that there is none, for each partition of each group.

        Raises:
            KafkaGuardError: No broker can be reached at all, or the client's settings
                cannot be used for a connection of the guard.
            TypeError: An argument is of the wrong type.
            ValueError: An argument is not one of its words, or ``timeout`` not above 0.
        """
        named = arguments.names("topics", topics)
        more = arguments.names("columns", columns) or ()
        question = Question(
            groups=arguments.names("groups", groups),
            topics=None if named is None else frozenset(named),
            isolation=_isolation(isolation),
            assume=arguments.one_of("assume", assume, (None, "earliest", "latest")),
            columns=frozenset(arguments.one_of("columns", e, COLUMNS) for e in more),
            stable=stable,
        )
        limit = arguments.seconds("timeout", timeout)
        view = self.cluster_view
        deadline = asyncio.get_running_loop().time() + limit
        return await read_lag(
            view.cluster(), view.facts, question, deadline, view.read_errors
        )


class AsyncClusterCalls(AsyncReportCalls):
    """Offsets too, for clients that have no calls of these names."""

    async def beginning_offsets(
        self,
        partitions: Iterable[Any],
        timeout: float = TIMEOUT_S,  # noqa: ASYNC109 - of the whole report, not to cancel
    ) -> OffsetsReport:
        """Ask for the first offsets that are there, of tiered topics the remote ones.

        While a broker still reads the metadata of remote storage, the partitions
        concerned are asked again (0.1 s and more apart) until ``timeout``; then they
        have a ``RemoteStorageNotReadyError`` and the others their offsets (KIP-1007).

        Args:
            partitions: Pairs of topic and partition, or any client's TopicPartition.
            timeout: Seconds for the whole report. Default: 30.
        """
        return await self._list(_each(partitions, EARLIEST), timeout)

    async def end_offsets(
        self,
        partitions: Iterable[Any],
        timeout: float = TIMEOUT_S,  # noqa: ASYNC109 - of the whole report, not to cancel
        *,
        isolation: Isolation = "read_uncommitted",
    ) -> OffsetsReport:
        """Ask for ends of logs, as :meth:`beginning_offsets` does for the starts."""
        wanted = _each(partitions, LATEST)
        return await self._list(wanted, timeout, _isolation(isolation))

    async def offsets_for_times(
        self,
        times: Mapping[Any, float],
        timeout: float = TIMEOUT_S,  # noqa: ASYNC109 - of the whole report, not to cancel
    ) -> OffsetsReport:
        """Ask for the first offsets that are not older than a time.

        Args:
            times: Milliseconds since 1970 by partition, as Kafka's clients take them,
                or Kafka's own negative numbers for special times (-1 to -6).
            timeout: Seconds; looking in remote storage can take long (KIP-1075).

        Raises:
            TypeError: A time is no number.
            ValueError: A time is before 1970 and no special one, or beyond int64.
        """
        known = arguments.mapping("times", times, "milliseconds by partition")
        wanted = {as_partition(p): _time(t) for p, t in known.items()}
        return await self._list(wanted, timeout)

    async def max_timestamp_offsets(
        self,
        partitions: Iterable[Any],
        timeout: float = TIMEOUT_S,  # noqa: ASYNC109 - of the whole report, not to cancel
    ) -> OffsetsReport:
        """Ask for the offsets of the records with the greatest timestamps (KIP-734).

        Of a tiered topic brokers look at local segments only, without a word; here
        ``is_local_only`` says so (KAFKA-17552). A broker without version 7 of
        ListOffsets is not asked: ``UnsupportedVersionError``.
        """
        return await self._list(_each(partitions, MAX_TIMESTAMP), timeout)

    async def _list(
        self,
        places: Mapping[TopicPartition, int],
        timeout: float,  # noqa: ASYNC109 - of the whole report, not to cancel
        isolation: int = READ_UNCOMMITTED,
    ) -> OffsetsReport:
        limit = arguments.seconds("timeout", timeout)
        view = self.cluster_view
        deadline = asyncio.get_running_loop().time() + limit
        lister = OffsetLister(view.cluster(), view.facts, deadline, isolation=isolation)
        return OffsetsReport(await lister.list(places))


class ReportCalls:
    """Disks and lag, for users who block. Subclasses set ``cluster_view``."""

    cluster_view: ClusterView

    def log_dirs(
        self,
        topics: Iterable[str] | Mapping[str, Collection[int]] | None = None,
        brokers: Iterable[int] | None = None,
        timeout: float = TIMEOUT_S,
        *,
        max_version: int | None = None,
    ) -> LogDirsReport:
        """Ask for log directories, as :meth:`AsyncReportCalls.log_dirs` says."""
        return run(
            self._awaited.log_dirs(topics, brokers, timeout, max_version=max_version)
        )

    def lag(
        self,
        groups: Iterable[str] | str | None = None,
        topics: Iterable[str] | str | None = None,
        *,
        isolation: Isolation = "read_uncommitted",
        assume: Assume | None = None,
        columns: Iterable[str] = (),
        stable: bool = False,
        timeout: float = TIMEOUT_S,
    ) -> LagReport:
        """Say how far groups are behind, as :meth:`AsyncReportCalls.lag` says."""
        return run(
            self._awaited.lag(
                groups,
                topics,
                isolation=isolation,
                assume=assume,
                columns=columns,
                stable=stable,
                timeout=timeout,
            )
        )

    def close_view(self) -> None:
        """Close the connections of these calls, which are refused from then on."""
        if not self.cluster_view.is_closed:
            run(self.cluster_view.close())

    @property
    def _awaited(self) -> AsyncClusterCalls:
        calls = AsyncClusterCalls()
        calls.cluster_view = self.cluster_view
        return calls


class ClusterCalls(ReportCalls):
    """Offsets too, for clients that have no calls of these names."""

    def beginning_offsets(
        self, partitions: Iterable[Any], timeout: float = TIMEOUT_S
    ) -> OffsetsReport:
        """Ask for starts, as :meth:`AsyncClusterCalls.beginning_offsets` says."""
        return run(self._awaited.beginning_offsets(partitions, timeout))

    def end_offsets(
        self,
        partitions: Iterable[Any],
        timeout: float = TIMEOUT_S,
        *,
        isolation: Isolation = "read_uncommitted",
    ) -> OffsetsReport:
        """Ask for ends, as :meth:`AsyncClusterCalls.end_offsets` says."""
        return run(self._awaited.end_offsets(partitions, timeout, isolation=isolation))

    def offsets_for_times(
        self, times: Mapping[Any, float], timeout: float = TIMEOUT_S
    ) -> OffsetsReport:
        """Look times up, as :meth:`AsyncClusterCalls.offsets_for_times` says."""
        return run(self._awaited.offsets_for_times(times, timeout))

    def max_timestamp_offsets(
        self, partitions: Iterable[Any], timeout: float = TIMEOUT_S
    ) -> OffsetsReport:
        """Ask for the latest records, as the method of that name for who awaits."""
        return run(self._awaited.max_timestamp_offsets(partitions, timeout))


def _each(partitions: Iterable[Any], when: int) -> dict[TopicPartition, int]:
    """Ask the same of each partition."""
    wanted = "a list of partitions, as (topic, partition)"
    listed = arguments.items("partitions", partitions, wanted)
    return dict.fromkeys(map(as_partition, listed), when)


def _time(value: Any) -> int:
    """Read a time that offsets are asked for."""
    when = arguments.milliseconds("times", value)
    if when < 0 and when not in SPECIAL_TIMES:
        raise ValueError(f"times takes milliseconds since 1970, not {when}")
    return when


def _isolation(word: str) -> int:
    return ISOLATION_LEVELS[arguments.one_of("isolation", word, ISOLATION_LEVELS)]
