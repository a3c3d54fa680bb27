"""One task's records against a real broker, without Spark around it."""

from __future__ import annotations

import json
import threading
import uuid

import pyarrow as pa
import pytest

from kafkaguard import errors as e
from kafkaguard._delivery import dead_letters
from kafkaguard._delivery.dead_letters import Reason
from kafkaguard._delivery.sizes import batch_size
from kafkaguard_adapters.confluent.errors import errors
from kafkaguard_adapters.spark.executor.arrow import Columns, SinkRecord
from kafkaguard_adapters.spark.executor.delivery import Delivery
from kafkaguard_adapters.spark.executor.sent_records import SentRecords, raw_of
from kafkaguard_adapters.spark.executor.size_limits import SizeLimit
from kafkaguard_adapters.spark.report import TaskCounts
from kafkaguard_adapters.spark.settings import make_settings
from kafkaguard_adapters.spark.topics import SinkTopic, look_up
from kafkaguard_adapters.spark.verdicts import record_error
from tests.spark.spark_reading import letters_to, read, values, why

COMPACTED = {"cleanup.policy": "compact"}
#: Nothing leaves before the flush: records of a few lines share a batch for certain.
ONE_BATCH = {"linger.ms": "60000"}


def batch(rows, **more):
    """Make an Arrow batch as Spark does, from (key, value) pairs."""
    keys, contents = zip(*rows, strict=True)
    columns = {
        "key": pa.array(keys, pa.string()),
        "value": pa.array(contents, pa.string()),
    }
    return pa.record_batch({**columns, **more})


def settings_for(cluster, topic, **more):
    """Make settings for a test's topic."""
    return make_settings(cluster.bootstrap_servers, topic=topic, **more)


def deliver(settings, *batches, topics=None, window=100_000):
    """Send batches as one task does; return its counts."""
    topics = look_up(settings) if topics is None else topics
    with Delivery(settings, topics, window) as delivery:
        for each in batches:
            delivery.send(each)
        delivery.end_window()
    counts = delivery.counts
    settled = counts.delivered + counts.dead_lettered.total() + counts.in_doubt.total()
    assert counts.read == settled
    return counts


def believed(topic, dead_letter_topic, *, partitions=1, limit=1_048_588):
    """Say that a topic is not compacted, as one that was altered a moment ago."""
    return {
        topic: SinkTopic(topic, partitions, compacted=False, max_message_bytes=limit),
        dead_letter_topic: SinkTopic(dead_letter_topic, 1, compacted=False),
    }


def test_only_the_keyless_record_is_refused_when_the_broker_refuses_its_batch(
    kafka_cluster, kafka_topic
):
    """The broker answers 87 for all of them; those with a key are sent again."""
    topic = kafka_cluster.create_topic(config=COMPACTED)
    rows = [(None if i == 5_000 else f"k{i}", f"v{i}") for i in range(10_000)]
    settings = settings_for(kafka_cluster, topic, policy=letters_to(kafka_topic))
    counts = deliver(settings, batch(rows), topics=believed(topic, kafka_topic))
    assert counts.delivered == 9_999
    assert counts.dead_lettered == {"NULL_KEY": 1}
    assert counts.resent > 0
    assert values(kafka_cluster, topic) == sorted(v for k, v in rows if k)
    (dead,) = read(kafka_cluster, kafka_topic)
    assert dead.value() == b"v5000"
    assert why(dead)["error"] == "INVALID_RECORD_KEY"
    assert why(dead)["code"] == "87"
    assert why(dead)["topic"] == topic


@pytest.mark.parametrize("patience_ms", [3_000, 120_000])
@pytest.mark.parametrize("deleted", ["topic", "dead letters"])
def test_a_topic_that_was_deleted_meanwhile_is_told(
    kafka_cluster, deleted, patience_ms
):
    """CONFIGURE, so Spark's next attempt fails at once; whichever way it is noticed."""
    topic = kafka_cluster.create_topic(config=COMPACTED)
    dead = kafka_cluster.create_topic()
    gone = topic if deleted == "topic" else dead
    policy = letters_to(dead) | {"max_attempts": 2}
    config = {
        "delivery.timeout.ms": patience_ms,
        "topic.metadata.propagation.max.ms": patience_ms // 60,
    }
    settings = settings_for(kafka_cluster, topic, policy=policy, config=config)
    topics = look_up(settings)
    kafka_cluster.delete_topic(gone)
    with pytest.raises(e.UnknownTopicOrPartitionError) as caught:
        deliver(settings, batch([("k", "v"), (None, "w")]), topics=topics)
    assert (caught.value.topic, caught.value.verdict.action) == (gone, "CONFIGURE")
    assert ("dead-letter topic" in str(caught.value)) == (gone == dead)


