"""Fetch requests that read the ends of logs and the timestamp of the next record.

They need the operation Read on the topic. The next record is the next that a consumer
sees. It does not see transaction markers or records that compaction has removed from
their batch. With ``read_committed``, it does not see records of aborted transactions.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kafka.errors import UnsupportedCodecError
from kafka.protocol.consumer import FetchRequest
from kafka.record import MemoryRecords

from kafkaguard._cluster.offsets import READ_COMMITTED, READ_UNCOMMITTED
from kafkaguard._cluster.reports import TopicPartition, read_number, read_time
from kafkaguard._errors import KafkaGuardError
from kafkaguard._verdicts.classification import classify

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from kafkaguard._verdicts.context import TopicFacts
    from kafkaguard_adapters.wire.cluster import Cluster


#: Kafka's code CORRUPT_MESSAGE.
_CORRUPT = 2
#: The timestamp type of a batch whose time the broker has set.
_LOG_APPEND_TIME = 1


@dataclass(frozen=True, slots=True)
class Next:
    """The next record at an offset.

    Attributes:
        timestamp: The record's timestamp, in seconds since 1970; None if it has none.
        exists: Whether there is a next record.
        is_of_batch: Whether ``timestamp`` is that of the batch, because the
            batch cannot be decompressed here.
    """

    timestamp: float | None = None
    exists: bool = True
    is_of_batch: bool = False


@dataclass(frozen=True, slots=True)
class Onward:
    """The bytes have no visible record; the search continues at ``offset``."""

    offset: int


def find_next(answer: Any, offset: int, stop: int) -> Next | Onward | int:
    """Find the next record in one partition of a Fetch response.

    Args:
        answer: The partition; with its aborted transactions, if the isolation level
            is ``read_committed``.
        offset: The position of the consumer.
        stop: The end offset of the log.

    Returns:
        The record, the offset at which to continue, or 2 (CORRUPT_MESSAGE) if a
        consumer could not read the bytes.
    """
    aborted = _Aborted(answer.aborted_transactions or ())
    try:
        for batch in _batches(answer.records):
            if not batch.validate_crc():
                return _CORRUPT
            is_visible = aborted.is_visible(batch)
            if _next_offset(batch) <= offset:
                continue
            record = _find_record(batch, offset) if is_visible else None
            if record is not None:
                return record
            offset = _next_offset(batch)
    except Exception:  # noqa: BLE001 - the codecs raise any kind of exception
        return _CORRUPT
    return Next(exists=False) if offset >= stop else Onward(offset)


class _Aborted:
    """Tracks which batches belong to aborted transactions, in the order of the log."""

    def __init__(self, transactions: Iterable[Any]) -> None:
        by_offset = sorted(transactions, key=lambda each: each.first_offset)
        self._upcoming = deque(by_offset)
        self._producers: set[int] = set()

    def is_visible(self, batch: Any) -> bool:
        """Return whether a consumer sees the records of a batch."""
        if not _has_producer(batch):
            return True
        while self._upcoming and self._upcoming[0].first_offset <= batch.last_offset:
            self._producers.add(self._upcoming.popleft().producer_id)
        if batch.is_control_batch:
            if batch.producer_id in self._producers and next(batch).abort:
                self._producers.discard(batch.producer_id)
            return False
        return not (batch.is_transactional and batch.producer_id in self._producers)


def _has_producer(batch: Any) -> bool:
    """Return whether a batch has a producer id; those of Kafka below 0.11 have none."""
    result: bool = getattr(batch, "has_producer_id", bool)()
    return result


def _next_offset(batch: Any) -> int:
    """Return the offset after a batch; an old batch has its last record's offset."""
    following: int = getattr(batch, "next_offset", batch.base_offset + 1)
    return following


def _find_record(batch: Any, offset: int) -> Next | None:
    """Return a batch's first record at or after an offset; None if there is none."""
    try:
        record = next((each for each in batch if each.offset >= offset), None)
    except UnsupportedCodecError:
        if getattr(batch, "timestamp_type", None) == _LOG_APPEND_TIME:
            return Next(read_time(batch.max_timestamp))  # that of each of its records
        timestamp = read_time(getattr(batch, "first_timestamp", None))
        return Next(timestamp, is_of_batch=True)
    return None if record is None else Next(read_time(record.timestamp))


def _batches(records: bytes | None) -> Iterator[Any]:
    buffer = MemoryRecords(bytes(records or b""))
    while buffer.has_next():
        yield buffer.next_batch()


API: Final = "Fetch"
#: From version 13 on, requests name topics by id only.
_LAST_WITH_NAMES: Final = 12
#: From version 4 on, requests have an isolation level.
_FIRST_WITH_ISOLATION: Final = 4
_NO_SESSION: Final = -1
_BATCH_BYTES: Final = 64 * 1024
_ANSWER_BYTES: Final = 4 * 1024 * 1024


async def peek_ends(
    cluster: Cluster,
    leader: int,
    offsets: Mapping[TopicPartition, int],
    deadline: float,
) -> dict[TopicPartition, dict[str, int]]:
    """Request all start and end offsets from a leader, with one Fetch without records.

    Args:
        cluster: The cluster.
        leader: The broker's id.
        offsets: A valid offset in each log, for example its end.
        deadline: The deadline, in seconds on the event loop's clock.

    Returns:
        ``high_watermark``, ``last_stable`` and ``log_start`` by partition, without
        those that the broker does not return.
    """
    request = _request(
        offsets, max_bytes=0, partition_bytes=0, isolation=READ_COMMITTED
    )
    try:
        answer = await _send(cluster, request, leader, deadline)
    except KafkaGuardError:
        return {}
    return {
        place: dict(_read_ends(each))
        for place, each in _partitions(answer)
        if not each.error_code
    }


