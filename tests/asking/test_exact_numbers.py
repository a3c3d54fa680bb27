"""Numbers from brokers: exact, marked as an estimate, or None with a reason."""

from __future__ import annotations

import time

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient
from kafka import KafkaProducer

from kafkaguard import errors
from kafkaguard._cluster.lag import LagReason, LagState, TimeReason
from tests.asking.cluster_clients import admin_of, commit
from tests.contracts.producer import until

FOR_EVER = 2**63 - 1


@pytest.fixture
def admin(kafka_faults):
    """A guarded admin behind the proxy."""
    config = {"bootstrap_servers": kafka_faults.bootstrap_servers}
    with admin_of("kafka-python", config) as guarded:
        yield guarded


def write(cluster, topic, *stamps, **settings):
    """Write a record for each timestamp (milliseconds; None: now)."""
    with KafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers, **settings
    ) as producer:
        for stamp in stamps:
            producer.send(topic, b"x", timestamp_ms=stamp)
        producer.flush()


def read_by(cluster, topic, offset, group=None):
    """Commit an offset of partition 0 for a group, by default one named like it."""
    commit(cluster.bootstrap_servers, group or topic, {(topic, 0): offset})


def only(report):
    """Return the one partition of the one group."""
    (group,) = report.groups.values()
    (partition,) = group.partitions.values()
    return partition