def test_rescued_records_never_land_behind_a_later_one_of_their_key(
    kafka_cluster, kafka_topic
):
    """However batches fall, the last record of each key is its newest."""
    topic = kafka_cluster.create_topic(config=COMPACTED)
    rows = [(f"k{i % 50}", f"{i:06}") for i in range(20_000)]
    rows[100:100] = [(None, "no key")]
    settings = settings_for(
        kafka_cluster,
        topic,
        policy=letters_to(kafka_topic),
        config={"batch.size": "20000"},
    )
    counts = deliver(settings, batch(rows), topics=believed(topic, kafka_topic))
    assert counts.dead_lettered["NULL_KEY"] == 1
    last = {m.key().decode(): m.value().decode() for m in read(kafka_cluster, topic)}
    assert last == {f"k{i}": f"{19_950 + i:06}" for i in range(50)}


HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def with_headers(headers):
    """Make the column ``headers`` from lists of pairs; None stands for no list."""
    named = [
        None
        if pairs is None
        else [pair and {"key": pair[0], "value": pair[1]} for pair in pairs]
        for pairs in headers
    ]
    return pa.array(named, HEADERS)


def test_records_that_are_sent_again_keep_all_that_they_have(
    kafka_cluster, kafka_topic
):
    """Headers, partition, and null apart from empty; the client's report has less."""
    topic = kafka_cluster.create_topic(partitions=3, config=COMPACTED)
    rows = [("a", "1"), ("b", None), ("c", ""), ("", "4"), ("e", "5"), (None, "6")]
    headers = [[("h", b"1")], [("h", None), ("h", b"")], [], None, [("ö", b"5")]]
    settings = settings_for(
        kafka_cluster, topic, policy=letters_to(kafka_topic), config=ONE_BATCH
    )
    sent = batch(
        rows,
        headers=with_headers([*headers, [("h", b"6")]]),
        partition=pa.array([2] * 6, pa.int32()),
    )
    topics = believed(topic, kafka_topic, partitions=3)
    counts = deliver(settings, sent, topics=topics)
    assert (counts.delivered, counts.resent) == (5, 5)
    assert [
        (m.partition(), m.key(), m.value(), m.headers())
        for m in read(kafka_cluster, topic)
    ] == [
        (2, b"a", b"1", [("h", b"1")]),
        (2, b"b", None, [("h", None), ("h", b"")]),
        (2, b"c", b"", None),
        (2, b"", b"4", None),
        (2, b"e", b"5", [("ö", b"5")]),
    ]
    (dead,) = read(kafka_cluster, kafka_topic)
    assert (dead.key(), dead.value()) == (None, b"6")
    assert dead.headers()[0] == ("h", b"6")
    assert why(dead)["partition"] == "2"
    assert why(dead)["reason"] == "NULL_KEY"


def test_records_alike_but_for_their_headers_are_told_apart(kafka_cluster, kafka_topic):
    """Each of them is sent again with its own."""
    topic = kafka_cluster.create_topic(config=COMPACTED)
    rows = [("k", "v")] * 20 + [(None, "no key")]
    headers = with_headers([[("n", b"%d" % n)] for n in range(21)])
    settings = settings_for(
        kafka_cluster, topic, policy=letters_to(kafka_topic), config=ONE_BATCH
    )
    sent = batch(rows, headers=headers)
    assert deliver(settings, sent, topics=believed(topic, kafka_topic)).resent == 20
    landed = [m.headers() for m in read(kafka_cluster, topic)]
    assert landed == [[("n", b"%d" % n)] for n in range(20)]


def test_of_records_alike_the_last_counts_as_failed():
    """Sending one again that was accepted harms nobody; not sending it might."""
    records = [
        SinkRecord("t", b"a", b"1"),
        SinkRecord("t", b"a", b"2"),
        SinkRecord("t", b"a", b"1"),
    ]
    window = SentRecords("t", 1, records, [("error", records[0])])
    assert [(r.index, r.cause) for r in window.refusals()] == [(2, "error")]


