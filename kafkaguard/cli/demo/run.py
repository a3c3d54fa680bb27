"""The two runs of the demo: Spark's own sink, and kafkaguard."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import kafkaguard.spark
from kafkaguard._errors import for_code
from kafkaguard.cli.demo.flights import ORDER, Contents, as_records, expect, read_topic

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from kafkaguard.cli.demo.flights import Expected
    from kafkaguard.testing import KafkaCluster

    Say = Callable[[str], None]

COMPACTED = {"cleanup.policy": "compact"}
PARTITIONS = 4


@dataclass(frozen=True)
class Unguarded:
    """The result of writing with Spark's own sink.

    Attributes:
        topic: The topic.
        error: Why the job failed, in a few words; None if it did not.
        landed: Records in the topic in spite of the failure.
        repeated: How many of them are duplicates.
        lost: Flights with an aircraft that are not in the topic.
        wrong_last: Aircraft without a record, or whose last record is not their last
            flight.
        seconds: How long it took.
    """

    topic: str
    error: str | None
    landed: int
    repeated: int
    lost: int
    wrong_last: int
    seconds: float


@dataclass(frozen=True)
class Guarded:
    """The result of writing with kafkaguard, read back from the topics.

    Attributes:
        topic: The topic.
        dead_letter_topic: The topic of records without a key.
        delivered: Records in the topic.
        dead_lettered: Records in the dead-letter topic.
        reasons: The dead-lettered records by the reason in their headers.
        lost: Flights that are in neither topic.
        repeated: Duplicates.
        aircraft: Keys in the topic.
        latest: Aircraft whose last record in the topic is their last flight.
        report: The report of the write itself.
        seconds: How long it took.
    """

    topic: str
    dead_letter_topic: str
    delivered: int
    dead_lettered: int
    reasons: dict[str, int]
    lost: int
    repeated: int
    aircraft: int
    latest: int
    report: kafkaguard.spark.WriteReport
    seconds: float


@dataclass(frozen=True)
class DemoResult:
    """The results of both runs, and the content of the input."""

    flights: int
    keyless: int
    aircraft: int
    unguarded: Unguarded
    guarded: Guarded

    @property
    def as_promised(self) -> bool:
        """Whether each flight arrived once, and each last flight is right."""
        guarded = self.guarded
        return (
            guarded.delivered == self.flights - self.keyless
            and guarded.reasons == {"NULL_KEY": self.keyless}
            and guarded.lost == guarded.repeated == 0
            and guarded.latest == guarded.aircraft == self.aircraft
        )


def run_demo(
    cluster: KafkaCluster, spark: SparkSession, file: Path, say: Say
) -> DemoResult:
    """Write the flights twice, read everything back, and count.

    Args:
        cluster: The cluster to write to.
        spark: A session that has Spark's own Kafka sink.
        file: The flights.
        say: Called with a text before each step.
    """
    expected = expect(file)
    flights = as_records(spark, file)
    total = expected.keyed.total() + expected.keyless.total()
    say(f"{total:,} flights, {len(expected.last):,} aircraft")
    return DemoResult(
        flights=total,
        keyless=expected.keyless.total(),
        aircraft=len(expected.last),
        unguarded=_write_unguarded(cluster, flights, expected, say),
        guarded=_write_guarded(cluster, flights, expected, say),
    )


def _write_unguarded(
    cluster: KafkaCluster, flights: DataFrame, expected: Expected, say: Say
) -> Unguarded:
    say("As people do it today: Spark's own Kafka sink")
    topic = cluster.create_topic(partitions=PARTITIONS, config=COMPACTED)
    writer = flights.write.format("kafka").option("topic", topic)
    writer = writer.option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    started = time.monotonic()
    error = None
    try:
        writer.save()
    except Exception as failure:  # noqa: BLE001 - the job's end is what the demo shows
        error = _name_failure(failure)
    seconds = time.monotonic() - started
    say("Reading back what landed")
    contents = read_topic(cluster.bootstrap_servers, topic)
    return Unguarded(
        topic=topic,
        error=error,
        landed=contents.records,
        repeated=contents.repeated,
        lost=(expected.keyed - contents.flights).total(),
        wrong_last=len(expected.last) - _count_latest(expected, contents),
        seconds=seconds,
    )


def _write_guarded(
    cluster: KafkaCluster, flights: DataFrame, expected: Expected, say: Say
) -> Guarded:
    say("Through kafkaguard")
    topic = cluster.create_topic(partitions=PARTITIONS, config=COMPACTED)
    dead_letter_topic = cluster.create_topic()
    started = time.monotonic()
    report = kafkaguard.spark.write(
        flights,
        topic,
        bootstrap_servers=cluster.bootstrap_servers,
        policy={
            "extends": "spark-sink",
            "dead_letter": {"topic": dead_letter_topic},
        },
        order_by=ORDER,
    )
    seconds = time.monotonic() - started
    say("Reading both topics back")
    contents = read_topic(cluster.bootstrap_servers, topic)
    dead_letters = read_topic(cluster.bootstrap_servers, dead_letter_topic)
    lost_flights = (expected.keyed - contents.flights) + (
        expected.keyless - dead_letters.flights
    )
    return Guarded(
        topic=topic,
        dead_letter_topic=dead_letter_topic,
        delivered=contents.records,
        dead_lettered=dead_letters.records,
        reasons=dict(dead_letters.reasons),
        lost=lost_flights.total(),
        repeated=contents.repeated + dead_letters.repeated,
        aircraft=len(contents.last),
        latest=_count_latest(expected, contents),
        report=report,
        seconds=seconds,
    )


def _count_latest(expected: Expected, contents: Contents) -> int:
    return sum(
        flight == contents.last.get(aircraft)
        for aircraft, flight in expected.last.items()
    )


def _name_failure(failure: Exception) -> str:
    error = kafkaguard.spark.error_from(failure)
    if error is None:
        return type(failure).__name__
    return error.name if error.code is None else for_code(error.code).name
