"""Calls of guarded clients that the guard answers itself: lag, log dirs, offsets."""

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
from kafkaguard_adapters.asking.transactions import TransactionLister, abort
from kafkaguard_adapters.wire.io_thread import run

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from kafkaguard._cluster.lag import LagReport
    from kafkaguard._cluster.log_dirs import LogDirsReport
    from kafkaguard._cluster.reports import TopicPartition
    from kafkaguard._cluster.transactions import OpenTransaction, TransactionsReport
    from kafkaguard_adapters.asking.cluster_view import ClusterView

#: Seconds for a whole call, all brokers and all attempts together.
TIMEOUT_S = 30.0

#: The highest version that fits into a request's header (int16).
_MAX_VERSION = 2**15 - 1

Isolation = Literal["read_uncommitted", "read_committed"]
Assume = Literal["earliest", "latest"]


class AsyncReportCalls:
    """The awaited calls ``log_dirs()`` and ``lag()`` of a guarded client.

    Attributes:
        cluster_view: The guard's own connections to the cluster; each client sets it.
    """

    cluster_view: ClusterView

    async def log_dirs(
        self,
        topics: Iterable[str] | Mapping[str, Collection[int]] | None = None,
        brokers: Iterable[int] | None = None,
        timeout: float = TIMEOUT_S,  # noqa: ASYNC109 - limits the whole report, cancels nothing
        *,
        max_version: int | None = None,
    ) -> LogDirsReport:
        """Ask all brokers at once for their log directories (KIP-113, KIP-784).

        Args:
            topics: List only replicas of these topics, or of these partitions by
                topic. Default: all. The directories themselves are always listed.
            brokers: Ids of the brokers to ask. Default: all brokers of the cluster.
            timeout: Seconds for the whole report. Default: 30.
            max_version: The highest version of the request to use. Default: the highest
                that both the broker and kafkaguard support.

        Returns:
            A value or an error for each broker. The request needs the operation
            Describe on the resource Cluster; without it, each broker's error says so.

        Raises:
            KafkaGuardError: No broker can be reached, or the client's settings cannot
                be used for a connection of the guard.
        """
        selection: Any = topics
        if not isinstance(topics, Mapping):
            selection = arguments.names("topics", topics)
        broker_ids = arguments.ids("brokers", brokers)
        limit = arguments.seconds("timeout", timeout)
        if max_version is not None:
            max_version = arguments.whole_number(
                "max_version", max_version, 0, _MAX_VERSION
            )
        cluster = self.cluster_view.cluster()
        return await log_dirs.log_dirs(
            cluster, selection, broker_ids, limit, max_version
        )

    async def lag(
        self,
        groups: Iterable[str] | str | None = None,
        topics: Iterable[str] | str | None = None,
        *,
        isolation: Isolation = "read_uncommitted",
        assume: Assume | None = None,
        columns: Iterable[str] = (),
        stable: bool = False,
        timeout: float = TIMEOUT_S,  # noqa: ASYNC109 - limits the whole report, cancels nothing
    ) -> LagReport:
        """Measure the lag of groups: committed offset, end and lag (KIP-17).

        All groups share the requests: one FindCoordinator, one OffsetFetch for each
        coordinator, one Metadata, one ListOffsets for each leader. If a group is
        behind, the call sends one more ListOffsets to each leader (to count the offsets
        that retention has removed) and one or two requests to each coordinator (to find
        the topics that members no longer read). The call needs Describe on the groups
        and topics, and never creates a topic.

        Args:
            groups: Names of groups. Default: all groups in any state, which costs one
                ListGroups for each broker.
            topics: Report only these topics. For groups that ``groups`` names, also
                topics without a commit are reported. Default: the topics that a group
                has committed.
            isolation: Which offset is the end: ``"read_uncommitted"`` (default) is the
                high watermark, ``"read_committed"`` the last stable offset.
            assume: Where a consumer without a commit begins: ``"earliest"`` or
                ``"latest"``. Default: not known, so there is no lag.
            columns: More columns: ``log_start``, ``last_stable``, ``time`` (each costs
                one empty Fetch for each leader if Read is allowed, else a ListOffsets;
                ``time`` reads one batch of each partition that lags), ``members`` (two
                requests for each coordinator), ``facts`` (one DescribeConfigs).
            stable: Wait, for half of ``timeout``, until the commits of running
                transactions have ended (KIP-447). Default: False.
            timeout: Seconds for the whole report. Default: 30.

        Returns:
            The lag, or the reason that there is none, for each partition of each group.

        Raises:
            KafkaGuardError: No broker can be reached, or the client's settings cannot
                be used for a connection of the guard.
            TypeError: An argument has the wrong type.
            ValueError: An argument is not one of the allowed words, or ``timeout`` is
                not above 0.
        """
        topic_names = arguments.names("topics", topics)
        more = arguments.names("columns", columns) or ()
        question = Question(
            groups=arguments.names("groups", groups),
            topics=None if topic_names is None else frozenset(topic_names),
            isolation=_read_isolation(isolation),
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

    async def open_transactions(
        self,
        timeout: float = TIMEOUT_S,  # noqa: ASYNC109 - limits the whole report, cancels nothing
    ) -> TransactionsReport:
        """List the open transactions, which hold up ``read_committed`` readers.

        Also those that hang: their partition's leader knows them, and no coordinator
        does (KIP-664). Needs Describe on the transactional ids, and Read on the topics
        whose readers are held up.

        Args:
            timeout: Seconds for the whole report. Default: 30.

        Raises:
            KafkaGuardError: No broker can be reached, or the client's settings cannot
                be used for a connection of the guard.
        """
        deadline = asyncio.get_running_loop().time() + arguments.seconds(
            "timeout", timeout
        )
        view = self.cluster_view
        return await TransactionLister(view.cluster(), view.facts, deadline).find()

    async def end_transaction(
        self,
        transaction: OpenTransaction,
        timeout: float = TIMEOUT_S,  # noqa: ASYNC109 - limits the call, cancels nothing
    ) -> None:
        """Abort an open transaction of another producer.

        One that a coordinator knows is aborted by taking over its transactional id:
        its producer, if it lives, is fenced. Needs Write on the id. For one that hangs,
        abort markers are written to its partitions. Needs ClusterAction.

        Args:
            transaction: One of :meth:`open_transactions`.
            timeout: Seconds for the call. Default: 30.

        Raises:
            KafkaGuardError: A broker refuses it, or cannot be reached.
        """
        deadline = asyncio.get_running_loop().time() + arguments.seconds(
            "timeout", timeout
        )
        await abort(self.cluster_view.cluster(), transaction, deadline)


class AsyncClusterCalls(AsyncReportCalls):
    """Adds offsets, for clients that have no methods of these names."""

    async def beginning_offsets(
        self,
        partitions: Iterable[Any],
        timeout: float = TIMEOUT_S,  # noqa: ASYNC109 - limits the whole report, cancels nothing
    ) -> OffsetsReport:
        """Look up first offsets of partitions, in remote storage if a topic is tiered.

        While a broker is still reading the metadata of remote storage, the request is
        repeated for the partitions concerned, at intervals of 0.1 s or more, until
        ``timeout``. Then these partitions have a ``RemoteStorageNotReadyError``, and
        the others have their offsets (KIP-1007).

        Args:
            partitions: Pairs of topic and partition, or any client's TopicPartition.
            timeout: Seconds for the whole report. Default: 30.

        Returns:
            An offset or an error for each partition.

        Raises:
            KafkaGuardError: The client was closed, or its settings cannot be used for
                the guard's own connections.
            TypeError: ``partitions`` is not a list of partitions, or ``timeout`` is not
                a number.
            ValueError: ``timeout`` is not above 0.
        """
        return await self._list(_map_to_time(partitions, EARLIEST), timeout)

    async def end_offsets(
        self,
        partitions: Iterable[Any],
        timeout: float = TIMEOUT_S,  # noqa: ASYNC109 - limits the whole report, cancels nothing
        *,
        isolation: Isolation = "read_uncommitted",
    ) -> OffsetsReport:
        """Look up the end of partitions; otherwise as :meth:`beginning_offsets`.

        Args:
            partitions: Pairs of topic and partition, or any client's TopicPartition.
            timeout: Seconds for the whole report. Default: 30.
            isolation: Which offset is the end: ``"read_uncommitted"`` (default) is the
                high watermark, ``"read_committed"`` the last stable offset.
        """
        times = _map_to_time(partitions, LATEST)
        return await self._list(times, timeout, _read_isolation(isolation))

    async def offsets_for_times(
        self,
        times: Mapping[Any, float],
        timeout: float = TIMEOUT_S,  # noqa: ASYNC109 - limits the whole report, cancels nothing
    ) -> OffsetsReport:
        """Look up the first offset whose timestamp is not older than a time.

        Args:
            times: Milliseconds since 1970 by partition, as Kafka's clients take them,
                or Kafka's own negative numbers for special times (-1 to -6).
            timeout: Seconds for the whole report. Default: 30. A look-up in remote
                storage can take long (KIP-1075).

        Raises:
            TypeError: A time is not a number.
            ValueError: A time is negative and not a special time, or does not fit into
                int64.
        """
        by_partition = arguments.mapping("times", times, "milliseconds by partition")
        lookups = {as_partition(p): _check_time(t) for p, t in by_partition.items()}
        return await self._list(lookups, timeout)

    async def max_timestamp_offsets(
        self,
        partitions: Iterable[Any],
        timeout: float = TIMEOUT_S,  # noqa: ASYNC109 - limits the whole report, cancels nothing
    ) -> OffsetsReport:
        """Look up the offsets of the records with the greatest timestamps (KIP-734).

        For a tiered topic, brokers search local segments only, and the answer does not
        say so; ``is_local_only`` in the report does (KAFKA-17552). If a broker does not
        support version 7 of ListOffsets, no request is sent, and its partitions have an
        ``UnsupportedVersionError``.
        """
        return await self._list(_map_to_time(partitions, MAX_TIMESTAMP), timeout)

    async def _list(
        self,
        places: Mapping[TopicPartition, int],
        timeout: float,  # noqa: ASYNC109 - limits the whole report, cancels nothing
        isolation: int = READ_UNCOMMITTED,
    ) -> OffsetsReport:
        limit = arguments.seconds("timeout", timeout)
        view = self.cluster_view
        deadline = asyncio.get_running_loop().time() + limit
        lister = OffsetLister(view.cluster(), view.facts, deadline, isolation=isolation)
        return OffsetsReport(await lister.list(places))


class ReportCalls:
    """The blocking calls ``log_dirs()`` and ``lag()`` of a guarded client.

    Attributes:
        cluster_view: The guard's own connections to the cluster; each client sets it.
    """

    cluster_view: ClusterView

    def log_dirs(
        self,
        topics: Iterable[str] | Mapping[str, Collection[int]] | None = None,
        brokers: Iterable[int] | None = None,
        timeout: float = TIMEOUT_S,
        *,
        max_version: int | None = None,
    ) -> LogDirsReport:
        """Ask for log directories; see :meth:`AsyncReportCalls.log_dirs`."""
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
        """Measure the lag of groups; see :meth:`AsyncReportCalls.lag`."""
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

    def open_transactions(self, timeout: float = TIMEOUT_S) -> TransactionsReport:
        """List open ones; see :meth:`AsyncReportCalls.open_transactions`."""
        return run(self._awaited.open_transactions(timeout))

    def end_transaction(
        self, transaction: OpenTransaction, timeout: float = TIMEOUT_S
    ) -> None:
        """Abort one; see :meth:`AsyncReportCalls.end_transaction`."""
        run(self._awaited.end_transaction(transaction, timeout))

    def close_view(self) -> None:
        """Close the connections of these calls; later calls raise an error."""
        if not self.cluster_view.is_closed:
            run(self.cluster_view.close())

    @property
    def _awaited(self) -> AsyncClusterCalls:
        calls = AsyncClusterCalls()
        calls.cluster_view = self.cluster_view
        return calls


class ClusterCalls(ReportCalls):
    """Adds offsets, for clients that have no methods of these names."""

    def beginning_offsets(
        self, partitions: Iterable[Any], timeout: float = TIMEOUT_S
    ) -> OffsetsReport:
        """Look up first offsets; see :meth:`AsyncClusterCalls.beginning_offsets`."""
        return run(self._awaited.beginning_offsets(partitions, timeout))

    def end_offsets(
        self,
        partitions: Iterable[Any],
        timeout: float = TIMEOUT_S,
        *,
        isolation: Isolation = "read_uncommitted",
    ) -> OffsetsReport:
        """Look up end offsets; see :meth:`AsyncClusterCalls.end_offsets`."""
        return run(self._awaited.end_offsets(partitions, timeout, isolation=isolation))

    def offsets_for_times(
        self, times: Mapping[Any, float], timeout: float = TIMEOUT_S
    ) -> OffsetsReport:
        """Look up offsets by time; see :meth:`AsyncClusterCalls.offsets_for_times`."""
        return run(self._awaited.offsets_for_times(times, timeout))

    def max_timestamp_offsets(
        self, partitions: Iterable[Any], timeout: float = TIMEOUT_S
    ) -> OffsetsReport:
        """Find latest records; see :meth:`AsyncClusterCalls.max_timestamp_offsets`."""
        return run(self._awaited.max_timestamp_offsets(partitions, timeout))


def _map_to_time(partitions: Iterable[Any], when: int) -> dict[TopicPartition, int]:
    """Return the same time for each partition."""
    expected = "a list of partitions, as (topic, partition)"
    values = arguments.items("partitions", partitions, expected)
    return dict.fromkeys(map(as_partition, values), when)


def _check_time(value: Any) -> int:
    """Check a time for which offsets are looked up, and return it as an int."""
    when = arguments.milliseconds("times", value)
    if when < 0 and when not in SPECIAL_TIMES:
        raise ValueError(f"times takes milliseconds since 1970, not {when}")
    return when


def _read_isolation(word: str) -> int:
    return ISOLATION_LEVELS[arguments.one_of("isolation", word, ISOLATION_LEVELS)]