def test_each_failure_is_one_record():
    """If two of three equal records failed, the last two count as failed."""
    records = [SinkRecord("t", None, b"1")] * 3
    window = SentRecords("t", 1, records, [("x", records[0]), ("y", records[0])])
    assert {1, 2} == {refusal.index for refusal in window.refusals()}


def test_small_topic_limit_does_not_fail_whole_batches(kafka_cluster, kafka_topic):
    """max.message.bytes is about batches; many small records must fit all the same."""
    topic = kafka_cluster.create_topic(config={"max.message.bytes": 2_000})
    rows = [(str(i), "x" * 200) for i in range(1_000)]
    counts = deliver(settings_for(kafka_cluster, topic), batch(rows))
    assert counts.delivered == 1_000
    assert len(read(kafka_cluster, topic)) == 1_000


def test_batch_too_large_is_not_held_against_its_records(kafka_cluster, kafka_topic):
    """A limit lowered a moment ago refuses batches; one by one the records pass."""
    topic = kafka_cluster.create_topic(config={"max.message.bytes": 2_000})
    settings = settings_for(kafka_cluster, topic, policy=letters_to(kafka_topic))
    rows = [(str(i), "x" * 200) for i in range(50)]
    counts = deliver(settings, batch(rows), topics=believed(topic, kafka_topic))
    assert counts.delivered == 50


def test_too_large_value_becomes_a_dead_letter_cut_to_what_fits(
    kafka_cluster, kafka_topic
):
    """Compression does not help; the letter says how large the value was."""
    topic = kafka_cluster.create_topic()
    settings = settings_for(
        kafka_cluster,
        topic,
        policy=letters_to(kafka_topic),
        config={"compression.type": "gzip"},
    )
    counts = deliver(settings, batch([("a", "x" * 2_000_000), ("b", "small")]))
    assert counts.dead_lettered == {"TOO_LARGE": 1}
    assert values(kafka_cluster, topic) == ["small"]
    (dead,) = read(kafka_cluster, kafka_topic)
    assert dead.value() == b"x" * 1024
    assert why(dead)["value_bytes"] == "2000000"
    assert why(dead)["reason"] == "TOO_LARGE"


@pytest.mark.parametrize("beyond", [0, 1])
def test_dead_letter_is_kept_whole_up_to_the_last_byte_that_its_topic_takes(
    kafka_cluster, beyond
):
    """The broker is the judge of what fits: a batch of 5,000 bytes."""
    topic = kafka_cluster.create_topic(config={"max.message.bytes": 1_500})
    dead_topic = kafka_cluster.create_topic(config={"max.message.bytes": 5_000})
    settings = settings_for(kafka_cluster, topic, policy=letters_to(dead_topic))
    record = SinkRecord(topic, b"k", b"x" * 4_000, [("own", b"1")])
    limit = SizeLimit(1_500, "max.message.bytes of the topic")
    refused = record_error(Reason.TOO_LARGE, topic, limit.describe("4,567"))
    letter = dead_letters.letter(
        raw_of(record),
        dead_letters.refusal_facts(refused),
        topic=dead_topic,
        size_limit=10**6,
        errors=errors,
    )
    size = batch_size(letter.key, letter.value, letter.headers)
    value = "x" * (4_000 + 5_000 - size + beyond)
    rows = batch([("k", value)], headers=with_headers([[("own", b"1")]]))
    assert deliver(settings, rows).dead_lettered == {"TOO_LARGE": 1}
    (dead,) = read(kafka_cluster, dead_topic)
    assert len(dead.value()) == (1024 if beyond else len(value))
    assert ("value_bytes" in why(dead)) == bool(beyond)


def test_dead_letter_is_cut_to_what_the_client_takes(kafka_cluster, kafka_topic):
    """The topic would take more, but max.request.size is the user's word."""
    topic = kafka_cluster.create_topic(config={"max.message.bytes": 1_500})
    config = {"max.request.size": "3000"}
    settings = settings_for(
        kafka_cluster, topic, policy=letters_to(kafka_topic), config=config
    )
    counts = deliver(settings, batch([("k", "x" * 4_000)]))
    assert counts.dead_lettered == {"TOO_LARGE": 1}
    (dead,) = read(kafka_cluster, kafka_topic)
    assert why(dead)["value_bytes"] == "4000"


