"""``kafkaguard.replay`` and its command on a real broker."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from dataclasses import replace

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import kafkaguard
from kafkaguard import errors
from kafkaguard._delivery.dead_letters import Reason
from kafkaguard._delivery.dialects import NAMES, LetterFacts, write_headers
from kafkaguard.cli.group import run
from kafkaguard_adapters.replay import run as replay_run
from kafkaguard_adapters.replay.calls import open_replay

TIME = 1_700_000_000_000
OWN = [("trace", b"1"), ("empty", None), ("trace", b"2")]


@pytest.fixture
def servers(kafka_cluster):
    """confluent-kafka's settings of the cluster."""
    return {"bootstrap.servers": kafka_cluster.bootstrap_servers}


@pytest.fixture
def topics(kafka_cluster):
    """A topic with two partitions, and its dead-letter topic with two."""
    orders = kafka_cluster.create_topic(None, 2)
    return orders, kafka_cluster.create_topic(f"{orders}.dlq", 2)


def write(servers, topic, records):
    """Write records: dicts of the arguments of ``produce``."""
    producer = Producer({**servers, "linger.ms": 5})
    for record in records:
        producer.produce(topic, **{"timestamp": TIME, **record})
    assert producer.flush(30) == 0


def letter(topic, number, dialect="own", **facts):
    """The letter of a record that was read at an offset."""
    known = {"reason": Reason.HANDLER_FAILED, "partition": number % 2}
    said = LetterFacts(topic=topic, offset=number, **(known | facts))
    return {
        "key": b"k%d" % (number % 5),
        "value": b"%d" % number,
        "partition": number % 2,
        "headers": [*OWN, *write_headers(said, dialect)],
    }


def read(servers, topic, count, seconds=30.0):
    """Read what readers of committed records see; a little longer than ``count``."""
    consumer = Consumer(
        {
            **servers,
            "group.id": f"read-{topic}",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }
    )
    partitions = consumer.list_topics(topic, 10).topics[topic].partitions
    consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
    messages, until = [], time.monotonic() + seconds
    try:
        while len(messages) < count and time.monotonic() < until:
            messages += consumer.consume(500, 0.2)
        return [*messages, *consumer.consume(500, 1.0)]
    finally:
        consumer.close()


def without_count(headers):
    """The headers but for the count of attempts."""
    return [header for header in headers or [] if header[0] != "kafkaguard.attempts"]


@pytest.mark.parametrize("dialect", NAMES)
def test_letters_of_each_dialect_become_their_records_again(servers, topics, dialect):
    """Key, value, headers, time and partition are those of the record."""
    orders, letters = topics
    write(servers, letters, [letter(orders, n, dialect) for n in range(6)])
    report = kafkaguard.replay(letters, servers)
    assert (report.replayed, report.left, report.exit_code) == (6, {}, 0)
    messages = read(servers, orders, 6)
    assert sorted(int(m.value()) for m in messages) == list(range(6))
    for message in messages:
        number = int(message.value())
        assert message.key() == b"k%d" % (number % 5)
        assert without_count(message.headers()) == OWN
        assert message.timestamp()[1] == TIME
        assert message.partition() == number % 2
        assert ("kafkaguard.attempts", b"1") in message.headers()
    again = kafkaguard.replay(letters, servers)
    assert (again.plan.letters, again.replayed) == (0, 0)


def test_what_is_not_taken_is_left_unchanged(servers, topics):
    """It is appended again, so that one position says what remains."""
    orders, letters = topics
    records = [letter(orders, n, reason="A" if n % 3 else "B") for n in range(9)]
    write(servers, letters, [*records, {"key": None, "value": b"no letter"}])
    report = kafkaguard.replay(letters, servers, reasons=["A"])
    assert (report.replayed, report.exit_code) == (6, 1)
    assert report.left == {"not selected": 4}
    assert report.plan.reasons == {"A": 6, "B": 3, "unknown": 1}
    assert len(read(servers, orders, 6)) == 6
    kept = read(servers, letters, 14)[10:]
    first = {m["value"]: m for m in [*records, {"value": b"no letter"}]}
    for message in kept:
        before = first[message.value()]
        assert (message.headers() or []) == before.get("headers", [])
        assert message.timestamp()[1] == TIME
    rest = kafkaguard.replay(letters, servers)
    assert (rest.replayed, rest.left) == (3, {"no header names its topic": 1})


