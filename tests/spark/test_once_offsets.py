"""Plans and markers on a real broker, without Spark; and ``kafkaguard once``."""

from __future__ import annotations

import json
import time
import uuid

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from kafkaguard import errors as e
from kafkaguard.cli.group import run
from kafkaguard_adapters.asking.groups import CommittedReader
from kafkaguard_adapters.spark.once import offsets as offsets_module
from kafkaguard_adapters.spark.once import transaction as transaction_module
from kafkaguard_adapters.spark.once.offsets import Home, offsets_for
from kafkaguard_adapters.spark.once.rules import (
    ANY,
    NO_QUERY,
    ForeignError,
    Marker,
    Plan,
    encode,
    missing_of,
)
from kafkaguard_adapters.spark.once.transaction import (
    Transaction,
    group_metadata,
    open_producer,
)
from kafkaguard_adapters.spark.settings import make_settings
from tests.groups import joining
from tests.spark.spark_reading import committed_values

TIMEOUT_S = 300
PARTITIONS = 3
DIGEST = "0123456789abcdef" * 2


@pytest.fixture
def client(kafka_cluster):
    """A client's settings."""
    return make_settings(kafka_cluster.bootstrap_servers, topic="t").client


@pytest.fixture
def offsets(client):
    """What reads plans and markers."""
    return offsets_for(client)


@pytest.fixture
def home(kafka_cluster):
    """A new name, with its markers on a new topic."""
    topic = kafka_cluster.create_topic(partitions=PARTITIONS)
    return Home(f"name-{uuid.uuid4().hex[:8]}", topic, PARTITIONS)


@pytest.fixture
def begin(client, home):
    """Take over the id of a shard, or the driver's."""

    def begin(shard):
        transaction = open_producer(client, home, shard, TIMEOUT_S)
        transaction.init()
        return transaction

    return begin


def plan(**more):
    """Return a plan of batch 7 with four shards."""
    made = Plan("r1", "q" * 36, 7, 4, PARTITIONS, "c", 0, int(time.time()))
    return made._replace(**more)


def marker(batch=7):
    """Return a marker that is as long as a marker can be."""
    return Marker("f" * 16, batch, 10**18, DIGEST, int(time.time()))


def test_entries_are_read_as_committed(begin, offsets, home):
    """Shard 3 of a topic with 3 partitions has its marker in another group."""
    begin(None).commit(plan())
    for shard in range(4):
        begin(shard).commit(marker(batch=shard))
    found, markers, where = offsets.look(home, range(4), stable=True)
    assert (found.batch, found.query, where) == (7, "q" * 36, home)
    assert {n: each.batch for n, each in markers.items()} == {0: 0, 1: 1, 2: 2, 3: 3}
    assert offsets.look(home, None, stable=False)[1] == markers
    assert offsets.find(home.name) == home


def test_metadata_of_200_bytes_is_committed(begin, home, offsets, client):
    """A broker accepts 200 bytes; our entries are never longer."""
    transaction = begin(0)
    transaction.begin()
    text = encode(marker()).ljust(200, "x")
    where = TopicPartition(home.topic, 0, 0, metadata=text)
    group = home.place_of(0)[0]
    producer = transaction._producer
    producer.send_offsets_to_transaction([where], group_metadata(group), 30)
    producer.commit_transaction(30)
    with pytest.raises(ForeignError, match="not a marker"):
        offsets.look(home, [0], stable=True)


def test_killed_between_marker_and_commit(begin, offsets, home, monkeypatch):
    """A task waits for the open marker; the next copy ends it, and finds none."""
    killed = begin(0)
    killed.begin()
    killed._producer.produce(home.topic, b"lost", b"k")
    send = killed._producer.send_offsets_to_transaction
    group = group_metadata(home.place_of(0)[0])
    send([home.offset_of(0, marker())], group, 30)
    killed._producer.flush()
    assert offsets.look(home, [0], stable=False)[1] == {}
    with monkeypatch.context() as patch:
        patch.setattr(offsets_module, "_LOOK_S", 0.5)
        with pytest.raises(e.UnstableOffsetCommitError):
            offsets.look(home, [0], stable=True)
    second = begin(0)
    assert offsets.look(home, [0], stable=True)[1] == {}
    second.begin()
    second._producer.produce(home.topic, b"once", b"k")
    second.commit(marker())
    with pytest.raises(e.KafkaGuardError):
        killed.commit(marker())
    assert list(offsets.look(home, [0], stable=True)[1]) == [0]