@pytest.mark.parametrize("size", [0, 1])
def test_largest_record_that_the_topic_takes_passes_and_one_byte_more_does_not(
    kafka_cluster, kafka_topic, size
):
    """What the check lets through the broker takes, and what not, it does not."""
    topic = kafka_cluster.create_topic(config={"max.message.bytes": 10_000})
    settings = settings_for(kafka_cluster, topic, policy=letters_to(kafka_topic))
    least = batch_size(b"key", b"x" * 9_000, [])
    value = "x" * (9_000 + 10_000 - least + size)
    counts = deliver(settings, batch([("key", value)]))
    assert (counts.delivered, counts.dead_lettered["TOO_LARGE"]) == (1 - size, size)
    believed_larger = believed(topic, kafka_topic, limit=20_000)
    asked = deliver(settings, batch([("key", value)]), topics=believed_larger)
    assert (asked.delivered, asked.dead_lettered["TOO_LARGE"]) == (1 - size, size)


def test_tombstone_with_a_key_arrives_as_null(kafka_cluster, kafka_topic):
    """A delete marker is no empty value, and no reason to refuse."""
    topic = kafka_cluster.create_topic(config=COMPACTED)
    settings = settings_for(kafka_cluster, topic, policy=letters_to(kafka_topic))
    counts = deliver(settings, batch([("k", None), ("", "empty key is a key")]))
    assert counts.delivered == 2
    assert {(m.key(), m.value()) for m in read(kafka_cluster, topic)} == {
        (b"k", None),
        (b"", b"empty key is a key"),
    }


def test_topic_that_became_compacted_is_seen_by_the_next_write(
    kafka_cluster, kafka_topic
):
    """The policy is looked up for each write, and "compact,delete" counts."""
    topic = kafka_cluster.create_topic()
    settings = settings_for(kafka_cluster, topic, policy=letters_to(kafka_topic))
    assert deliver(settings, batch([(None, "1")])).delivered == 1
    kafka_cluster.alter_topic(topic, {"cleanup.policy": "compact,delete"})
    assert deliver(settings, batch([(None, "2")])).dead_lettered == {"NULL_KEY": 1}
    assert values(kafka_cluster, topic) == ["1"]


def test_topics_of_a_column_are_looked_up_and_null_is_refused(
    kafka_cluster, kafka_topic
):
    """Each row goes where it says; a null key matters on the compacted one only."""
    compacted = kafka_cluster.create_topic(config=COMPACTED)
    plain = kafka_cluster.create_topic()
    rows = [(None, "1"), (None, "2"), ("k", "3"), ("k", "4"), ("k", "5"), ("k", "6")]
    names = [plain, compacted, compacted, None, kafka_topic, ""]
    topics = pa.array(names, pa.string())
    settings = make_settings(
        kafka_cluster.bootstrap_servers, policy=letters_to(kafka_topic)
    )
    counts = deliver(settings, batch(rows, topic=topics))
    refused = ["NULL_KEY", "NULL_TOPIC", "DEAD_LETTER_TOPIC", "UNKNOWN_TOPIC"]
    assert counts.dead_lettered == dict.fromkeys(refused, 1)
    assert values(kafka_cluster, plain) == ["1"]
    assert values(kafka_cluster, compacted) == ["3"]
    letters = read(kafka_cluster, kafka_topic)
    assert {m.value(): why(m)["reason"] for m in letters} == {
        b"2": "NULL_KEY",
        b"4": "NULL_TOPIC",
        b"5": "DEAD_LETTER_TOPIC",
        b"6": "UNKNOWN_TOPIC",
    }


def test_headers_and_partition_are_kept_also_in_the_dead_letter(
    kafka_cluster, kafka_topic
):
    """What the user put on a record stays on it."""
    topic = kafka_cluster.create_topic(partitions=3, config=COMPACTED)
    headers = with_headers([[("h", b"1")], [("h", None)]])
    part = pa.array([2, 1], pa.int32())
    settings = settings_for(kafka_cluster, topic, policy=letters_to(kafka_topic))
    deliver(settings, batch([("k", "1"), (None, "2")], headers=headers, partition=part))
    (kept,) = read(kafka_cluster, topic)
    assert (kept.partition(), kept.headers()) == (2, [("h", b"1")])
    (dead,) = read(kafka_cluster, kafka_topic)
    assert dead.headers()[0] == ("h", None)
    assert why(dead)["partition"] == "1"


