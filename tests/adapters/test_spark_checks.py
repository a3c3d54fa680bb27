"""The checks of records, on batches as Spark makes them; nobody is asked."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kafkaguard import errors as e
from kafkaguard._dead_letter import Reason
from kafkaguard._verdict import Action
from kafkaguard.spark import error_from
from kafkaguard_adapters.spark._arrow import Columns, Record
from kafkaguard_adapters.spark._checks import find_refused
from kafkaguard_adapters.spark._dead_letters import dead_letter
from kafkaguard_adapters.spark._delivery import refusal
from kafkaguard_adapters.spark._known_topics import KnownTopics
from kafkaguard_adapters.spark._marker import TaskFailedError, as_text
from kafkaguard_adapters.spark._row_check import RowCheck
from kafkaguard_adapters.spark._settings import make_settings
from kafkaguard_adapters.spark._topics import SinkTopic

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
        check(name, False, 1, None, False)
    error = error_from(caught.value)
    assert isinstance(error, e.UnknownTopicOrPartitionError)
    assert error.verdict.action is Action.REJECT
    assert error.__notes__[0].startswith("0 records were appended")


def test_long_name_is_shown_in_part():
    """The wrong column may hold whole documents; its dead letter must fit all the same."""
    error = refusal(Reason.UNKNOWN_TOPIC, "x" * 10**6)
    assert len(str(error)) < 1000
    record = Record("x" * 10**6, b"k", b"v")
    letter = dead_letter(record, "dead", Reason.UNKNOWN_TOPIC, error, 1000)
    assert dict(letter.headers)["kafkaguard.topic"] == b"x" * 249 + b"..."


def test_record_for_the_dead_letter_topic_is_refused():
    """Delivered, it would stand among the refused ones without a reason."""
    names = ["plain", "dead", None]
    columns = {"value": pa.array(["v"] * 3), "topic": pa.array(names)}
    topics = SinkTopic("plain", 1), SinkTopic("dead", 1)
    of_a_column = known(*topics, dead_letter_topic="dead")
    assert find_refused(Columns(pa.record_batch(columns), None), of_a_column) == {
        1: Reason.DEAD_LETTER_TOPIC,
        2: Reason.NULL_TOPIC,
    }
    error = refusal(Reason.DEAD_LETTER_TOPIC, "dead")
    assert error_from(RuntimeError(as_text(error))).verdict is error.verdict
    assert error.verdict.action is Action.REJECT
