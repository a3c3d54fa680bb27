"""Open transactions: what coordinators and leaders know, and how one is ended."""

from __future__ import annotations

import json
import time

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from kafkaguard import guard
from kafkaguard._cluster.reports import TopicPartition as Place
from kafkaguard._cluster.transactions import (
    HANGING_S,
    OpenProducer,
    OpenTransaction,
    find_hanging,
)
from kafkaguard.cli.group import run

HERE, THERE = Place("t", 0), Place("t", 1)


def open_producer(number, written_at=0.0):
    """A producer with an open transaction."""
    return OpenProducer(number, 0, 5, written_at, 1)


def known(number, *places, since=10.0):
    """A transaction that its coordinator knows."""
    return OpenTransaction(
        f"id-{number}", number, 0, "Ongoing", since, 60.0, places, {}, 1
    )


class TestFindHanging:
    """What is known where, without a broker."""

    def test_what_only_a_leader_knows_hangs_after_its_time(self):
        """A younger one may have begun after the coordinators were asked."""
        seen = {HERE: [open_producer(7, 100.0)]}
        assert find_hanging([], seen, {HERE: 3}, 100.0 + HANGING_S - 1) == []
        (one,) = find_hanging([], seen, {HERE: 3}, 100.0 + HANGING_S)
        assert (one.is_hanging, one.name, one.state) == (True, "producer 7", "Hanging")
        assert (one.partitions, one.blocked) == ((HERE,), {HERE: 3})
        assert one.age(1100.0) == 1000.0

    def test_what_a_coordinator_knows_does_not_hang(self):
        """It gets what its leaders say of it."""
        seen = {HERE: [open_producer(7)], THERE: [open_producer(7)]}
        (one,) = find_hanging([known(7, HERE, THERE)], seen, {THERE: 2}, 10_000.0)
        assert not one.is_hanging
        assert (one.blocked, set(one.producers)) == ({THERE: 2}, {HERE, THERE})

    def test_another_epoch_is_another_transaction(self):
        """The coordinator knows the newer one only."""
        old = OpenProducer(7, 3, 5, 0.0, 1)
        found = find_hanging([known(7, HERE)], {HERE: [old]}, {HERE: 9}, 10_000.0)
        assert [one.is_hanging for one in found] == [True, False]

    def test_oldest_is_first_and_unknown_age_last(self):
        """The one that holds up most is on top."""
        some = [known(1, since=50.0), known(2, since=None), known(3, since=5.0)]
        names = [one.name for one in find_hanging(some, {}, {}, 100.0)]
        assert names == ["id-3", "id-1", "id-2"]


@pytest.fixture
def admin(kafka_cluster):
    """A guarded admin client."""
    config = {"bootstrap.servers": kafka_cluster.bootstrap_servers}
    admin = guard(factory=AdminClient, config=config)
    yield admin
    admin.close_view()


@pytest.fixture
def producer(kafka_cluster, kafka_topic):
    """A producer with an open transaction of two records; its id is the topic's name."""
    it = Producer(
        {
            "bootstrap.servers": kafka_cluster.bootstrap_servers,
            "transactional.id": kafka_topic,
        }
    )
    it.init_transactions(30)
    it.begin_transaction()
    for _ in range(2):
        it.produce(kafka_topic, b"x")
    it.flush(10)
    return it


def listed(admin, topic):
    """The transactions that are open in a topic."""
    report = admin.open_transactions()
    assert report.complete
    return [
        one
        for one in report.transactions
        if any(p.topic == topic for p in one.partitions)
    ]


def test_open_transaction_is_listed_with_what_it_holds_up(admin, producer, kafka_topic):
    """Until it is committed."""
    (one,) = listed(admin, kafka_topic)
    assert (one.transactional_id, one.state) == (kafka_topic, "Ongoing")
    assert one.blocked == {Place(kafka_topic, 0): 2}
    assert one.timeout == 60.0
    assert 0.0 <= one.age(time.time()) < 30.0
    assert one.producers[Place(kafka_topic, 0)].start_offset == 0
    producer.commit_transaction(10)
    assert ends(admin, kafka_topic)


def test_open_transaction_is_aborted_and_its_producer_fenced(
    kafka_cluster, admin, producer, kafka_topic
):
    """Readers of committed records go on behind it."""
    (one,) = listed(admin, kafka_topic)
    admin.end_transaction(one)
    assert ends(admin, kafka_topic)
    with pytest.raises(KafkaException):
        producer.commit_transaction(10)
    assert read_committed(kafka_cluster, kafka_topic) == []


def ends(admin, topic):
    """Whether nothing is open in a topic within ten seconds."""
    deadline = time.monotonic() + 10
    while listed(admin, topic) and time.monotonic() < deadline:
        time.sleep(0.1)
    return listed(admin, topic) == []


def read_committed(cluster, topic):
    """The values that readers of committed records get within two seconds."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": topic,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    values = [m.value() for m in consumer.consume(10, 2.0)]
    consumer.close()
    return values


def test_markers_end_a_transaction_at_its_partitions(
    kafka_cluster, admin, producer, kafka_topic
):
    """As for one that no coordinator knows."""
    (one,) = listed(admin, kafka_topic)
    unknown = OpenTransaction(
        None,
        one.producer_id,
        one.epoch,
        "Hanging",
        one.since,
        None,
        one.partitions,
        one.blocked,
        None,
        one.producers,
    )
    assert unknown.is_hanging
    admin.end_transaction(unknown)
    assert listed(admin, kafka_topic)[0].blocked == {}  # the coordinator still knows it
    write = Producer({"bootstrap.servers": kafka_cluster.bootstrap_servers})
    write.produce(kafka_topic, b"later")
    write.flush(10)
    assert read_committed(kafka_cluster, kafka_topic) == [b"later"]
    admin.end_transaction(one)


@pytest.fixture
def call(kafka_cluster, capsys, monkeypatch):
    """Call a command for the cluster; return its exit code and what it printed."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("KAFKAGUARD_BOOTSTRAP_SERVER", kafka_cluster.bootstrap_servers)

    def calling(*words):
        code = run(["txn", *words])
        return code, capsys.readouterr()

    return calling


@pytest.mark.usefixtures("producer")
def test_commands_list_and_abort(call, kafka_topic):
    """By the name that the list shows."""
    code, printed = call("list", "--json")
    data = json.loads(printed.out)
    (one,) = [t for t in data["transactions"] if t["transactional_id"] == kafka_topic]
    assert (code, one["state"]) == (0, "Ongoing")
    assert one["partitions"] == [{"topic": kafka_topic, "partition": 0, "held_up": 2}]
    assert call("list", "--older", "0")[0] == 3
    assert kafka_topic in call("list")[1].out
    code, printed = call("abort", kafka_topic, "--yes")
    assert (code, printed.err) == (0, "")
    assert "its producer is fenced" in printed.out


def test_a_name_that_is_not_open_is_told(call):
    """It says where the names are."""
    code, printed = call("abort", "nobody", "--yes")
    assert code == 2
    assert "kafkaguard txn list" in printed.err