def test_header_without_a_name_costs_its_record_only(kafka_cluster, kafka_topic):
    """Also a null in the array; in the dead letter it is called by its place."""
    topic = kafka_cluster.create_topic()
    headers = [None, [("a", b"1"), (None, b"x")], [], [("b", b"")], [None, ("c", None)]]
    rows = batch([(str(n), "v") for n in range(5)], headers=with_headers(headers))
    settings = settings_for(kafka_cluster, topic, policy=letters_to(kafka_topic))
    assert deliver(settings, rows).dead_lettered == {"NAMELESS_HEADER": 2}
    landed = {m.key(): m.headers() for m in read(kafka_cluster, topic)}
    assert landed == {b"0": None, b"2": None, b"3": [("b", b"")]}
    letters = {m.key(): m for m in read(kafka_cluster, kafka_topic)}
    assert why(letters[b"1"])["reason"] == "NAMELESS_HEADER"
    assert letters[b"1"].headers()[:2] == [("a", b"1"), ("kafkaguard.header.1", b"x")]
    assert letters[b"4"].headers()[:2] == [("kafkaguard.header.0", None), ("c", None)]


def test_headers_without_names_are_found_in_a_part_of_a_batch():
    """Arrow counts the rows of a slice from its own beginning."""
    headers = with_headers([[(None, b"x")], None, [("a", b"1")], [("b", b""), None]])
    rows = batch([(str(n), "v") for n in range(4)], headers=headers)
    assert Columns(rows, "t").has_nameless_header().to_pylist() == [
        True,
        False,
        False,
        True,
    ]
    part = Columns(rows.slice(1, 3), "t")
    assert part.has_nameless_header().to_pylist() == [False, False, True]


def test_refused_record_fails_a_task_that_has_no_dead_letter_topic(kafka_cluster):
    """The error says which topic and why, and nothing of the record."""
    topic = kafka_cluster.create_topic(config=COMPACTED)
    with pytest.raises(e.InvalidRecordKeyError, match="NULL_KEY") as caught:
        deliver(settings_for(kafka_cluster, topic), batch([(None, "secret")]))
    assert caught.value.topic == topic
    assert "secret" not in str(caught.value)
    assert read(kafka_cluster, topic) == []


def test_dead_letter_that_cannot_be_written_fails_the_task(kafka_cluster):
    """A refused record is never dropped silently."""
    topic = kafka_cluster.create_topic(config=COMPACTED)
    dead = kafka_cluster.create_topic()
    settings = settings_for(kafka_cluster, topic, policy=letters_to(dead))
    topics = look_up(settings)
    kafka_cluster.alter_topic(dead, {"cleanup.policy": "compact"})
    with pytest.raises(e.InvalidRecordKeyError) as caught:
        deliver(settings, batch([(None, "1")]), topics=topics)
    assert caught.value.topic == dead
    said = f"the dead letter of a record for {topic} (NULL_KEY) was not delivered"
    assert caught.value.summary == said


def test_dead_letters_share_only_batches_that_their_topic_takes(kafka_cluster):
    """Batches of dead letters fit their topic, whatever batch.size is set."""
    topic = kafka_cluster.create_topic(config=COMPACTED)
    dead = kafka_cluster.create_topic(config={"max.message.bytes": 2_000})
    config = {"batch.size": "900000", **ONE_BATCH}
    settings = settings_for(
        kafka_cluster, topic, policy=letters_to(dead), config=config
    )
    counts = deliver(settings, batch([(None, "x" * 200)] * 100))
    assert counts.dead_lettered == {"NULL_KEY": 100}
    assert len(read(kafka_cluster, dead)) == 100


def test_dead_letter_without_room_fails_the_task_before_its_batch_is_sent(
    kafka_cluster,
):
    """Neither the records beside it nor the other dead letters."""
    topic = kafka_cluster.create_topic(config={"max.message.bytes": 2_000})
    dead = kafka_cluster.create_topic(config={"max.message.bytes": 5_000})
    rows = [("a", "1"), ("b", "x" * 3_000), ("k" * 9_000, "3")]
    settings = settings_for(kafka_cluster, topic, policy=letters_to(dead))
    with pytest.raises(e.MessageTooLargeError, match="takes 5,000 bytes") as caught:
        deliver(settings, batch(rows))
    assert caught.value.topic == dead
    assert f"the dead letter of a record for {topic}" in str(caught.value)
    assert read(kafka_cluster, topic) == read(kafka_cluster, dead) == []


