"""Lag of groups on a real broker."""

from __future__ import annotations

import threading
import time

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from kafkaguard import errors
from kafkaguard._cluster.lag import LagReason, LagState
from tests.asking.cluster_clients import CLIENTS, admin_of, commit
from tests.groups import joining


@pytest.fixture
def config(kafka_cluster):
    """Settings of kafka-python."""
    return {"bootstrap_servers": kafka_cluster.bootstrap_servers}


@pytest.fixture
def admin(config):
    """A guarded admin of kafka-python."""
    with admin_of("kafka-python", config) as guarded:
        yield guarded


def send(config, topic, count, partition=0, **settings):
    """Write records and wait until they are there."""
    with KafkaProducer(**config, **settings) as producer:
        for _ in range(count):
            producer.send(topic, b"value", b"key", partition=partition)
        producer.flush()


def poll_until(condition, seconds=20.0):
    """Ask again and again until a condition holds."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "not within time"
        threading.Event().wait(0.05)
    return found


@pytest.mark.parametrize("client", CLIENTS)
def test_lag_of_many_groups_in_one_call(kafka_cluster, config, client):
    """Each group has its own offsets; the ends are shared."""
    topic = kafka_cluster.create_topic(partitions=2)
    send(config, topic, 10, partition=1)
    groups = {f"{topic}-{n}": n for n in range(3)}
    for group, offset in groups.items():
        commit(config["bootstrap_servers"], group, {(topic, 1): offset})
    words = kafka_cluster.client_config(client=client)
    with admin_of(client, words) as admin:
        report = admin.lag(list(groups))
    assert report.complete
    for group, offset in groups.items():
        found = report.groups[group].partitions
        assert (offset, 10, 10 - offset) == (
            found[topic, 1].committed,
            found[topic, 1].end,
            found[topic, 1].lag,
        )
        assert found[topic, 0].reason == LagReason.NO_COMMIT
        assert (10 - offset, 1) == (
            report.groups[group].total,
            report.groups[group].unknown,
        )


def test_all_groups_and_only_some_topics(kafka_cluster, config, admin):
    """Without names all groups are listed, and of them those that read the topic."""
    topic, other = kafka_cluster.create_topic(), kafka_cluster.create_topic()
    commit(config["bootstrap_servers"], f"{topic}-g", {(topic, 0): 0, (other, 0): 0})
    commit(config["bootstrap_servers"], f"{topic}-h", {(other, 0): 0})
    assert {f"{topic}-g", f"{topic}-h"} <= set(admin.lag().groups)
    report = admin.lag(topics=topic)
    assert {f"{topic}-g"} == set(report.groups)
    assert {(topic, 0)} == set(report.groups[f"{topic}-g"].partitions)


def test_columns_on_request(kafka_cluster, config, admin):
    """Starts, stable ends, times, members and facts come only when asked for."""
    topic = kafka_cluster.create_topic(config={"cleanup.policy": "compact"})
    send(config, topic, 1)
    before = time.time()
    with joining(topic, group_id=topic, auto_offset_reset="earliest", **config) as c:
        poll_until(lambda: c.poll(200))
        c.commit()
        send(config, topic, 3)
        bare = admin.lag(topic).groups[topic].partitions[topic, 0]
        full = admin.lag(
            topic, columns=["log_start", "last_stable", "time", "members", "facts"]
        ).groups[topic]
    assert (
        bare.lag,
        bare.log_start,
        bare.time_lag,
        bare.member,
    ) == (3, 0, None, None)
    one = full.partitions[topic, 0]
    assert full.state == "Stable"
    assert (
        one.log_start,
        one.last_stable,
        one.high_watermark,
        one.lost,
        one.blocked,
    ) == (0, 4, 4, 0, 0)
    assert one.member.host == "127.0.0.1"
    assert one.member.client_id.startswith("kafka-python")
    assert before - 1 < one.next_timestamp < time.time() + 1
    assert 0 <= one.time_lag < 60
    assert (one.compacted, one.tiered) == (True, False)


@pytest.mark.parametrize("compression", [None, "gzip"])
def test_time_lag_reads_into_the_batch(kafka_cluster, config, admin, compression):
    """The next record's own time counts, not that of its batch."""
    topic = kafka_cluster.create_topic()
    batch = {"linger_ms": 500, "compression_type": compression}
    with KafkaProducer(**config, **batch) as producer:
        for stamp in (1_000_000, 2_000_000, 3_000_000):
            producer.send(topic, b"x", timestamp_ms=stamp)
        producer.flush()
    commit(config["bootstrap_servers"], topic, {(topic, 0): 1})
    (found,) = admin.lag(topic, columns=["time"]).groups[topic].partitions.values()
    assert found.next_timestamp == 2000.0


