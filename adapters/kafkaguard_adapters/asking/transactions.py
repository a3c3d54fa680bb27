"""Open transactions: list them, and end one that holds up readers (KIP-664).

The number of requests does not grow with topics or transactions: one ListTransactions
and one DescribeTransactions for each broker, two ListOffsets and one DescribeProducers
for each leader.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from kafka.protocol.admin import (
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
)
from kafka.protocol.producer.transaction import (
    InitProducerIdRequest,
    WriteTxnMarkersRequest,
)

from kafkaguard._cluster.offsets import READ_UNCOMMITTED
from kafkaguard._cluster.reports import TopicPartition, read_time
from kafkaguard._cluster.transactions import (
    OpenProducer,
    OpenTransaction,
    TransactionsReport,
    find_hanging,
)
from kafkaguard._errors import KafkaGuardError
from kafkaguard_adapters.asking.list_offsets import Leaders
from kafkaguard_adapters.asking.log_ends import Logs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkaguard_adapters.asking.topic_settings import FactsOfTopics
    from kafkaguard_adapters.wire.cluster import Cluster

_OPEN = ["Ongoing", "PrepareCommit", "PrepareAbort"]
#: Milliseconds for a transactional id that is taken over and not used.
_TIMEOUT_MS = 60_000
#: CONCURRENT_TRANSACTIONS, and the seconds until it is asked again.
_CONCURRENT, _PAUSE_S = 51, 0.1


class TransactionLister:
    """Lists the open transactions of a cluster.

    Args:
        cluster: The cluster.
        facts: Looks up facts about topics.
        deadline: The deadline, in seconds on the event loop's clock.
    """

    def __init__(self, cluster: Cluster, facts: FactsOfTopics, deadline: float) -> None:
        self._cluster = cluster
        self._facts = facts
        self._deadline = deadline
        self.errors: list[KafkaGuardError] = []

    async def find(self) -> TransactionsReport:
        """Ask all brokers.

        Raises:
            KafkaGuardError: No broker answers.
        """
        answer = await self._cluster.refresh(self._deadline, None)
        known = await self._known()
        blocked, leaders = await self._blocked(Leaders(answer, self._cluster))
        producers = await self._producers(blocked, leaders)
        now = time.time()
        found = find_hanging(known, producers, blocked, now)
        return TransactionsReport(tuple(found), now, tuple(self.errors))

    async def _known(self) -> list[OpenTransaction]:
        """Return what the coordinators know."""
        parts = await asyncio.gather(
            *(self._of_coordinator(broker) for broker in self._cluster.addresses)
        )
        return [each for part in parts for each in part]

    async def _of_coordinator(self, broker: int) -> list[OpenTransaction]:
        request = ListTransactionsRequest(state_filters=_OPEN, producer_id_filters=[])
        listed = await self._try(request, broker)
        ids = [
            each.transactional_id for each in getattr(listed, "transaction_states", ())
        ]
        if not ids:
            return []
        described = await self._try(
            DescribeTransactionsRequest(transactional_ids=ids), broker
        )
        return [
            _read(each, broker)
            for each in getattr(described, "transaction_states", ())
            if not each.error_code and each.transaction_state in _OPEN
        ]

    async def _blocked(
        self, leaders: Leaders
    ) -> tuple[dict[TopicPartition, int], Mapping[TopicPartition, Any]]:
        """Return how many offsets of each partition only uncommitted readers see."""
        logs = Logs(
            self._cluster, leaders, self._facts, self._deadline, READ_UNCOMMITTED
        )
        await logs.read_ends()
        await logs.fill("last_stable", leaders.partitions)
        blocked = {}
        for place, columns in logs.columns.items():
            end, stable = logs.end(place), columns.get("last_stable")
            if end is not None and stable is not None and stable < end:
                blocked[place] = end - stable
        return blocked, leaders.partitions

    async def _producers(
        self, places: Iterable[TopicPartition], leaders: Mapping[TopicPartition, Any]
    ) -> dict[TopicPartition, list[OpenProducer]]:
        by_leader: defaultdict[int, list[TopicPartition]] = defaultdict(list)
        for place in places:
            by_leader[leaders[place]].append(place)
        parts = await asyncio.gather(
            *(self._of_leader(*each) for each in by_leader.items())
        )
        return {place: some for part in parts for place, some in part.items()}

    async def _of_leader(
        self, leader: int, places: list[TopicPartition]
    ) -> dict[TopicPartition, list[OpenProducer]]:
        topics: defaultdict[str, list[int]] = defaultdict(list)
        for topic, partition in places:
            topics[topic].append(partition)
        make = DescribeProducersRequest.TopicRequest
        request = DescribeProducersRequest(
            topics=[make(name=t, partition_indexes=p) for t, p in topics.items()]
        )
        answer = await self._try(request, leader)
        return {
            TopicPartition(topic.name, each.partition_index): _open_ones(each)
            for topic in getattr(answer, "topics", ())
            for each in topic.partitions
        }

    async def _try(self, request: Any, broker: int) -> Any:
        """Return an answer, or None, and keep why there is none."""
        try:
            answer = await self._cluster.ask(request, broker, self._deadline)
        except KafkaGuardError as error:
            self.errors.append(error)
            return None
        if code := getattr(answer, "error_code", 0):
            api = type(request).__name__.removesuffix("Request")
            self.errors.append(self._cluster.make(code, api=api, broker=broker))
            return None
        return answer


def _read(described: Any, broker: int) -> OpenTransaction:
    places = (
        TopicPartition(topic.topic, number)
        for topic in described.topics
        for number in topic.partitions
    )
    return OpenTransaction(
        described.transactional_id,
        described.producer_id,
        described.producer_epoch,
        described.transaction_state,
        read_time(described.transaction_start_time_ms),
        described.transaction_timeout_ms / 1000,
        tuple(sorted(places)),
        coordinator=broker,
    )


def _open_ones(partition: Any) -> list[OpenProducer]:
    return [
        OpenProducer(
            each.producer_id,
            each.producer_epoch,
            each.current_txn_start_offset,
            each.last_timestamp / 1000,
            each.coordinator_epoch,
        )
        for each in partition.active_producers
        if each.current_txn_start_offset >= 0
    ]


async def abort(cluster: Cluster, one: OpenTransaction, deadline: float) -> None:
    """End an open transaction.

    One that a coordinator knows is aborted by a new producer with its id, which fences
    its producer. For one that hangs, abort markers are written to its partitions.

    Args:
        cluster: The cluster.
        one: The transaction, as it was listed.
        deadline: The deadline, in seconds on the event loop's clock.

    Raises:
        KafkaGuardError: A broker refuses it.
    """
    topics = {place.topic for place in one.partitions}
    leaders = Leaders(await cluster.refresh(deadline, topics), cluster)
    if one.transactional_id is not None and one.coordinator is not None:
        await _take_over(cluster, one.transactional_id, one.coordinator, deadline)
        return
    for place in one.partitions:
        leader = leaders.of(place)
        if isinstance(leader, KafkaGuardError):
            raise leader
        await _write_marker(cluster, one, place, leader, deadline)


async def _take_over(
    cluster: Cluster, transactional_id: str, coordinator: int, deadline: float
) -> None:
    """Take over an id; while the coordinator aborts what is open, it says 51."""
    request = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=_TIMEOUT_MS,
        producer_id=-1,
        producer_epoch=-1,
    )
    while True:
        answer = await cluster.ask(request, coordinator, deadline)
        if not answer.error_code:
            return
        is_over = asyncio.get_running_loop().time() + _PAUSE_S > deadline
        if answer.error_code != _CONCURRENT or is_over:
            raise cluster.make(answer.error_code, api="InitProducerId")
        await asyncio.sleep(_PAUSE_S)


async def _write_marker(
    cluster: Cluster,
    one: OpenTransaction,
    place: TopicPartition,
    leader: int,
    deadline: float,
) -> None:
    seen = one.producers[place]
    marker = WriteTxnMarkersRequest.WritableTxnMarker
    topic = marker.WritableTxnMarkerTopic
    request = WriteTxnMarkersRequest(
        markers=[
            marker(
                producer_id=seen.producer_id,
                producer_epoch=seen.epoch,
                transaction_result=False,
                topics=[topic(name=place.topic, partition_indexes=[place.partition])],
                coordinator_epoch=max(0, seen.coordinator_epoch),
            )
        ]
    )
    answer = await cluster.ask(request, leader, deadline)
    codes = [
        each.error_code
        for one_marker in answer.markers
        for each_topic in one_marker.topics
        for each in each_topic.partitions
    ]
    for code in filter(None, codes):
        raise cluster.make(
            code,
            api="WriteTxnMarkers",
            topic=place.topic,
            partition=place.partition,
        )