@pytest.mark.parametrize("in_doubt", ["raise", "report"])
def test_record_in_doubt_fails_the_task_or_is_reported(
    kafka_cluster, kafka_topic, in_doubt
):
    """A delivery that timed out may have been written; both ways say so."""
    settings = settings_for(
        kafka_cluster,
        kafka_topic,
        policy={"extends": "spark-sink", "on_reject": "raise", "in_doubt": in_doubt},
        config={"delivery.timeout.ms": "1", "linger.ms": "0"},
    )
    rows = batch([("k", "v")] * 2_000)
    if in_doubt == "raise":
        with pytest.raises(e.ClientTimeoutError):
            deliver(settings, rows)
    else:
        assert deliver(settings, rows).in_doubt.total() > 0


def test_full_queue_is_waited_for(kafka_cluster, kafka_topic):
    """A tight loop over a small queue loses nothing."""
    config = {"queue.buffering.max.messages": "1000"}
    settings = settings_for(kafka_cluster, kafka_topic, config=config)
    rows = [(str(i), str(i)) for i in range(20_000)]
    assert deliver(settings, batch(rows)).delivered == 20_000


def test_windows_are_settled_one_after_the_other(kafka_cluster, kafka_topic):
    """More records than a window holds are all counted."""
    settings = settings_for(kafka_cluster, kafka_topic)
    batches = [batch([(str(i), "v")] * 300) for i in range(10)]
    assert deliver(settings, *batches, window=1_000).delivered == 3_000


def test_keys_land_where_javas_clients_put_them(kafka_cluster):
    """murmur2: kafka-python's partitioner, which is Java's, is the oracle."""
    from kafka.partitioner.default import murmur2

    topic = kafka_cluster.create_topic(partitions=7)
    rows = [(f"key-{i}", "v") for i in range(200)]
    deliver(settings_for(kafka_cluster, topic), batch(rows))
    for message in read(kafka_cluster, topic):
        assert message.partition() == (murmur2(message.key()) & 0x7FFFFFFF) % 7


def test_next_task_takes_the_producer_of_the_last_unless_that_failed(
    kafka_cluster, kafka_topic
):
    """A new idempotent producer waits half a second for its id."""
    settings = settings_for(kafka_cluster, kafka_topic)
    topics = look_up(settings)
    with Delivery(settings, topics) as first:
        pass
    with pytest.raises(ZeroDivisionError), Delivery(settings, topics) as second:
        raise ZeroDivisionError
    with Delivery(settings, topics) as third:
        pass
    assert second._sender is first._sender
    assert third._sender is not second._sender


def test_counts_survive_the_way_to_the_driver():
    """The counts of a task are the same after JSON."""
    counts = TaskCounts(read=3, delivered=1, resent=1, attempt=2)
    counts.dead_lettered["NULL_KEY"] += 2
    again = TaskCounts.from_json(counts.to_json())
    assert again == counts
    assert json.loads(counts.to_json())["dead_lettered"] == {"NULL_KEY": 2}


def test_time_of_a_record_is_that_of_its_column():
    """In milliseconds, to the last; null is the time of sending."""
    times = pa.array([1234567890123456, None], pa.timestamp("us", "UTC"))
    columns = Columns(batch([("a", "1"), ("b", "2")], timestamp=times), "t")
    assert not columns.are_plain
    assert [record.timestamp for record in columns.records()] == [1234567890123, None]


def test_topic_that_comes_a_moment_later_is_waited_for(kafka_cluster):
    """The policy has attempts for it; without one the task fails at the first."""
    topic = f"later-{uuid.uuid4()}"
    topics = {topic: SinkTopic(topic, 1, compacted=False)}
    config = {"topic.metadata.propagation.max.ms": 0, "allow.auto.create.topics": False}
    waits = {"kind": "fixed", "base": 0.5, "jitter": "none"}
    policy = {"max_attempts": 100, "backoff": waits}
    rows = batch([("a", "1"), ("a", "2"), (None, "3")])
    # The broker's word or the client's own, whichever comes first.
    unknown = (e.UnknownTopicOrPartitionError, e.ClientMetadataError)
    with pytest.raises(unknown) as caught:
        deliver(settings_for(kafka_cluster, topic, config=config), rows, topics=topics)
    assert (
        "1 attempt; policy spark allows no further attempt" in caught.value.__notes__[0]
    )
    later = threading.Timer(2, kafka_cluster.create_topic, (topic,), {"partitions": 1})
    later.start()
    settings = settings_for(kafka_cluster, topic, config=config, policy=policy)
    counts = deliver(settings, rows, topics=topics)
    later.join()
    assert counts.resent == 3
    assert [m.value() for m in read(kafka_cluster, topic)] == [b"1", b"2", b"3"]