def test_fix_changes_drops_and_leaves(servers, topics):
    """An exception leaves the letter, with its class in the report."""
    orders, letters = topics
    write(servers, letters, [letter(orders, n) for n in range(6)])

    def fix(one):
        number = int(one.value)
        if number == 1:
            return None
        if number == 2:
            raise KeyError(number)
        return replace(one, value=b"1%d" % number)

    report = kafkaguard.replay(letters, servers, fix=fix)
    assert (report.replayed, report.dropped) == (4, 1)
    assert report.left == {"fix raised an exception: KeyError": 1}
    values = sorted(int(m.value()) for m in read(servers, orders, 4))
    assert values == [10, 13, 14, 15]


def test_letters_of_a_key_are_sent_in_the_order_of_their_records(
    kafka_cluster, servers, topics
):
    """Whatever their order in the dead-letter topic is."""
    _, letters = topics
    orders = kafka_cluster.create_topic(None, 1)
    records = [
        {**letter(orders, 40 - n, partition=0), "key": b"k", "partition": n % 2}
        for n in range(40)
    ]
    write(servers, letters, records)
    report = kafkaguard.replay(letters, servers)
    assert report.plan.largest_transaction == 40
    values = [int(m.value()) for m in read(servers, orders, 40)]
    assert values == sorted(values)
    assert len(values) == 40


@pytest.mark.parametrize("seen", ["plan", "transaction"])
def test_records_that_would_be_refused_are_left(
    kafka_cluster, servers, topics, seen, monkeypatch
):
    """By what is known of the topic, or else by the broker's answer."""
    if seen == "transaction":
        monkeypatch.setattr(replay_run, "look_at_target", _know_nothing, raising=True)
    _, letters = topics
    orders = kafka_cluster.create_topic(
        None, 2, config={"cleanup.policy": "compact", "max.message.bytes": 2000}
    )
    bad = [
        {**letter(orders, 1), "key": None},
        {**letter(orders, 2), "value": b"x" * 3000},
    ]
    write(servers, letters, [*bad, *(letter(orders, n) for n in range(4, 10))])
    report = kafkaguard.replay(letters, servers)
    assert (report.replayed, report.left.total()) == (6, 2)
    assert report.plan.refused.total() == (2 if seen == "plan" else 0)
    assert len(read(servers, orders, 6)) == 6


async def _know_nothing(*_):
    from kafkaguard_adapters.replay.planning import Target

    return Target()


def test_plan_names_missing_topics_partitions_and_other_readers(servers, topics):
    """It sends nothing."""
    orders, letters = topics
    group = Consumer({**servers, "group.id": f"billing-{orders}"})
    group.commit(
        offsets=[TopicPartition(orders, 0, 0), TopicPartition(letters, 0, 0)],
        asynchronous=False,
    )
    group.close()
    records = [
        letter(orders, 0),
        letter(orders, 0),
        letter(f"{orders}.gone", 2),
        letter(orders, 3, partition=7),
        letter(letters, 4),
    ]
    write(servers, letters, records)
    report = kafkaguard.replay(letters, servers, plan_only=True)
    plan = report.plan
    assert (plan.letters, plan.selected, report.replayed) == (5, 5, 0)
    assert plan.refused == {
        "UNKNOWN_TOPIC_OR_PARTITION: the topic does not take records": 1,
        "partition 7 does not exist": 1,
        "it names the dead-letter topic itself": 1,
    }
    said = "\n".join(plan.remarks)
    assert (
        f"the groups billing-{orders} read {orders} and see the records again" in said
    )
    assert f"billing-{orders} read the dead-letter topic too" in said
    assert "1 letters are of a record that has another letter here" in said
    assert read(servers, orders, 1, 1.0) == []