def _read_ends(each: Any) -> Iterator[tuple[str, int]]:
    """Yield name and value of each offset in a partition; old versions have fewer."""
    offsets = {
        "high_watermark": each.high_watermark,
        "last_stable": each.last_stable_offset,
        "log_start": each.log_start_offset,
    }
    for name, value in offsets.items():
        offset = read_number(value)
        if offset is not None:
            yield name, offset


async def read_next_records(
    cluster: Cluster,
    leader: int,
    spans: Mapping[TopicPartition, tuple[int, int]],
    deadline: float,
    *,
    isolation: int,
) -> dict[TopicPartition, Next | int]:
    """Request the timestamp of the next record in each range of offsets from a leader.

    This is one Fetch, one more for each partition whose batch is larger than 64 KiB,
    and one more if the fetched batches have no record that a consumer sees.

    Args:
        cluster: The cluster.
        leader: The broker's id.
        spans: The first offset, and the offset before which to stop, by partition.
        deadline: The deadline, in seconds on the event loop's clock.
        isolation: The consumer's isolation level: 0 (``read_uncommitted``) or 1
            (``read_committed``).

    Returns:
        The record or the error code of each partition. A partition is missing if the
        deadline passed before its answer.
    """
    records: dict[TopicPartition, Next | int] = {}
    pending = {place: first for place, (first, _) in spans.items()}
    has_progress = True
    while pending and has_progress:
        request = _request(
            pending,
            max_bytes=_ANSWER_BYTES,
            partition_bytes=_BATCH_BYTES,
            isolation=isolation,
        )
        try:
            answer = await _send(cluster, request, leader, deadline)
        except KafkaGuardError:
            break
        has_progress = False
        for place, each in _partitions(answer):
            step = each.error_code or find_next(each, pending[place], spans[place][1])
            if isinstance(step, Onward):
                has_progress |= step.offset != pending[place]
                pending[place] = step.offset
            else:
                has_progress = True
                records[place] = step
                del pending[place]
    return records


async def count_keyless(
    cluster: Cluster,
    leader: int,
    offsets: Mapping[TopicPartition, int],
    deadline: float,
) -> dict[TopicPartition, int]:
    """Count the records without a key from some offsets on, with one Fetch.

    At most 64 KiB of each partition are read; what cannot be decoded is left out.
    """
    request = _request(
        offsets,
        max_bytes=_BATCH_BYTES * len(offsets),
        partition_bytes=_BATCH_BYTES,
        isolation=READ_UNCOMMITTED,
    )
    try:
        answer = await _send(cluster, request, leader, deadline)
    except KafkaGuardError:
        return {}
    return {place: _keyless_in(each.records) for place, each in _partitions(answer)}


def _keyless_in(records: bytes | None) -> int:
    count = 0
    try:
        for batch in _batches(records):
            if not getattr(batch, "is_control_batch", False):
                count += sum(record.key is None for record in batch)
    except Exception:  # noqa: BLE001 - the codecs raise any kind of exception
        return count
    return count


async def probe(
    cluster: Cluster,
    leader: int,
    place: TopicPartition,
    offset: int,
    *,
    deadline: float,
    facts: TopicFacts | None,
) -> KafkaGuardError | None:
    """Fetch at an offset as a consumer does; return the error, or None if it works."""
    request = _request(
        {place: offset}, max_bytes=1, partition_bytes=1, isolation=READ_UNCOMMITTED
    )
    try:
        answer = await _send(cluster, request, leader, deadline)
    except KafkaGuardError as error:
        return error
    code = next((each.error_code for _, each in _partitions(answer)), 0)
    if not code:
        return None
    return make_answer_error(cluster, leader, place, code, facts)


def make_answer_error(
    cluster: Cluster,
    leader: int,
    place: TopicPartition,
    code: int,
    facts: TopicFacts | None,
) -> KafkaGuardError:
    """Make the error of a refused Fetch; the verdict depends on the topic's facts."""
    verdict = classify(code, api=API, facts=facts)
    return cluster.make(
        verdict.error_class,
        code=code,
        api=API,
        topic=place.topic,
        partition=place.partition,
        broker=leader,
        verdict=verdict,
    )


async def _send(cluster: Cluster, request: Any, leader: int, deadline: float) -> Any:
    min_version = _FIRST_WITH_ISOLATION if request.isolation_level else 0
    answer: Any = await cluster.ask(
        request, leader, deadline, max_version=_LAST_WITH_NAMES, min_version=min_version
    )
    return answer


def _request(
    offsets: Mapping[TopicPartition, int],
    *,
    max_bytes: int,
    partition_bytes: int,
    isolation: int,
) -> Any:
    topic_class = FetchRequest.FetchTopic
    by_topic: dict[str, list[Any]] = defaultdict(list)
    for place, offset in offsets.items():
        by_topic[place.topic].append(
            topic_class.FetchPartition(
                partition=place.partition,
                fetch_offset=offset,
                partition_max_bytes=partition_bytes,
            )
        )
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=max_bytes,
        isolation_level=isolation,
        session_id=0,
        session_epoch=_NO_SESSION,
        topics=[
            topic_class(topic=name, partitions=each) for name, each in by_topic.items()
        ],
        forgotten_topics_data=[],
    )


def _partitions(answer: Any) -> Iterator[tuple[TopicPartition, Any]]:
    for topic in answer.responses:
        for each in topic.partitions:
            yield TopicPartition(topic.topic, each.partition_index), each