def test_time_lag_at_different_offsets_and_in_large_batches(
    kafka_cluster, config, admin
):
    """Groups at different places each get their own; large batches are read in turn."""
    topic = kafka_cluster.create_topic(partitions=3)
    large = {"max_request_size": 3_000_000, "batch_size": 1}
    with KafkaProducer(**config, **large) as producer:
        for partition in range(3):
            for stamp in (1000, 2000):
                producer.send(
                    topic, b"x" * 200_000, partition=partition, timestamp_ms=stamp
                ).get(10)
    for group, offset in ((f"{topic}-a", 0), (f"{topic}-b", 1), (f"{topic}-c", 2)):
        offsets = {(topic, p): offset for p in range(3)}
        commit(config["bootstrap_servers"], group, offsets)
    report = admin.lag([f"{topic}-{n}" for n in "abc"], columns=["time"])
    times = {
        name[-1]: {each.next_timestamp for each in group.partitions.values()}
        for name, group in report.groups.items()
    }
    assert {"a": {1.0}, "b": {2.0}, "c": {None}} == times
    assert {0.0} == {
        each.time_lag for each in report.groups[f"{topic}-c"].partitions.values()
    }


@pytest.mark.kafka_topic(config={"message.timestamp.type": "LogAppendTime"})
def test_states_of_a_group_that_reads_stalls_and_stops(
    kafka_cluster, config, admin, kafka_topic
):
    """From two looks each, with a real consumer."""

    def look():
        return admin.lag(kafka_topic, topics=kafka_topic, columns=["members"])

    send(config, kafka_topic, 10)
    consumer = joining(
        kafka_topic,
        group_id=kafka_topic,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_poll_records=2,
        **config,
    )
    poll_until(lambda: consumer.poll(200))
    consumer.commit()
    first = look()
    assert {kafka_topic: LagState.STALLED} == look().states(first)
    consumer.poll(1000)
    consumer.commit()
    second = look()
    assert {kafka_topic: LagState.OK} == second.states(first)
    send(config, kafka_topic, 10)
    consumer.poll(1000)
    consumer.commit()
    third = look()
    assert {kafka_topic: LagState.LAGGING} == third.states(second)
    consumer.close()
    poll_until(lambda: look().groups[kafka_topic].state == "Empty")
    assert {kafka_topic: LagState.STOPPED} == look().states(third)


def test_lag_is_never_negative_at_full_speed(kafka_cluster, config, admin):
    """Producer and consumer run while lag is read again and again."""
    topic = kafka_cluster.create_topic()
    stop = threading.Event()

    def work():
        settings = {"bootstrap.servers": config["bootstrap_servers"]}
        producer = confluent_kafka.Producer(settings)
        reader = confluent_kafka.Consumer(
            {**settings, "group.id": topic, "auto.offset.reset": "earliest"}
        )
        reader.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        while not stop.is_set():
            for _ in range(100):
                producer.produce(topic, b"x")
            producer.flush()
            messages = reader.consume(100, timeout=0.1)
            if messages:
                reader.commit(messages[-1], asynchronous=False)
        reader.close()

    worker = threading.Thread(target=work)
    worker.start()
    try:
        poll_until(lambda: admin.lag(topic).groups[topic].partitions)
        looks = [
            admin.lag(topic).groups[topic].partitions[topic, 0] for _ in range(200)
        ]
    finally:
        stop.set()
        worker.join()
    assert all(each.reason is None and each.lag >= 0 for each in looks)
    assert len({each.committed for each in looks}) > 1