def test_the_next_driver_ends_what_a_dead_job_left_open(
    begin, offsets, home, kafka_cluster
):
    """Readers of committed records do not wait for the transaction's time-out."""
    dead = begin(0)
    dead.begin()
    dead._producer.produce(home.topic, b"lost", b"k", 0)
    dead._producer.flush()
    plain = Producer({"bootstrap.servers": kafka_cluster.bootstrap_servers})
    plain.produce(home.topic, b"behind", b"k", 0)
    plain.flush()
    offsets.fence([home.id_of(shard) for shard in range(3)], TIMEOUT_S)
    assert committed_values(kafka_cluster, home.topic) == ["behind"]


def test_a_copy_that_comes_late_fences_and_is_fenced(begin, home):
    """A second init of an id ends the first producer's transaction."""
    first = begin(0)
    first.begin()
    first._producer.produce(home.topic, b"v", b"k")
    second = begin(0)
    with pytest.raises(e.KafkaGuardError, match="FENCED"):
        first.commit(marker())
    assert second.commit(marker()) > 0


class _Silent:
    """A producer whose commit gets no answer."""

    def __init__(self):
        """Note calls."""
        self.calls = []

    def __getattr__(self, name):
        """Note a call; the commit fails."""

        def call(*_):
            self.calls.append(name)
            if name == "commit_transaction":
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, retriable=True))

        return call


def test_commit_without_an_answer_is_never_aborted(home, monkeypatch):
    """It may have succeeded; the next attempt finds out."""
    monkeypatch.setattr(transaction_module, "_CALL_S", -1.0)
    silent = _Silent()
    transaction = Transaction(silent, home, 0)
    transaction.begin()
    text = f"the commit of {home.id_of(0)} got no .*; the next attempt finds out"
    with pytest.raises(e.ClientTimeoutError, match=text):
        transaction.commit(marker())
    transaction.abort()
    assert "abort_transaction" not in silent.calls
    transaction.begin()
    transaction.abort()
    assert silent.calls[-1] == "abort_transaction"


def test_group_with_members_is_refused(home, offsets, kafka_cluster):
    """A driver and a task refuse it: a marker would overwrite somebody's offsets."""
    with joining(
        home.topic,
        bootstrap_servers=kafka_cluster.bootstrap_servers,
        group_id=home.place_of(0)[0],
        consumer_timeout_ms=20_000,
    ) as consumer:
        consumer.poll(2000)
        for shards in (None, [0]):
            with pytest.raises(ForeignError, match="has members"):
                offsets.look(home, shards, stable=shards is not None)


def test_group_whose_coordinator_moves_is_read_again(begin, home, offsets, monkeypatch):
    """Otherwise its state is unknown, as if it had members; the time ends."""
    begin(0).commit(marker())
    describe, answers = offsets_module.describe, [{}]

    async def describe_later(*arguments):
        return answers.pop() if answers else await describe(*arguments)

    monkeypatch.setattr(offsets_module, "describe", describe_later)
    assert list(offsets.look(home, [0], stable=True)[1]) == [0]
    assert answers == []
    answers += [{}] * 100
    monkeypatch.setattr(offsets_module, "_LOOK_S", 0.5)
    with pytest.raises(e.ClientTimeoutError):
        offsets.look(home, [0], stable=True)
    assert answers


def test_markers_of_another_topic_are_refused(begin, home, offsets, kafka_cluster):
    """The same name with another marker topic would find no marker."""
    begin(0).commit(marker())
    other = home._replace(topic=kafka_cluster.create_topic())
    with pytest.raises(ForeignError, match=f"on topic {home.topic}, not on"):
        offsets.look(other, None, stable=False)


def test_limits_of_brokers(offsets):
    """Kafka's defaults: seven days, and a quarter of an hour."""
    assert offsets.limits() == (7 * 86_400, 900)


def test_a_topic_of_markers_must_exist(offsets):
    """It is never created by asking."""
    with pytest.raises(e.UnknownTopicOrPartitionError, match="must exist"):
        offsets.count_partitions("no-such-topic-of-markers")


