"""Pipelines that read from Kafka: where they start, and no loops."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from kafkaguard_adapters.spark.pipeline.places import MistakeError
from kafkaguard_adapters.spark.policy import DEAD_LETTER, read_policy
from kafkaguard_adapters.spark.settings import dead_letter_topic_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkaguard_adapters.spark.pipeline.model import Pipeline

FORMAT = "kafka"
#: Of Spark's KafkaSourceProvider, which has no list of them; and all under ``kafka.``.
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
    """Add where to begin for who takes what is there; Spark would begin at the end."""
    if any(name.lower().startswith(_STARTS) for name in options):
        return dict(options)
    return {**options, **_FROM_THE_BEGINNING}


def check_other_topics(pipeline: Pipeline) -> None:
    """Check that a pipeline does not read what it writes; it would never end.

    Raises:
        MistakeError: It does, on the same brokers.
    """
    if pipeline.source.format.lower() != FORMAT:
        return
    options = {name.lower(): name for name in pipeline.source.options}
    read = {name: pipeline.source.options[written] for name, written in options.items()}
    if not _same_cluster(
        read.get("kafka.bootstrap.servers", ""), pipeline.sink.bootstrap_servers
    ):
        return
    dead_letters = dead_letter_topic_of(
        read_policy(pipeline.policy), pipeline.sink.topic
    )
    for written, place in (
        (pipeline.sink.topic, "sink.topic"),
        (dead_letters, DEAD_LETTER),
    ):
        for name in ("subscribe", "assign", "subscribepattern"):
            if written and name in read and reads(name, read[name], written):
                raise MistakeError(
                    ("source", "options", options[name]),
                    f"the topic {written} is read here and written to by {place}, so "
                    "the pipeline would read its own records: name another topic in "
                    "one of the two",
                )


def reads(option: str, value: str, topic: str) -> bool:
    """Whether a source with this option reads a topic.

    Args:
        option: ``subscribe``, ``assign`` or ``subscribepattern``.
        value: Its value.
        topic: The topic's name.
    """
    if option == "subscribe":
        return topic in [name.strip() for name in value.split(",")]
    try:
        if option == "assign":
            return topic in json.loads(value)
        return re.fullmatch(value, topic) is not None
    except (ValueError, TypeError, re.error):
        return False  # Spark refuses such a value itself.


def _same_cluster(read: str, written: str) -> bool:
    """Whether two lists of addresses have one in common."""
    return bool(_addresses(read) & _addresses(written))


def _addresses(servers: str) -> set[str]:
    listed = [each.strip().lower() for each in servers.split(",") if each.strip()]
    return {each.rpartition("://")[2] for each in listed}