def test_commit_beyond_the_end_is_told(kafka_cluster, config, admin):
    """As after a topic was made anew and the group kept its offsets."""
    topic = kafka_cluster.create_topic()
    send(config, topic, 3)
    commit(config["bootstrap_servers"], topic, {(topic, 0): 1000})
    for isolation in ("read_uncommitted", "read_committed"):
        group = admin.lag(topic, isolation=isolation).groups[topic]
        found = group.partitions[topic, 0]
        assert (found.lag, found.reason) == (None, LagReason.COMMITTED_BEYOND_END)
        assert (found.committed, found.end) == (1000, 3)
        assert (group.total, group.unknown) == (None, 1)


def test_group_without_a_commit(kafka_cluster, config, admin):
    """None, or as assumed: from the log start, or from the end."""
    topic = kafka_cluster.create_topic()
    send(config, topic, 100)
    settings = AdminClient({"bootstrap.servers": config["bootstrap_servers"]})
    future = settings.delete_records([confluent_kafka.TopicPartition(topic, 0, 60)])
    assert all(each.result(10) for each in future.values())
    for assume, expected in ((None, None), ("earliest", 40), ("latest", 0)):
        found = (
            admin.lag(topic, topic, assume=assume).groups[topic].partitions[topic, 0]
        )
        assert (expected, LagReason.NO_COMMIT) == (found.lag, found.reason)


@pytest.fixture
def transactional(kafka_cluster, kafka_topic):
    """A producer with transactions."""
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": kafka_cluster.bootstrap_servers,
            "transactional.id": kafka_topic,
        }
    )
    producer.init_transactions(30)
    return producer


def test_marker_of_a_transaction_is_not_a_backlog(
    config, admin, kafka_topic, transactional
):
    """A reader that has everything shows a lag of 1; how to know better."""
    transactional.begin_transaction()
    transactional.produce(kafka_topic, b"x")
    transactional.commit_transaction(30)
    with joining(
        kafka_topic, group_id=kafka_topic, auto_offset_reset="earliest", **config
    ) as consumer:
        poll_until(lambda: consumer.poll(200))
        commit(config["bootstrap_servers"], kafka_topic + "-g", {(kafka_topic, 0): 1})
        tp = TopicPartition(kafka_topic, 0)
        poll_until(lambda: consumer.poll(200) or consumer.position(tp) == 2)
        group = admin.lag(kafka_topic + "-g").groups[kafka_topic + "-g"]
        assert group.total == 1
        assert group.partitions[tp].notes
        assert group.is_caught_up(tolerance=1)
        assert group.with_positions({tp: consumer.position(tp)}).total == 0
    sure = admin.lag(kafka_topic + "-g", columns=["time"]).groups[kafka_topic + "-g"]
    assert sure.partitions[tp].time_lag == 0.0
    assert sure.is_caught_up()


def test_open_transaction_is_no_backlog_for_who_reads_committed(
    config, admin, kafka_topic, transactional
):
    """15 offsets behind, or none and 15 that wait for the transaction."""
    send(config, kafka_topic, 10)
    transactional.begin_transaction()
    for _ in range(5):
        transactional.produce(kafka_topic, b"x")
    transactional.flush()
    send(config, kafka_topic, 10)
    commit(config["bootstrap_servers"], kafka_topic, {(kafka_topic, 0): 10})
    everything = admin.lag(kafka_topic).groups[kafka_topic].partitions[kafka_topic, 0]
    committed = (
        admin.lag(kafka_topic, isolation="read_committed", columns=["last_stable"])
        .groups[kafka_topic]
        .partitions[kafka_topic, 0]
    )
    transactional.abort_transaction(30)
    assert (everything.lag, everything.blocked) == (15, None)
    assert (committed.lag, committed.blocked) == (0, 15)
    assert (committed.high_watermark, committed.last_stable) == (25, 10)


def test_deleted_topic_is_gone_and_stays_so(kafka_cluster, config, admin):
    """Asking does not make it again, although the broker would (auto-create is on)."""
    topic = kafka_cluster.create_topic()
    commit(config["bootstrap_servers"], topic, {(topic, 0): 0})
    kafka_cluster.delete_topic(topic)
    found = admin.lag(topic, topics=topic).groups[topic].partitions[topic, 0]
    assert (found.reason, found.lag, found.error) == (LagReason.GONE, None, None)
    listed = AdminClient(
        {"bootstrap.servers": config["bootstrap_servers"]}
    ).list_topics()
    assert topic not in listed.topics