def test_a_second_replay_takes_over_from_the_first(servers, topics):
    """The first one is fenced, and each letter is sent once."""
    orders, letters = topics
    write(servers, letters, [letter(orders, n) for n in range(400)])
    first, caught = threading.Event(), []

    def slowly():
        try:
            kafkaguard.replay(letters, servers, rate=50, tell=lambda _: first.set())
        except errors.KafkaGuardError as error:
            caught.append(error)

    thread = threading.Thread(target=slowly)
    thread.start()
    assert first.wait(60)
    report = kafkaguard.replay(letters, servers)
    thread.join(60)
    assert [error.verdict.action for error in caught] == [kafkaguard.Action.FENCED]
    assert 0 < report.replayed < 400
    values = [int(m.value()) for m in read(servers, orders, 400)]
    assert sorted(values) == list(range(400))


@pytest.mark.parametrize("ends", ["abort", "commit"])
def test_open_transaction_of_a_killed_replay_is_not_waited_for(servers, topics, ends):
    """It is ended by taking over; what it has committed by then is not sent again."""
    orders, letters = topics
    write(servers, letters, [letter(orders, n) for n in range(40)])
    config = {"transactional.id": f"kafkaguard.replay.{letters}", **servers}
    killed = Producer(config)
    killed.init_transactions(30)
    killed.begin_transaction()
    for number in range(10):
        killed.produce(orders, b"%d" % (2 * number))
    group = Consumer({**servers, "group.id": f"kafkaguard.replay.{letters}"})
    killed.send_offsets_to_transaction(
        [TopicPartition(letters, 0, 10)], group.consumer_group_metadata()
    )
    killed.flush(30)
    start, told = time.monotonic(), []
    job = open_replay(
        letters, servers, policy="transactional-producer", tell=told.append
    )
    try:
        assert job.look().letters == 40
        if ends == "commit":
            killed.commit_transaction(30)
        report = job.run()
    finally:
        job.close()
        group.close()
    assert time.monotonic() - start < 14  # a look-up waits 15 s for an open transaction
    sent = {"abort": 40, "commit": 30}[ends]
    assert (report.replayed, report.remaining, report.exit_code) == (sent, 0, 0)
    assert any("has sent 10" in text for text in told) is (ends == "commit")
    values = sorted(int(m.value()) for m in read(servers, orders, 40))
    assert values == list(range(40))


def test_letters_whose_times_go_back_are_not_passed_over(servers, topics):
    """As those that were appended again; a replay that stops goes on at the first."""
    orders, letters = topics
    records = [letter(orders, n) for n in range(20)]
    for number, record in enumerate(records):
        record |= {"timestamp": TIME - number, "key": b"%d" % number}
    write(servers, letters, records)
    job = open_replay(letters, servers, policy="transactional-producer")
    try:
        job.look()
        assert job.run(canary=3, confirm=lambda: False).replayed == 3
    finally:
        job.close()
    assert kafkaguard.replay(letters, servers).replayed == 17
    values = sorted(int(m.value()) for m in read(servers, orders, 20))
    assert values == list(range(20))


def test_canary_waits_for_the_group_that_is_watched(servers, topics):
    """It goes on once the group has passed the records, without new letters."""
    orders, letters = topics
    write(servers, letters, [letter(orders, n) for n in range(40)])
    handled = threading.Thread(target=_handle, args=(servers, orders, 10))
    handled.start()
    report = kafkaguard.replay(letters, servers, canary=10, watch=f"handle-{orders}")
    handled.join(30)
    assert (report.replayed, report.stopped) == (40, None)


