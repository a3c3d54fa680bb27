"""The demo's numbers, counted once more by reading its topics back."""

from __future__ import annotations

import csv
import json
from collections import Counter

import pytest
from click.testing import CliRunner
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from kafkaguard.cli.commands import demo
from kafkaguard.cli.demo.flights import unpack
from kafkaguard.cli.demo.run import run_demo
from kafkaguard.cli.group import cli

pytestmark = pytest.mark.xdist_group("spark")


@pytest.fixture(scope="module")
def flights(tmp_path_factory):
    """The unpacked flights."""
    return unpack(tmp_path_factory.mktemp("flights"))


@pytest.fixture(scope="module")
def result(kafka_cluster, spark, flights):
    """Both acts of the demo, played once for all tests of this module."""
    return run_demo(kafka_cluster, spark, flights, say=lambda text: None)


def read(servers, topic):
    """Read a topic: (key, value as a dict, headers) of each record, in order."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": topic})
    try:
        parts = consumer.list_topics(topic, 20).topics[topic].partitions
        assigned = [TopicPartition(topic, part, OFFSET_BEGINNING) for part in parts]
        left = sum(consumer.get_watermark_offsets(part, 20)[1] for part in assigned)
        consumer.assign(assigned)
        records = []
        while left:
            batch = consumer.consume(min(left, 10_000), 20)
            assert batch, f"{left} records do not come"
            left -= len(batch)
            records += [(m.key(), json.loads(m.value()), m.headers()) for m in batch]
        return records
    finally:
        consumer.close()


def identity(row):
    """What tells a flight from all others, as text."""
    names = ("time_hour", "minute", "carrier", "flight", "origin")
    return tuple(str(row[name]) for name in names)


def when(row):
    """When a flight was to leave."""
    return row["time_hour"], int(row["minute"])


@pytest.mark.timeout(620)
def test_every_flight_is_in_one_topic_once_and_every_aircraft_ends_on_its_last(
    result, kafka_cluster, flights
):
    """334,264 delivered, 2,512 dead-lettered, 0 lost, 0 twice, 4,043 aircraft right."""
    servers = kafka_cluster.bootstrap_servers
    with flights.open(newline="") as file:
        rows = list(csv.DictReader(file))
    keyed = [row for row in rows if row["tailnum"] != "NA"]
    delivered = read(servers, result.guarded.topic)
    dead = read(servers, result.guarded.dead_letter_topic)

    assert len(delivered) == 334_264
    assert Counter(map(identity, keyed)) == Counter(
        identity(v) for _, v, _ in delivered
    )
    assert len(dead) == 2_512
    assert Counter(identity(v) for _, v, _ in dead) == Counter(
        identity(row) for row in rows if row["tailnum"] == "NA"
    )
    assert {key for key, _, _ in dead} == {None}
    assert {dict(headers)["kafkaguard.reason"] for _, _, headers in dead} == {
        b"NULL_KEY"
    }
    wanted = {}
    for row in keyed:
        tail = row["tailnum"]
        wanted[tail] = max(when(row), wanted.get(tail, when(row)))
    last = {key.decode(): when(value) for key, value, _ in delivered}
    assert len(last) == 4_043
    assert wanted == last


def test_outcome_says_the_same_as_the_topics(result):
    """What the demo prints is what it promises, and the report agrees."""
    guarded = result.guarded
    assert result.as_promised
    assert (
        guarded.delivered,
        guarded.dead_lettered,
        guarded.lost,
        guarded.repeated,
        guarded.latest,
    ) == (334_264, 2_512, 0, 0, 4_043)
    assert guarded.report.dead_lettered == {"NULL_KEY": 2_512}
    assert (guarded.report.read, guarded.report.delivered) == (336_776, 334_264)
    assert (guarded.report.unaccounted, guarded.report.maybe_twice) == (0, 0)


def test_todays_way_fails_and_leaves_records_behind(result):
    """Spark's own sink loses flights, and what it wrote it wrote more than once."""
    unguarded = result.unguarded
    assert unguarded.error == "INVALID_RECORD"
    assert unguarded.landed > 0
    assert unguarded.repeated > 0
    assert unguarded.lost > 0
    assert unguarded.wrong_last > 0


def test_command_prints_a_table_or_json(result, monkeypatch):
    """People get a table, programs get JSON, and both get exit code 0."""
    monkeypatch.setattr(demo, "_play", lambda say: result)
    table = CliRunner().invoke(cli, ["demo"])
    assert table.exit_code == 0
    assert "334,264" in table.output
    printed = json.loads(CliRunner().invoke(cli, ["demo", "--json"]).stdout)
    assert printed["as_promised"] is True
    assert printed["guarded"]["report"]["dead_lettered"] == {"NULL_KEY": 2_512}
