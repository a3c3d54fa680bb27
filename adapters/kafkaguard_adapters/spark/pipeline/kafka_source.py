"""Pipelines that read from Kafka: their options, and where they start."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

FORMAT = "kafka"
#: Options of Spark's KafkaSourceProvider, which has no list; also all ``kafka.*``.
OPTIONS = (
    "assign",
    "endingOffsets",
    "endingOffsetsByTimestamp",
    "endingTimestamp",
    "failOnDataLoss",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "groupIdPrefix",
    "includeHeaders",
    "kafka.bootstrap.servers",
    "kafkaConsumer.pollTimeoutMs",
    "maxOffsetsPerTrigger",
    "maxRecordsPerPartition",
    "maxTriggerDelay",
    "minOffsetsPerTrigger",
    "minPartitions",
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "startingTimestamp",
    "subscribe",
    "subscribePattern",
)
_STARTS = "starting"
_FROM_THE_BEGINNING = {"startingOffsets": "earliest"}


def with_beginning(options: Mapping[str, str]) -> dict[str, str]:
    """Add the start "earliest" if none is given; Spark would start at the end."""
    if any(name.lower().startswith(_STARTS) for name in options):
        return dict(options)
    return {**options, **_FROM_THE_BEGINNING}
