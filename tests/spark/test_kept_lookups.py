"""What a stream's driver keeps of its topics, with a clock that is handed in."""

from __future__ import annotations

import pickle
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException

from kafkaguard import errors as e
from kafkaguard.spark import foreach_batch
from kafkaguard_adapters.confluent.errors import errors
from kafkaguard_adapters.spark import topics as topics_module
from kafkaguard_adapters.spark.driver.counting import Growth, make_report
from kafkaguard_adapters.spark.driver.data_source import StreamWriter
from kafkaguard_adapters.spark.driver.foreach_batch import ForeachBatch
from kafkaguard_adapters.spark.report import TaskCounts
from kafkaguard_adapters.spark.settings import make_settings
from kafkaguard_adapters.spark.topics import Brokers, SinkTopic, TopicCache, cache_for
from kafkaguard_adapters.spark.verdicts import NO_TOPIC

KEEP = {"timeout": 300.0, "keep_s": 60.0, "old_timeout": 6.0}


class Cluster:
    """A cluster that answers, or does not."""

    def __init__(self):
        self.time = 0.0
        self.away = False
        self.compacted = False
        self.asked = []
        self.clients = 0

    def connect(self):
        """Return a client of it."""
        self.clients += 1
        return self

    def describe(self, names, timeout):
        """Answer, and note the question."""
        self.asked.append((*names, timeout))
        if self.away:
            raise errors.make(e.ClientNotConnectedError, "nobody answers")
        return {name: SinkTopic(name, 1, self.compacted) for name in names}

    def end_offsets(self, names):
        """Say something."""
        return len(names)


@pytest.fixture
def cluster():
    """Return a cluster at time 0."""
    return Cluster()


@pytest.fixture
def kept(cluster):
    """Return what is kept of the cluster."""
    return TopicCache(cluster.connect, lambda: cluster.time)


def test_topics_are_kept_for_their_time(cluster, kept):
    """One look-up for all batches of a minute, and then another."""
    for now in (0.0, 30.0, 59.9):
        cluster.time = now
        assert kept.find(["t"], **KEEP)["t"].compacted is False
    assert cluster.asked == [("t", 300.0)]
    cluster.time, cluster.compacted = 60.0, True
    assert kept.find(["t"], **KEEP)["t"].compacted is True
    assert cluster.asked == [("t", 300.0), ("t", 6.0)]


def test_contradicted_topic_is_looked_up_again(cluster, kept):
    """No other topic is looked up again."""
    kept.find(["t", "u"], **KEEP)
    kept.forget(["t"])
    kept.find(["t", "u"], **KEEP)
    assert cluster.asked == [("t", "u", 300.0), ("t", 300.0)]


def test_what_is_known_holds_while_nobody_answers(cluster, kept, caplog):
    """However old; a client that failed is not used again."""
    kept.find(["t"], **KEEP)
    cluster.time, cluster.away = 600.0, True
    with caplog.at_level("WARNING", "kafkaguard.spark"):
        assert kept.find(["t"], **KEEP)["t"].name == "t"
    assert "the cached ones are used" in caplog.text
    assert cluster.asked[-1] == ("t", 6.0)
    cluster.away = False
    kept.find(["t"], **KEEP)
    assert cluster.clients == 2


@pytest.mark.parametrize("names", [["t", "new"], ["new"]])
def test_stream_that_knows_nothing_yet_waits_its_whole_time(cluster, kept, names):
    """The first batch of a stream waits for a broker for its whole time limit."""
    kept.find(["t"], **KEEP)
    cluster.time, cluster.away = 600.0, True
    with pytest.raises(e.ClientNotConnectedError):
        kept.find(names, **KEEP)
    assert cluster.asked[-1] == (*names, 300.0)


def test_batch_is_told_at_once(cluster, kept):
    """A batch write does not use cached facts if no broker answers."""
    kept.find(["t"], timeout=6.0)
    cluster.away = True
    with pytest.raises(e.ClientNotConnectedError):
        kept.find(["t"], timeout=6.0)
    assert cluster.asked == [("t", 6.0)] * 2


