"""The checks of records, on batches as Spark makes them; nobody is asked."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kafkaguard import errors as e
from kafkaguard._delivery import dead_letters
from kafkaguard._delivery.dead_letters import Reason
from kafkaguard._delivery.facts import Raw
from kafkaguard._delivery.sizes import batch_size
from kafkaguard._errors.base import Action
from kafkaguard.spark import error_from
from kafkaguard_adapters.confluent.errors import errors
from kafkaguard_adapters.spark.executor.arrow import Columns
from kafkaguard_adapters.spark.executor.checks import find_refused
from kafkaguard_adapters.spark.executor.known_topics import KnownTopics
from kafkaguard_adapters.spark.executor.row_check import RowCheck
from kafkaguard_adapters.spark.executor.sent_records import raw_of
from kafkaguard_adapters.spark.executor.size_limits import describe_exceeded
from kafkaguard_adapters.spark.marker import TaskFailedError, as_text
from kafkaguard_adapters.spark.settings import make_settings
from kafkaguard_adapters.spark.topics import SinkTopic
from kafkaguard_adapters.spark.verdicts import record_error
from tests.spark.spark_reading import letters_to

IMPOSSIBLE = ["", ".", "..", "a b", "plain\0", "ü", "x" * 250, "a/b", "line\n"]


def known(*topics, **arguments):
    """Make what a task knows; nobody listens at this address."""
    settings = make_settings("localhost:1", **arguments)
    return KnownTopics(settings, {topic.name: topic for topic in topics})


def test_name_that_no_topic_can_have_is_refused_and_never_asked_for():
    """Kafka's client answers some of them with an error of its own, that kills jobs."""
    names = ["plain", *IMPOSSIBLE, "x" * 249]
    columns = {"value": pa.array(["v"] * len(names)), "topic": pa.array(names)}
    topics = SinkTopic("plain", 1), SinkTopic("x" * 249, 1)
    found = find_refused(Columns(pa.record_batch(columns), None), known(*topics))
    assert found == dict.fromkeys(range(1, 10), Reason.UNKNOWN_TOPIC)


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_name_that_no_topic_can_have_fails_the_check_of_a_row(name):
    """As an error of ours, that says that nothing was sent."""
    check = RowCheck(make_settings("localhost:1"))
    with pytest.raises(TaskFailedError) as caught:
        check(False, name, False, 1, 70, None, False, False, False)
    error = error_from(caught.value)
    assert isinstance(error, e.UnknownTopicOrPartitionError)
    assert error.verdict.action is Action.REJECT
    assert error.__notes__[0].startswith("0 records were appended")


HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def with_headers(*headers):
    """Make a batch of one record for each list of headers."""
    named = [own and [{"key": k, "value": v} for k, v in own] for own in headers]
    columns = {"key": pa.array(["k"] * len(headers)), "value": ["v"] * len(headers)}
    return pa.record_batch({**columns, "headers": pa.array(named, HEADERS)})


@pytest.mark.parametrize("length", [0, 1, 63, 64, 8191, 8192, 2**20 - 1, 2**20])
def test_sizes_of_a_batch_are_those_of_its_records(length):
    """Arrow counts by columns what Python counts one by one."""
    text = pa.array(["x" * length, None, "", "ü" * 40])
    columns = Columns(pa.record_batch({"key": text[::-1], "value": text}), "t")
    sizes = columns.sizes()
    for row, record in enumerate(columns.records()):
        assert {name: sizes[name][row].as_py() for name in sizes} == (
            record.sizes._asdict()
        )


def test_sizes_count_headers():
    """The bytes of their names count, and their number."""
    columns = Columns(
        with_headers(None, [], [("h", None)], [("ü", b"1")] * 70, [("h", b"x" * 64)]),
        "t",
    )
    sizes = columns.sizes()
    records = list(columns.records())
    assert sizes["record"].to_pylist() == [2, 2, 3, 2 + 70 * 3, 2 + 65]
    assert sizes["batch"].to_pylist() == [
        batch_size(r.key, r.value, r.headers or ()) for r in records
    ]


@pytest.mark.parametrize(
    ("limit", "arguments", "said"),
    [
        (
            98,
            {},
            "needs 99 bytes in the topic, before compression, and max.message.by",
        ),
        (98, {}, "max.message.bytes of the topic is 98; raise it"),
        (None, {"config": {"max.request.size": 1000}}, None),
        (99, {"max_record_bytes": 31}, None),
        (99, {"max_record_bytes": 30}, "have 31 bytes, and max_record_bytes is 30"),
    ],
)
def test_record_that_is_too_large_is_told_which_limit_it_hits(limit, arguments, said):
    """Sizes and setting, whether a batch is checked or a row."""
    topic = SinkTopic("t", 1, max_message_bytes=limit)
    tasks = known(topic, topic="t", **arguments)
    columns = Columns(pa.record_batch({"key": ["k"], "value": ["v" * 30]}), "t")
    assert columns.record(0).sizes == (31, 99)
    refused = {0: Reason.TOO_LARGE} if said else {}
    assert find_refused(columns, tasks) == refused
    check = RowCheck(make_settings("localhost:1", **arguments))
    vars(check)["_known"] = tasks
    if said is None:
        assert check(False, "t", False, 31, 99, None, False, False, False)
        return
    with pytest.raises(TaskFailedError, match="TOO_LARGE") as caught:
        check(False, "t", False, 31, 99, None, False, False, False)
    assert said in error_from(caught.value).summary


