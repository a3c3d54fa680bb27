"""What the driver's side finds in the text that Spark makes of an error."""

from __future__ import annotations

import pytest

from kafkaguard import errors as e
from kafkaguard._delivery.dead_letters import Reason
from kafkaguard._errors.base import Action
from kafkaguard.cli.lookup import find_error
from kafkaguard.spark import error_from
from kafkaguard_adapters.spark.marker import as_text, task_failed
from kafkaguard_adapters.spark.verdicts import record_error

JAVA = "org.apache.kafka.common.errors."


def test_error_survives_being_text_in_the_middle_of_a_traceback():
    """Class, code, place and message are there again."""
    error = e.InvalidRecordKeyError("why", topic="t", partition=3, api="Produce")
    text = f"Job aborted. Traceback:\n  {task_failed(error)}\n SQLSTATE: 38000"
    again = error_from(RuntimeError(text))
    assert isinstance(again, e.InvalidRecordKeyError)
    assert (again.code, again.topic, again.partition) == (87, "t", 3)
    assert again.summary == "why"
    assert again.verdict.action is Action.REJECT


def test_verdict_of_a_topic_that_is_missing_and_notes_survive():
    """What was looked for is not called retriable on the driver again."""
    error = record_error(Reason.UNKNOWN_TOPIC, "t")
    error.add_note("0 records")
    again = error_from(RuntimeError(as_text(error)))
    assert again.verdict is error.verdict
    assert again.verdict.action is Action.REJECT
    assert again.__notes__ == ["0 records"]


def test_code_that_nobody_knows_keeps_its_number():
    """The class is the nearest one that has a name."""
    error = e.for_code(9999)("new", topic="t")
    again = error_from(RuntimeError(as_text(error)))
    assert again.code == 9999


@pytest.mark.parametrize("attribute", ["__cause__", "_cause"])
def test_causes_are_followed_also_sparks_private_ones(attribute):
    """The telling error moves between cause and cause's cause."""
    inner = RuntimeError(as_text(e.MessageTooLargeError("large", topic="t")))
    outer = RuntimeError("stream failed")
    middle = ValueError("in between")
    setattr(middle, attribute, inner)
    setattr(outer, attribute, middle)
    assert isinstance(error_from(outer), e.MessageTooLargeError)


def test_our_own_error_is_found_as_it_is():
    """error_from() returns a kafkaguard error in the chain unchanged."""
    error = e.InvalidTopicError("no")
    outer = RuntimeError("failed")
    outer.__cause__ = error
    assert error_from(outer) is error


@pytest.mark.parametrize("root", ["", "kafkashaded.", "shadedkafka."])
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("InvalidRecordException", e.InvalidRecordError),
        ("CorruptRecordException", e.CorruptMessageError),
        ("RecordTooLargeException", e.MessageTooLargeError),
        ("TimeoutException", e.ClientTimeoutError),
        ("TopicAuthorizationException", e.TopicAuthorizationFailedError),
    ],
)
def test_javas_class_is_known_by_the_end_of_its_name(root, name, expected):
    """Also where a platform has put Kafka's client under a name of its own."""
    text = f"Job aborted due to stage failure: {root}{JAVA}{name}: whatever"
    assert isinstance(error_from(RuntimeError(text)), expected)


def test_mates_text_is_explained_as_what_it_is():
    """A task without a bad row fails with this text; the record may be sent again."""
    text = (
        "org.apache.kafka.common.KafkaException: Failed to append record because it "
        "was part of a batch which had one more more invalid records"
    )
    error = error_from(RuntimeError(text))
    assert isinstance(error, e.BatchMateRefusedError)
    assert error.code == 87


@pytest.mark.parametrize(
    ("name", "action", "written"),
    [
        ("UnknownTopicOrPartitionException", Action.CONFIGURE, "no"),
        ("TimeoutException", Action.RETRY, "no"),
    ],
)
def test_a_failed_read_of_sparks_own_source_is_no_write(name, action, written):
    """Nothing was sent, so nothing can be in doubt."""
    text = (
        "An error occurred while calling o1.count.\n: java.util.concurrent.Execution"
        "Exception\n\tat org.apache.spark.sql.kafka010.SubscribeStrategy.assigned(x)\n"
        f"Caused by: {JAVA}{name}: whatever"
    )
    error = error_from(RuntimeError(text))
    assert error.api == "Fetch"
    assert (action, written) == (error.verdict.action, error.verdict.written)


NOT_SENT = "TimeoutException: Topic gone not present in metadata after 60000 ms."
NO_PARTITION = (
    "TimeoutException: Partition 99 of topic t with partition count 3 is not present in "
    "metadata after 60000 ms."
)
NO_ROOM = (
    "org.apache.kafka.clients.producer.BufferExhaustedException: Failed to allocate 16384 "
    "bytes within the configured max blocking time 60000 ms. Total memory: 1 bytes."
)
CONFIG = (
    "org.apache.kafka.common.config.ConfigException: Invalid value hunter2 for "
    "configuration acks: String must be one of: all, -1, 0, 1"
)
LOST = (
    "[KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE] Some data may have been lost because "
    "they are not available in Kafka any more"
)
MISSED = (
    "java.lang.IllegalStateException: Partition t-0's offset was changed from 500 to 3, "
    "some data may have been missed."
)


@pytest.mark.parametrize(
    ("text", "expected", "action", "written"),
    [
        (JAVA + NOT_SENT, e.ClientMetadataError, Action.REFRESH, "no"),
        (JAVA + NO_PARTITION, e.UnknownTopicOrPartitionError, Action.REJECT, "no"),
        (NO_ROOM, e.ClientQueueFullError, Action.WAIT, "no"),
        (
            f"{JAVA}DisconnectException",
            e.ClientConnectionError,
            Action.IN_DOUBT,
            "maybe",
        ),
        (CONFIG, e.ClientConfigurationError, Action.CONFIGURE, "no"),
        (LOST, e.OffsetOutOfRangeError, Action.REJECT, "no"),
        (MISSED, e.OffsetOutOfRangeError, Action.REJECT, "no"),
    ],
)
def test_texts_of_java_say_more_than_their_class(text, expected, action, written):
    """What waits for metadata has sent nothing, and is no delivery in doubt."""
    error = error_from(RuntimeError(f"Job aborted: {text}\n\tat java.lang.Thread"))
    assert isinstance(error, expected)
    assert (error.verdict.action, error.verdict.written) == (action, written)
    assert "hunter2" not in str(error)
    found = find_error(text)
    assert found.error_class is expected


def test_place_that_a_text_of_java_names_is_kept():
    """Topic and partition, and the setting that Java refuses."""
    error = error_from(RuntimeError(JAVA + NO_PARTITION))
    assert (error.topic, error.partition) == ("t", 99)
    assert error_from(RuntimeError(JAVA + NOT_SENT)).topic == "gone"
    assert "acks" in error_from(RuntimeError(CONFIG)).summary


@pytest.mark.parametrize("exception", [None, RuntimeError("disk full")])
def test_what_is_not_kafkas_is_not_called_so(exception):
    """None says that Kafka is not the cause."""
    assert error_from(exception) is None


def test_loop_of_causes_ends():
    """An exception that causes itself is followed a few times only."""
    error = RuntimeError("a")
    error.__cause__ = error
    assert error_from(error) is None
