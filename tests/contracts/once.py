"""What a consumer that handles records exactly once keeps, on a real broker."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import confluent_kafka
import pytest

import kafkaguard
from kafkaguard_adapters.processing.arguments import Arguments
from tests.contracts.processing import LETTERS, committed, ends, fill

ROOT = Path(__file__).resolve().parents[2]


def read_committed(cluster, topic, partitions):
    """Return the values that a reader of committed records finds."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": f"reader-{random.random()}",
            "isolation.level": "read_committed",
        }
    )
    places = [confluent_kafka.TopicPartition(topic, n, 0) for n in range(partitions)]
    consumer.assign(places)
    values, until = [], time.monotonic() + 6
    try:
        while time.monotonic() < until:
            messages = consumer.consume(500, 1)
            values += [each.value() for each in messages if each.error() is None]
            if messages:
                until = time.monotonic() + 6
    finally:
        consumer.close()
    return values


class OnceContract:
    """Tests for clients whose transactions can commit offsets with a generation."""

    #: How many times a service is killed.
    kills = 6
    #: The name of the client for the program.
    client = ""

    def open_producer(self, cluster, name):
        """Return a guarded transactional producer."""
        raise NotImplementedError

    def send(self, producer, topic, key, value):
        """Send a record."""
        raise NotImplementedError

    def test_outputs_letters_and_offsets_are_committed_together(self, kafka_cluster):
        """A record that fails leaves no output of its failed attempts."""
        topic = kafka_cluster.create_topic(partitions=2)
        out = kafka_cluster.create_topic(partitions=2)
        kafka_cluster.create_topic(f"{topic}.dlq")
        fill(kafka_cluster, topic, 500)
        attempts = Counter()
        with (
            self.open_producer(kafka_cluster, topic) as producer,
            self.open_once(kafka_cluster, topic, policy=LETTERS) as member,
        ):

            def handle(record):
                key, value = self.read(record)
                self.send(producer, out, key, value)
                attempts[value] += 1
                if value == b"77" or (value == b"99" and attempts[value] == 1):
                    raise OSError

            report = member.process(
                handle, workers=3, order="key", producer=producer, until_end=True
            )
        assert (report.processed, report.dead_lettered) == (499, 1)
        outputs = Counter(read_committed(kafka_cluster, out, 2))
        assert set(outputs) == {b"%d" % n for n in range(500)} - {b"77"}
        assert set(outputs.values()) == {1}
        assert read_committed(kafka_cluster, f"{topic}.dlq", 1) == [b"77"]
        assert committed(kafka_cluster, topic, topic, 2) == ends(
            kafka_cluster, topic, 2
        )

    def test_a_send_outside_a_handler_is_refused(self, kafka_cluster, kafka_topic):
        """It would be in a transaction that may be aborted."""
        fill(kafka_cluster, kafka_topic, 1)
        with (
            self.open_producer(kafka_cluster, kafka_topic) as producer,
            self.open_once(kafka_cluster, kafka_topic) as member,
        ):
            told = []

            def hook(_):
                try:
                    self.send(producer, kafka_topic, None, b"x")
                except kafkaguard.errors.ClientStateError as error:
                    told.append(str(error))

            def handle(_):
                if kafkaguard.handling().attempt == 1:
                    raise OSError

            shell = member.guarded._make_process_shell(Arguments(handle))
            assert shell.check_once(producer) == 30  # half of transaction.timeout.ms
            member.on_event = hook
            member.process(handle, producer=producer, until_end=True)
        assert "only in its handlers" in told[0]

    def test_uncommitted_input_is_refused(self, kafka_cluster, kafka_topic):
        """Records of aborted transactions would be handled too."""
        with (
            self.open_producer(kafka_cluster, kafka_topic) as producer,
            self.open(
                kafka_cluster, kafka_topic, isolation_level="read_uncommitted"
            ) as member,
            pytest.raises(
                kafkaguard.errors.ClientConfigurationError, match="read_committed"
            ),
        ):
            member.process(print, producer=producer)

    def test_members_come_and_go_and_each_output_is_there_once(self, kafka_cluster):
        """Each rebalance of a classic group aborts the open round."""
        self.check_once_with_members(kafka_cluster)

    def check_once_with_members(self, kafka_cluster, **settings):
        """Check that members may come and go."""
        topic = kafka_cluster.create_topic(partitions=4)
        out = kafka_cluster.create_topic(partitions=1)
        fill(kafka_cluster, topic, 1500, keys=24, partitions=4)
        of_second = []

        def handler(producer, seen=None):
            def handle(record):
                time.sleep(0.01)
                self.send(producer, out, *self.read(record))
                if seen is not None:
                    seen.append(1)

            return handle

        with (
            self.open_producer(kafka_cluster, f"{topic}-1") as one,
            self.open_once(kafka_cluster, topic, **settings) as first,
        ):
            first.start(handler(one), producer=one, order="key", workers=2)
            time.sleep(4)
            with (
                self.open_producer(kafka_cluster, f"{topic}-2") as two,
                self.open_once(kafka_cluster, topic, **settings) as second,
            ):
                second.start(
                    handler(two, of_second), producer=two, order="key", workers=2
                )
                end = time.monotonic() + 30
                while len(of_second) < 50 and time.monotonic() < end:
                    time.sleep(0.05)
                second.end()
            while None in (now := committed(kafka_cluster, topic, topic, 4)) or sum(
                now
            ) < sum(ends(kafka_cluster, topic, 4)):
                assert time.monotonic() < end + 60
                time.sleep(1)
            first.end()
        outputs = Counter(read_committed(kafka_cluster, out, 1))
        assert set(outputs) == {b"%d" % n for n in range(1500)}
        assert set(outputs.values()) == {1}

    def test_a_service_that_is_killed_writes_each_output_once(self, kafka_cluster):
        """With kill -9, at random times, and started again with the same id."""
        check_kills(kafka_cluster, self.client, self.kills)


def check_kills(cluster, client, kills, each=1000):
    """Kill a service at random, at work; check that each input has its output once.

    Args:
        cluster: The brokers.
        client: The service's client.
        kills: How many.
        each: More inputs than the service handles between two kills.
    """
    count = each * kills
    topic = cluster.create_topic(partitions=3)
    out = cluster.create_topic(partitions=1)
    fill(cluster, topic, count, keys=30)
    program = [
        sys.executable, "-m", "tests.contracts.once_program", client,
        json.dumps(cluster.client_config(client=client)), topic, out, topic,
    ]  # fmt: skip
    for _ in range(kills):
        service = subprocess.Popen(program, cwd=ROOT, stdout=subprocess.DEVNULL)
        time.sleep(random.uniform(2.0, 9.0))
        service.kill()
        service.wait()
    assert committed(cluster, topic, topic, 3) != ends(cluster, topic, 3)
    subprocess.run(program, cwd=ROOT, timeout=240, check=True)
    outputs = Counter(read_committed(cluster, out, 1))
    missing = {b"%d" % n for n in range(count)} - set(outputs)
    twice = {value for value, n in outputs.items() if n > 1}
    assert (missing, twice) == (set(), set())
    assert committed(cluster, topic, topic, 3) == ends(cluster, topic, 3)