def test_clients_of_a_process_are_few(kafka_cluster):
    """Each combination of settings has one client; the oldest is dropped."""
    client = {"bootstrap.servers": kafka_cluster.bootstrap_servers}
    first = cache_for(client)
    assert cache_for(dict(client)) is first
    for number in range(4):
        cache_for(client | {"client.id": str(number)})
    assert cache_for(client) is not first


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"config": {"acks": 0}}, "only acks=all"),
        ({"config": {"lingr.ms": 0}}, "did you mean 'kafka.linger.ms'?"),
        ({"policy": {"on_rejct": "drop"}}, "did you mean 'on_reject'?"),
        ({"partitions": 0}, "partitions must be 1 or more"),
        ({"order_by": [1]}, "order_by is a list of columns"),
        ({"max_record_bytes": "1"}, "a number of bytes"),
    ],
)
def test_foreach_batch_is_checked_when_it_is_made(arguments, said):
    """foreach_batch() checks its arguments before the first batch."""
    with pytest.raises(e.ClientConfigurationError) as caught:
        foreach_batch("t", bootstrap_servers="localhost:1", **arguments)
    assert said in caught.value.summary
    with pytest.raises(TypeError, match="polcy"):
        foreach_batch("t", bootstrap_servers="localhost:1", polcy="spark-sink")


def test_stream_writer_asks_when_it_is_pickled_and_never_to_commit(monkeypatch):
    """A commit that fails would write the batch again."""
    asked = []

    def look_up(settings, _keep_s):
        asked.append(settings.topic)
        return {settings.topic: SinkTopic(settings.topic, 1)}

    monkeypatch.setattr(topics_module, "look_up", look_up)
    writer = StreamWriter(make_settings("localhost:1", topic="t"))
    writer.commit([], 0)
    assert asked == []
    for _ in range(2):
        assert pickle.loads(pickle.dumps(writer))._topics["t"].partitions == 1
    assert asked == ["t"]


def test_connection_that_breaks_within_a_question_is_waited_for(monkeypatch):
    """A stream's first batch waits as long as its policy says, and no longer."""
    topic = {"t": SinkTopic("t", 1)}
    now, answers = [0.0], [None, None, {"t": 1}]

    def sleep(seconds):
        now[0] += seconds

    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=sleep)
    monkeypatch.setattr(topics_module, "time", clock)

    def count(_self, _names, _timeout):
        if (answer := answers.pop(0)) is None:
            raise e.ClientNotConnectedError
        return answer

    monkeypatch.setattr(Brokers, "_count_partitions", count)
    monkeypatch.setattr(
        Brokers, "_read_settings", lambda _, *topic: SinkTopic(*topic[:2])
    )
    brokers = Brokers({"bootstrap.servers": "localhost:1"})
    assert brokers.describe(["t"], 300.0) == topic
    assert now == [2.0]
    answers[:] = [None] * 100
    with pytest.raises(e.ClientNotConnectedError, match="answered within 5 s"):
        brokers.describe(["t"], 5.0)
    assert now == [6.0]  # from 2 on


@pytest.fixture
def refusing(monkeypatch):
    """Let each look-up of topics fail with an error about one of them."""

    def call(error):
        def find(*_, **__):
            raise error

        monkeypatch.setattr(
            topics_module, "cache_for", lambda _: SimpleNamespace(find=find)
        )
        settings = make_settings("localhost:1", topic="orders", policy="spark-sink")
        with pytest.raises(e.KafkaGuardError) as caught:
            topics_module.look_up(settings)
        return caught.value

    return call


NEED = "it is the dead-letter topic that the policy needs (dead_letter.topic)"


def test_a_missing_dead_letter_topic_is_named_as_such(refusing):
    """The caller has named the other topic only; the policy needs this one."""
    text = "the topic does not exist"
    missing, target = (
        errors.make(3, text, topic=topic, api="Metadata", verdict=NO_TOPIC)
        for topic in ("orders.dlq", "orders")
    )
    error = refusing(missing)
    assert f"{text}; {NEED}" == error.summary
    assert (error.code, error.topic, error.verdict) == (3, "orders.dlq", NO_TOPIC)
    assert text == refusing(target).summary


def test_a_dead_letter_topic_without_rights_is_named_as_such(refusing):
    """The error for a denied dead-letter topic keeps the broker's text."""
    denied = KafkaException(KafkaError(29, "go away"))
    error = refusing(errors.translate(denied, topic="orders.dlq", api="Metadata"))
    assert f"go away; {NEED}" == error.summary
    assert isinstance(error, e.TopicAuthorizationFailedError)


@pytest.mark.parametrize("kind", ["stream", "foreach_batch"])
def test_report_without_a_checkpoint_says_that_it_is_not_known(monkeypatch, kind):
    """Brokers have told the end offsets, so they are not the cause."""
    settings = make_settings("localhost:1", topic="t", report="report.jsonl")
    monkeypatch.setattr(Growth, "begin", lambda _: Growth(("t",), 5, 0.0))
    if kind == "stream":
        growth = StreamWriter(settings)._plan_growth()
    else:
        function = ForeachBatch(settings)
        growth = function._begin_growth(SimpleNamespace(sparkSession=None), 0)
    (said,) = make_report(settings, TaskCounts(), growth).warnings
    assert "the query's checkpoint is not known here" in said
    assert "no broker" not in said
