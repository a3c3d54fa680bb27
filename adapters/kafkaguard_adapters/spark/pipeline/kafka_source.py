"""Pipelines that read from Kafka: where they start, and a check for loops."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from kafkaguard_adapters.spark.pipeline.places import mistake
from kafkaguard_adapters.spark.policy import DEAD_LETTER, read_policy
from kafkaguard_adapters.spark.settings import dead_letter_topic_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkaguard_adapters.spark.pipeline.model import Pipeline

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


def with_beginning(options: Mapping[str, str]) -> dict[str, str]:
    """Add the start "earliest" if none is given; Spark would start at the end."""
    if any(name.lower().startswith("starting") for name in options):
        return dict(options)
    return {**options, "startingOffsets": "earliest"}


def check_other_topics(pipeline: Pipeline) -> None:
    """Check that a pipeline does not read its own records; it would never end.

    Raises:
        MistakeError: The pipeline reads a topic that it writes, on the same brokers.
    """
    if pipeline.source.format.lower() != FORMAT:
        return
    options = {name.lower(): name for name in pipeline.source.options}
    read = {name: pipeline.source.options[written] for name, written in options.items()}
    brokers = _addresses(read.get("kafka.bootstrap.servers", ""))
    if brokers.isdisjoint(_addresses(pipeline.sink.bootstrap_servers)):
        return
    dead_letters = dead_letter_topic_of(
        read_policy(pipeline.policy), pipeline.sink.topic
    )
    for written, place in (
        (pipeline.sink.topic, "sink.topic"),
        (dead_letters, DEAD_LETTER),
    ):
        for name in ("subscribe", "assign", "subscribepattern"):
            if written and name in read and is_read(name, read[name], written):
                raise mistake(
                    f"the topic {written} is read here and written to by {place}, so "
                    "the pipeline would read its own records: name another topic in "
                    "one of the two",
                    *("source", "options", options[name]),
                )


def is_read(option: str, value: str, topic: str) -> bool:
    """Return whether a source with this option reads a topic.

    Args:
        option: ``subscribe``, ``assign`` or ``subscribepattern``.
        value: The option's value.
        topic: The topic's name.
    """
    if option == "subscribe":
        return topic in [name.strip() for name in value.split(",")]
    try:
        if option == "assign":
            return topic in json.loads(value)
        return re.fullmatch(value, topic) is not None
    except (ValueError, TypeError, re.error):
        return False  # Spark itself refuses such a value.


def _addresses(servers: str) -> set[str]:
    listed = [each.strip().lower() for each in servers.split(",") if each.strip()]
    return {each.rpartition("://")[2] for each in listed}