def _handle(servers, topic, count):
    consumer = Consumer(
        {
            **servers,
            "group.id": f"handle-{topic}",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    seen, until = 0, time.monotonic() + 30
    while seen < count and time.monotonic() < until:
        seen += len(consumer.consume(100, 0.2))
    consumer.consume(100, 1.0)  # the marker behind them
    consumer.commit(
        offsets=[
            TopicPartition(topic, p.partition, p.offset)
            for p in consumer.position(consumer.assignment())
            if p.offset >= 0
        ],
        asynchronous=False,
    )
    consumer.close()


def test_letters_that_come_back_stop_it(servers, topics):
    """It says how fast they came, and leaves the rest where it was."""
    orders, letters = topics
    write(servers, letters, [letter(orders, n) for n in range(400)])
    done = threading.Event()

    def refuse_all():
        """Set aside again what is sent."""
        consumer = Consumer(
            {**servers, "group.id": f"bad-{orders}", "auto.offset.reset": "earliest"}
        )
        producer = Producer(servers)
        consumer.subscribe([orders])
        while not done.is_set():
            for message in consumer.consume(100, 0.2):
                producer.produce(letters, message.value(), headers=message.headers())
            producer.poll(0)
        producer.flush(10)
        consumer.close()

    thread = threading.Thread(target=refuse_all)
    thread.start()
    try:
        report = kafkaguard.replay(letters, servers, rate=20, max_back=1)
    finally:
        done.set()
        thread.join(30)
    assert report.exit_code == 3
    assert "letters a second came back" in report.stopped
    assert 0 < report.replayed < 400
    assert report.replayed + report.remaining == 400
    assert report.back > 0


COMMAND = [sys.executable, "-m", "kafkaguard", "replay", "--yes", "--json"]


@pytest.mark.parametrize("fault", ["none", "filter"])
def test_replay_that_is_killed_goes_on(kafka_cluster, servers, topics, fault):
    """Each letter is sent once, whenever it is killed."""
    orders, letters = topics
    count = 3000
    write(servers, letters, [letter(orders, n) for n in range(count)])
    words = [] if fault == "none" else ["--key", "k0", "--key", "k1", "--key", "k2"]
    command = [*COMMAND, "-b", kafka_cluster.bootstrap_servers, *words, letters]
    for seconds in (2.0, 2.5, 3.0):
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
            time.sleep(seconds)
            process.kill()
    ended = subprocess.run(command, capture_output=True, timeout=120, check=False)
    assert ended.returncode == (0 if fault == "none" else 1), ended.stderr
    wanted = [n for n in range(count) if fault == "none" or n % 5 < 3]
    values = sorted(int(m.value()) for m in read(servers, orders, len(wanted)))
    assert values == wanted


def test_command_shows_the_plan_and_the_result(
    kafka_cluster, servers, topics, capsys, monkeypatch
):
    """Tables for people, JSON for scripts, and an exit code."""
    orders, letters = topics
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("KAFKAGUARD_BOOTSTRAP_SERVER", kafka_cluster.bootstrap_servers)
    write(servers, letters, [letter(orders, n, reason="A") for n in range(3)])
    assert run(["replay", letters, "--plan"]) == 0
    shown = capsys.readouterr().out
    assert f"Letters in {letters}" in shown
    assert "reason A" in shown
    assert run(["replay", letters, "--yes", "--reason", "B", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["left"] == {"not selected": 3}
    assert run(["replay", letters, "--yes"]) == 0
    assert "replayed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--watch", "g"], "give --canary too"),
        (["--fix", "nothing:there"], "write MODULE:FUNCTION"),
        (["--policy", "nosuch"], "nosuch"),
    ],
)
def test_wrong_use_is_told(kafka_cluster, topics, capsys, words, text):
    """Exit code 2, and nothing is sent."""
    command = ["replay", topics[1], "-b", kafka_cluster.bootstrap_servers, *words]
    assert run(command) == 2
    assert text in capsys.readouterr().err


def test_topic_that_does_not_exist_is_told(kafka_cluster, capsys):
    """It names the topic, and creates none."""
    command = ["replay", "no.such.dlq", "-b", kafka_cluster.bootstrap_servers]
    assert run(command) == 2
    assert "no.such.dlq" in capsys.readouterr().err