@pytest.mark.parametrize("client", CLIENTS)
def test_unknown_group_is_empty_and_unknown(kafka_cluster, client):
    """The same for all clients: no exception, no partition, a state that says so."""
    with admin_of(client, kafka_cluster.client_config(client=client)) as admin:
        group = admin.lag("no-such-group").groups["no-such-group"]
    assert (
        group.state,
        group.partitions,
        group.error,
        group.total,
        group.reason,
    ) == ("unknown", {}, None, None, LagReason.NO_GROUP)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_groups_without_members_have_a_lag(kafka_cluster, config, admin, protocol):
    """Groups of both protocols have one while they read and after they left."""
    topic = kafka_cluster.create_topic()
    send(config, topic, 5)
    reader = confluent_kafka.Consumer(
        {
            "bootstrap.servers": config["bootstrap_servers"],
            "group.id": topic,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "client.id": "reader-of-b69",
        }
    )
    reader.subscribe([topic])
    message = poll_until(lambda: reader.poll(0.5))
    reader.commit(message, asynchronous=False)
    live = admin.lag(topic, columns=["members"]).groups[topic]
    assert live.state == "Stable"
    assert live.partitions[topic, 0].member.client_id == "reader-of-b69"
    assert live.partitions[topic, 0].member.host == "127.0.0.1"
    reader.close()
    poll_until(lambda: admin.lag(topics=topic).groups[topic].state == "Empty")
    assert admin.lag(topics=topic).groups[topic].total == 4


def test_lag_while_the_consumer_polls_in_another_thread(kafka_cluster, config):
    """The calls have connections of their own, so nobody is disturbed."""
    from kafkaguard_adapters.asking.cluster_calls import ClusterCalls
    from kafkaguard_adapters.kafka_python.view import view_of

    topic = kafka_cluster.create_topic()
    send(config, topic, 50)
    consumer = KafkaConsumer(
        topic, group_id=topic, auto_offset_reset="earliest", **config
    )
    calls = ClusterCalls()
    calls.cluster_view = view_of(consumer)
    stop, failures = threading.Event(), []

    def poll():
        try:
            while not stop.is_set():
                consumer.poll(50)
            consumer.close()
        except Exception as error:
            failures.append(error)

    poller = threading.Thread(target=poll)
    poller.start()
    reports = [calls.lag(topic, topic) for _ in range(100)]
    stop.set()
    poller.join()
    calls.close_view()
    assert failures == []
    assert all(report.complete for report in reports)


def test_denied_groups_and_topics_are_errors_of_their_own(kafka_users, config):
    """What a user may not see says so, and the rest is there."""
    mine, theirs = kafka_users.create_topic(), kafka_users.create_topic()
    address = kafka_users.bootstrap_servers
    commit(address, mine, {(mine, 0): 0, (theirs, 0): 0})
    commit(address, theirs, {(theirs, 0): 0})
    kafka_users.grant("bob", "DESCRIBE", "GROUP", mine)
    kafka_users.grant("bob", "DESCRIBE", "TOPIC", mine)
    words = kafka_users.client_config("SASL_PLAIN", user="bob")
    with admin_of("kafka-python", words) as admin:
        report = admin.lag([mine, theirs], [mine, theirs])
        columns = admin.lag(mine, mine, columns=["log_start", "last_stable", "time"])
    assert isinstance(report.groups[theirs].error, errors.GroupAuthorizationFailedError)
    assert report.groups[mine].partitions[mine, 0].lag == 0
    denied = report.groups[mine].partitions[theirs, 0]
    assert denied.reason == LagReason.ERROR
    assert isinstance(denied.error, errors.TopicAuthorizationFailedError)
    # Without Read there is no Fetch, so the columns come by ListOffsets.
    without_read = columns.groups[mine].partitions[mine, 0]
    assert (without_read.log_start, without_read.last_stable) == (0, 0)


@pytest.mark.parametrize(
    ("argument", "value"),
    [("isolation", "serializable"), ("assume", "middle"), ("columns", ["lag"])],
)
def test_words_that_are_none_are_refused(admin, argument, value):
    """The error has those that there are."""
    with pytest.raises(ValueError, match=argument):
        admin.lag("g", **{argument: value})