def delete_before(cluster, topic, offset):
    """Delete the records before an offset."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    place = confluent_kafka.TopicPartition(topic, 0, offset)
    assert all(f.result(10) for f in admin.delete_records([place]).values())


@pytest.mark.kafka_topic(config={"message.timestamp.after.max.ms": FOR_EVER})
def test_record_from_a_clock_that_is_ahead(kafka_cluster, kafka_topic, admin):
    """A minute ahead and nobody reads: stalled, and no zero that looks like done."""
    ahead = int(time.time() * 1000) + 60_000
    write(kafka_cluster, kafka_topic, *[ahead] * 20)
    read_by(kafka_cluster, kafka_topic, 0)
    first, second = (admin.lag(kafka_topic, columns=["time"]) for _ in range(2))
    found = only(first)
    assert (found.lag, found.time_lag, found.time_reason, found.has_record) == (
        20,
        None,
        TimeReason.FUTURE,
        True,
    )
    assert found.next_timestamp == ahead / 1000
    assert not found.is_caught_up()
    state = second.states(first)[kafka_topic]
    assert state in {LagState.STALLED, LagState.STOPPED}


def test_record_without_a_timestamp(kafka_cluster, kafka_topic, admin):
    """CreateTime -1 is no age of fifty years."""
    write(kafka_cluster, kafka_topic, -1, None)
    read_by(kafka_cluster, kafka_topic, 0)
    found = only(admin.lag(kafka_topic, columns=["time"]))
    assert (found.time_lag, found.time_reason) == (None, TimeReason.NO_TIMESTAMP)


def test_record_that_was_read_is_no_marker(kafka_cluster, kafka_topic, admin):
    """The note of a lag of 1 is a guess, and stands only where nobody looked."""
    write(kafka_cluster, kafka_topic, None)
    read_by(kafka_cluster, kafka_topic, 0)
    assert only(admin.lag(kafka_topic, columns=["time"])).notes == ()
    assert "marker" in only(admin.lag(kafka_topic)).notes[0]


def test_aborted_records_are_nothing_to_read_for_who_reads_committed(
    kafka_cluster, kafka_topic, admin
):
    """Who reads everything has them before it."""
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": kafka_cluster.bootstrap_servers,
            "transactional.id": kafka_topic,
        }
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    for _ in range(3):
        producer.produce(kafka_topic, b"x")
    producer.flush()
    producer.abort_transaction(30)
    place = (kafka_topic, 0)
    # The marker is written after the abort was answered.
    until(
        lambda: (
            admin.end_offsets([place], isolation="read_committed").offsets[place] == 4
        )
    )
    read_by(kafka_cluster, kafka_topic, 0)
    committed, everything = (
        only(admin.lag(kafka_topic, isolation=isolation, columns=["time"]))
        for isolation in ("read_committed", "read_uncommitted")
    )
    assert (committed.lag, committed.has_record, committed.time_lag) == (4, False, 0.0)
    assert committed.is_caught_up()
    assert (everything.lag, everything.has_record) == (4, True)
    assert not everything.is_caught_up()


@pytest.mark.parametrize("marker", [-1001, -2, -5])
def test_marker_that_was_committed_is_no_offset(
    kafka_cluster, kafka_topic, kafka_faults, admin, marker
):
    """A real broker takes -1001 for a commit; others are made up by the proxy."""
    write(kafka_cluster, kafka_topic, *[None] * 3)
    read_by(kafka_cluster, kafka_topic, 1)

    def mark(answer):
        for group in answer.groups:
            for topic in group.topics:
                for each in topic.partitions:
                    each.committed_offset = marker

    kafka_faults.on("OffsetFetch").edit(mark)
    for found in (only(admin.lag(kafka_topic)), only(admin.lag(topics=kafka_topic))):
        assert (found.committed, found.lag, found.reason, found.marker) == (
            None,
            None,
            LagReason.NO_COMMIT,
            marker,
        )


@pytest.mark.parametrize("marker", [-1, -2, -1001])
def test_marker_in_place_of_an_end_or_a_start_is_an_error_of_its_partition(
    kafka_cluster, kafka_topic, kafka_faults, admin, marker
):
    """No lag is measured against it, and nothing is raised."""
    write(kafka_cluster, kafka_topic, *[None] * 3)
    read_by(kafka_cluster, kafka_topic, 1)

    def mark(answer):
        for topic in answer.topics:
            for each in topic.partitions:
                each.offset = each.timestamp = marker

    with kafka_faults.on("ListOffsets").edit(mark):
        ends = admin.end_offsets([(kafka_topic, 0)])
        times = admin.offsets_for_times({(kafka_topic, 0): 0})
        found = only(admin.lag(kafka_topic))
    assert {} == ends.offsets == times.offsets
    assert isinstance(ends.errors[0], errors.ClientProtocolError)
    assert (times.complete, times.partitions[kafka_topic, 0].timestamp) == (True, None)
    assert (found.lag, found.end, found.reason) == (None, None, LagReason.ERROR)
    with kafka_faults.on("ListOffsets", skip=1).edit(mark):
        found = only(admin.lag(kafka_topic))
    assert (found.lag, found.end, found.reason) == (None, 3, LagReason.ERROR)


def test_ends_that_an_old_fetch_does_not_tell_are_asked_for(
    kafka_cluster, kafka_topic, kafka_faults, admin
):
    """Its -1 is a marker: the column comes by ListOffsets."""
    write(kafka_cluster, kafka_topic, *[None] * 3)
    read_by(kafka_cluster, kafka_topic, 1)
    kafka_faults.on("Fetch").cap(4)
    found = only(admin.lag(kafka_topic, columns=["log_start", "last_stable"]))
    assert (found.log_start, found.last_stable, found.high_watermark) == (0, 3, 3)


def test_records_that_are_gone_are_lost_and_no_lag(kafka_cluster, kafka_topic, admin):
    """A commit below the start of the log: what is there counts, the rest is lost."""
    write(kafka_cluster, kafka_topic, *[None] * 100)
    read_by(kafka_cluster, kafka_topic, 10)
    delete_before(kafka_cluster, kafka_topic, 60)
    for columns in ([], ["time"], ["log_start"]):
        found = only(admin.lag(kafka_topic, columns=columns))
        assert (found.lag, found.lost, found.log_start) == (40, 50, 60)
        assert "50 offsets are gone" in found.notes[0]
    delete_before(kafka_cluster, kafka_topic, 100)
    for columns in ([], ["time"]):
        found = only(admin.lag(kafka_topic, columns=columns))
        assert (found.lag, found.lost) == (0, 90)
        assert found.is_caught_up()
        assert not any("marker" in note for note in found.notes)


def test_start_that_cannot_be_had_leaves_no_lag(
    kafka_cluster, kafka_topic, kafka_faults, admin
):
    """It would be too large by what is gone."""
    write(kafka_cluster, kafka_topic, *[None] * 3)
    read_by(kafka_cluster, kafka_topic, 1)
    kafka_faults.on("ListOffsets", skip=1).fail(29)
    found = only(admin.lag(kafka_topic))
    assert (found.lag, found.end, found.reason) == (None, 3, LagReason.ERROR)
    assert isinstance(found.error, errors.TopicAuthorizationFailedError)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_topic_that_a_group_has_left(kafka_cluster, admin, protocol):
    """Its members read another topic, so its lag is told and is not theirs."""
    old, new = kafka_cluster.create_topic(), kafka_cluster.create_topic()
    write(kafka_cluster, old, *[None] * 9)
    write(kafka_cluster, new, None)
    read_by(kafka_cluster, old, 5, group=new)
    reader = confluent_kafka.Consumer(
        {
            "bootstrap.servers": kafka_cluster.bootstrap_servers,
            "group.id": new,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
        }
    )
    reader.subscribe([new])
    deadline = time.monotonic() + 30
    while (message := reader.poll(0.2)) is None or message.error():
        assert time.monotonic() < deadline
    reader.commit(message, asynchronous=False)
    first = admin.lag(new)
    write(kafka_cluster, old, None)
    second = admin.lag(new)
    group = second.groups[new]
    assert (group.total, group.unknown, group.state) == (0, 0, "Stable")
    assert (group.partitions[old, 0].lag, group.partitions[old, 0].reason) == (
        5,
        LagReason.LEFT,
    )
    assert {new: LagState.OK} == second.states(first)
    reader.close()
    while admin.lag(new).groups[new].state != "Empty":
        assert time.monotonic() < deadline
    gone = admin.lag(new).groups[new]
    assert (gone.total, gone.partitions[old, 0].reason) == (5, None)


@pytest.mark.parametrize(
    ("call", "version"),
    [
        (lambda admin, p: admin.max_timestamp_offsets([p]), 6),
        (lambda admin, p: admin.offsets_for_times({p: -3}), 6),
        (lambda admin, p: admin.offsets_for_times({p: -4}), 7),
        (lambda admin, p: admin.end_offsets([p], isolation="read_committed"), 1),
    ],
)
def test_question_that_a_broker_would_take_for_another_one_is_not_sent(
    kafka_cluster, kafka_topic, kafka_faults, admin, call, version
):
    """Below its version a special time is an ordinary one."""
    write(kafka_cluster, kafka_topic, None)
    kafka_faults.on("ListOffsets").cap(version)
    found = call(admin, (kafka_topic, 0))
    (error,) = found.errors
    assert isinstance(error, errors.UnsupportedVersionError)
    assert "nothing was sent" in str(error)
    assert kafka_faults.requests("ListOffsets") == []


def test_old_question_beside_a_new_one_is_answered(kafka_cluster, kafka_faults, admin):
    """Only what the broker would not understand is refused."""
    topic = kafka_cluster.create_topic(partitions=2)
    kafka_faults.on("ListOffsets").cap(6)
    found = admin.offsets_for_times({(topic, 0): -3, (topic, 1): -1})
    assert {(topic, 1): 0} == found.offsets
    assert len(found.errors) == 1


@pytest.mark.parametrize(("api", "version"), [("OffsetFetch", 6), ("Metadata", 3)])
def test_promise_that_an_old_broker_cannot_keep_is_refused(
    kafka_cluster, kafka_topic, kafka_faults, admin, api, version
):
    """Stable commits only, and never to make a topic."""
    read_by(kafka_cluster, kafka_topic, 0)
    kafka_faults.on(api).cap(version)
    report = admin.lag(kafka_topic, stable=True) if api == "OffsetFetch" else None
    if report is None:
        with pytest.raises(errors.UnsupportedVersionError):
            admin.lag(kafka_topic)
    else:
        error = report.groups[kafka_topic].error
        assert isinstance(error, errors.UnsupportedVersionError)


@pytest.mark.parametrize("code", [5, 6, 72])
def test_partition_without_a_leader_is_not_waited_for_till_the_deadline(
    kafka_cluster, kafka_faults, admin, code
):
    """A few seconds for an election, then that partition's error beside the others."""
    topic = kafka_cluster.create_topic(partitions=2)
    commit(kafka_cluster.bootstrap_servers, topic, {(topic, 0): 0, (topic, 1): 0})
    kafka_faults.on("ListOffsets", topic=topic, partition=0).fail(code)
    started = time.monotonic()
    found = admin.lag(topic).groups[topic].partitions
    assert time.monotonic() - started < 20  # it was 30
    assert (found[topic, 0].error.code, found[topic, 1].lag) == (code, 0)
