"""Fetch requests that read the ends of logs and the timestamp of the next record.

They need the operation Read on the topic.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from kafka.protocol.consumer import FetchRequest

from kafkaguard._cluster.numbers import known
from kafkaguard._cluster.offsets import READ_COMMITTED, READ_UNCOMMITTED
from kafkaguard._cluster.reports import TopicPartition
from kafkaguard._verdicts.classification import classify
from kafkaguard.errors import KafkaGuardError
from kafkaguard_adapters.asking.next_record import Next, Onward, find_next

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafkaguard._verdicts.context import TopicFacts
    from kafkaguard_adapters.wire.cluster import Cluster

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
        place: dict(_ends(each))
        for place, each in _partitions(answer)
        if not each.error_code
    }


def _ends(each: Any) -> Iterator[tuple[str, int]]:
    """Yield name and value of each offset in a partition; old versions have fewer."""
    told = {
        "high_watermark": each.high_watermark,
        "last_stable": each.last_stable_offset,
        "log_start": each.log_start_offset,
    }
    for name, value in told.items():
        offset = known(value)
        if offset is not None:
            yield name, offset


async def next_records(
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
    found: dict[TopicPartition, Next | int] = {}
    pending = {place: first for place, (first, _) in spans.items()}
    progress = True
    while pending and progress:
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
        progress = False
        for place, each in _partitions(answer):
            step = each.error_code or find_next(each, pending[place], spans[place][1])
            if isinstance(step, Onward):
                progress |= step.offset != pending[place]
                pending[place] = step.offset
            else:
                progress = True
                found[place] = step
                del pending[place]
    return found


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
    return answer_error(cluster, leader, place, code, facts)


def answer_error(
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
    least = _FIRST_WITH_ISOLATION if request.isolation_level else 0
    answer: Any = await cluster.ask(
        request, leader, deadline, max_version=_LAST_WITH_NAMES, min_version=least
    )
    return answer


def _request(
    offsets: Mapping[TopicPartition, int],
    *,
    max_bytes: int,
    partition_bytes: int,
    isolation: int,
) -> Any:
    named = FetchRequest.FetchTopic
    by_topic: dict[str, list[Any]] = defaultdict(list)
    for place, offset in offsets.items():
        by_topic[place.topic].append(
            named.FetchPartition(
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
        topics=[named(topic=name, partitions=each) for name, each in by_topic.items()],
        forgotten_topics_data=[],
    )


def _partitions(answer: Any) -> Iterator[tuple[TopicPartition, Any]]:
    for topic in answer.responses:
        for each in topic.partitions:
            yield TopicPartition(topic.topic, each.partition_index), each