def test_a_thousand_shards_are_looked_up_at_once(begin, home, offsets, monkeypatch):
    """At most 2 s: one OffsetFetch for the plan, and one for all other groups."""
    begin(None).commit(plan(shards=1000))
    begin(999).commit(marker())
    offsets.look(home, None, stable=False)
    fetched, fetch = [], CommittedReader._fetch

    def count(self, request, coordinator):
        fetched.append(len(request.groups))
        return fetch(self, request, coordinator)

    monkeypatch.setattr(CommittedReader, "_fetch", count)
    began = time.monotonic()
    found, markers, _ = offsets.look(home, None, stable=False)
    assert time.monotonic() - began < 2
    assert fetched == [2, 333]
    assert missing_of(7, markers, range(found.shards)) == list(range(999))


# --- the commands ---------------------------------------------------------------------


@pytest.fixture
def call(kafka_cluster, capsys, monkeypatch):
    """Call ``kafkaguard once``; return its exit code and what it printed."""
    monkeypatch.setenv("COLUMNS", "200")

    def call(*arguments):
        code = run(["once", *arguments, "-b", kafka_cluster.bootstrap_servers])
        return code, capsys.readouterr()

    return call


def test_show_a_name(call, begin, home):
    """The plan in a line, the markers in a table, and all of it as JSON."""
    begin(None).commit(plan())
    begin(1).commit(marker())
    code, printed = call("show", home.name)
    assert code == 0
    assert "batch 7 of query qqq" in printed.out
    assert DIGEST in printed.out
    code, printed = call("show", home.name, "--json")
    shown = json.loads(printed.out)
    assert shown["marker_topic"] == home.topic
    assert (shown["plan"]["shards"], list(shown["markers"])) == (4, ["1"])


def test_show_a_name_that_has_nothing(call):
    """Exit code 1, so that a script can tell."""
    code, printed = call("show", "never-used")
    assert code == 1
    assert "no plan and no marker" in printed.err
    assert call("show", "never-used", "--json")[0] == 1


def test_accept_shards(call, begin, offsets, home):
    """The shards have a marker that fits all rows; a running driver is fenced."""
    driver = begin(None)
    driver.commit(plan(query=NO_QUERY))
    code, printed = call("accept", home.name, "--batch", "7", "--shard", "3")
    assert (code, printed.err) == (0, "")
    assert "batch 7 count as written" in printed.out
    found, markers, _ = offsets.look(home, range(4), stable=True)
    assert (found.shards, found.query) == (4, ANY)
    assert {n: each.digest for n, each in markers.items()} == {3: ANY}
    with pytest.raises(e.KafkaGuardError, match="FENCED"):
        driver.commit(plan())
    code, printed = call("accept", home.name, "--batch", "7", "--shard", "9")
    assert code == 2
    assert "no shard 9; there are 4" in printed.err
    assert call("accept", home.name)[0] == 2  # the batch is never guessed
    code, printed = call("accept", home.name, "--batch", "6")
    assert code == 2
    assert "batch 7 was written after batch 6" in printed.err


def test_accept_without_a_plan(call, offsets, home):
    """If all is deleted, the caller says where markers are, and how many shards."""
    arguments = ["accept", home.name, "--batch", "0"]
    code, printed = call(*arguments)
    assert code == 2
    assert "--marker-topic" in printed.err
    arguments += ["--marker-topic", home.topic]
    code, printed = call(*arguments)
    assert code == 2
    assert "--shards" in printed.err
    code, printed = call(*arguments, "--shards", "2", "--json")
    assert code == 0
    assert json.loads(printed.out)["shards"] == 2
    assert sorted(offsets.look(home, [0, 1], stable=True)[1]) == [0, 1]


def test_forget_a_name(call, begin, offsets, home):
    """All markers say that nothing is written."""
    begin(None).commit(plan())
    begin(0).commit(marker())
    code, printed = call("forget", home.name)
    assert code == 0
    assert "nothing counts as written" in printed.out
    found, markers, _ = offsets.look(home, range(4), stable=True)
    assert found.batch == -1
    assert len(markers) == 4
    assert {each.batch for each in markers.values()} == {-1}


def test_foreign_group_is_one_line(call, home, kafka_cluster):
    """A name whose group somebody uses cannot be settled."""
    with joining(
        home.topic,
        bootstrap_servers=kafka_cluster.bootstrap_servers,
        group_id=home.place_of(0)[0],
        consumer_timeout_ms=20_000,
    ) as consumer:
        consumer.poll(2000)
        code, printed = call("forget", home.name)
    assert code == 2
    assert "has members" in printed.err