def test_clients_own_limit_is_named():
    """Java's name of it, under which most give it."""
    config = {"max.request.size": 1000}
    tasks = known(SinkTopic("t", 1), topic="t", config=config)
    columns = Columns(pa.record_batch({"value": ["v" * 930, "v" * 931]}), "t")
    assert find_refused(columns, tasks) == {1: Reason.TOO_LARGE}
    said = describe_exceeded(tasks.limits("t"), columns.record(1).sizes)
    assert "needs 1,001 bytes" in said
    assert "kafka.max.request.size is 1,000" in said


def test_header_name_with_a_nul_is_refused_and_shown_in_the_dead_letter():
    """It would be cut there silently, and nobody would know."""
    columns = Columns(
        with_headers([("a", b"1")], None, [("a", b"1"), ("b\0c", b"2")], [(None, b"")]),
        "t",
    )
    assert find_refused(columns, known(SinkTopic("t", 1), topic="t")) == {
        2: Reason.NUL_IN_HEADER,
        3: Reason.NAMELESS_HEADER,
    }
    error = record_error(Reason.NUL_IN_HEADER, "t")
    assert error_from(RuntimeError(as_text(error))).verdict is error.verdict
    record = raw_of(columns.record(2))
    letter = dead_letters.letter(
        record,
        dead_letters.refusal_facts(error),
        topic="d",
        size_limit=9999,
        errors=errors,
    )
    assert letter.headers[:2] == [("a", b"1"), ("b\N{SYMBOL FOR NULL}c", b"2")]


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        ((True, True, True), "NAMELESS_HEADER"),
        ((False, True, True), "NUL_IN_HEADER"),
        ((False, False, True), "INVALID_TIMESTAMP"),
    ],
)
def test_what_the_client_would_change_fails_the_check_of_a_row(flags, reason):
    """A row that the client would change is refused before anything is sent."""
    check = RowCheck(make_settings("localhost:1"))
    vars(check)["_known"] = known(SinkTopic("t", 1))
    with pytest.raises(TaskFailedError, match=reason):
        check(False, "t", False, 1, 70, None, *flags)


def test_long_name_is_shown_in_part():
    """The wrong column may hold whole documents; its dead letter must fit all the same."""
    error = record_error(Reason.UNKNOWN_TOPIC, "x" * 10**6)
    assert len(str(error)) < 1000
    record = Raw(b"k", b"v")
    letter = dead_letters.letter(
        record,
        dead_letters.refusal_facts(error),
        topic="dead",
        size_limit=1000,
        errors=errors,
    )
    assert dict(letter.headers)["kafkaguard.topic"] == b"x" * 249 + b"..."


def test_record_for_the_dead_letter_topic_is_refused():
    """Delivered, it would stand among the refused ones without a reason."""
    names = ["plain", "dead", None]
    columns = {"value": pa.array(["v"] * 3), "topic": pa.array(names)}
    topics = SinkTopic("plain", 1), SinkTopic("dead", 1)
    of_a_column = known(*topics, policy=letters_to("dead"))
    assert find_refused(Columns(pa.record_batch(columns), None), of_a_column) == {
        1: Reason.DEAD_LETTER_TOPIC,
        2: Reason.NULL_TOPIC,
    }
    error = record_error(Reason.DEAD_LETTER_TOPIC, "dead")
    assert error_from(RuntimeError(as_text(error))).verdict is error.verdict
    assert error.verdict.action is Action.REJECT


@pytest.mark.parametrize("kind", [pa.string(), pa.binary()])
def test_keys_that_to_json_has_collapsed_are_counted(kind):
    """As text or as bytes; null is another matter."""
    keys = pa.array([b"{}", None, b"{}", b"{ }", b"a"], pa.binary()).cast(kind)
    value = pa.array(["v"] * 5)
    columns = Columns(pa.record_batch({"key": keys, "value": value}), "t")
    assert columns.collapsed_keys() == 2
    assert Columns(pa.record_batch({"value": value}), "t").collapsed_keys() == 0
    assert Columns(columns._batch.slice(0, 0), "t").collapsed_keys() == 0


@pytest.mark.parametrize("length", [0, 1, 63, 64, 8191, 8192, 2**20])
def test_bound_of_sizes_is_never_below_the_largest(length):
    """Where it is within the limits, nothing is counted; headers are always counted."""
    rows = {
        "key": pa.array([None, "k" * length]),
        "value": pa.array(["v", "v" * length]),
    }
    columns = Columns(pa.record_batch(rows), "t")
    largest = max(columns.sizes()["batch"].to_pylist())
    assert largest <= columns.bound_size() <= largest + 20
    headers = pa.array([[], []], pa.list_(pa.struct([("key", pa.string())])))
    with_headers = Columns(pa.record_batch({**rows, "headers": headers}), "t")
    assert with_headers.bound_size() == float("inf")
