"""Fetch requests that measure: ends of logs, and the time of the next record.

Both need the operation Read on the topic.
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

    from kafkaguard._verdicts.verdict import TopicFacts
    from kafkaguard_adapters.asking.answers import Fetched, FetchedPartition
    from kafkaguard_adapters.wire.cluster import Cluster

API: Final = "Fetch"
#: From version 13 on topics have ids only.
_LAST_WITH_NAMES: Final = 12
#: From version 4 on there is an isolation level.
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
    """Ask a leader for all ends at once, with one Fetch that reads nothing.

    Args:
        cluster: Whom to ask.
        leader: The broker's id.
        offsets: An offset within each log, as its end.
        deadline: By when, on the loop's clock.

    Returns:
        Where they could be had: ``high_watermark``, ``last_stable``, ``log_start``.
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


def _ends(each: FetchedPartition) -> Iterator[tuple[str, int]]:
    """Name what a partition of an answer tells; an old version tells less."""
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
    """Ask a leader when the next record in each span of offsets was written.

    One Fetch, one more for each partition whose batch is larger than 64 KiB, and one
    more where there is nothing that a reader sees.

    Args:
        cluster: Whom to ask.
        leader: The broker's id.
        spans: First offset, and the offset where to stop, by partition.
        deadline: By when, on the loop's clock.
        isolation: 0 or 1, as a reader has it.

    Returns:
        The records, or the codes with which they were refused; nothing where there was
        no time.
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
    """Fetch at an offset as a consumer would; return the error that it would get."""
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
    """Make the error of a Fetch that was refused; the topic's settings have a say."""
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


async def _send(
    cluster: Cluster, request: Any, leader: int, deadline: float
) -> Fetched:
    least = _FIRST_WITH_ISOLATION if request.isolation_level else 0
    answer: Fetched = await cluster.ask(
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


def _partitions(answer: Fetched) -> Iterator[tuple[TopicPartition, FetchedPartition]]:
    for topic in answer.responses:
        for each in topic.partitions:
            yield TopicPartition(topic.topic, each.partition_index), each
