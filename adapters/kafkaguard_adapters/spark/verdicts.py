"""Errors of refused records, with verdicts that only the Spark sink can decide.

UNKNOWN_TOPIC_OR_PARTITION is retriable in general, because a broker may not know a new
topic yet. Here the cluster was asked with a wait, so another try gets the same answer.
INVALID_RECORD can be about another record of the batch; here it is known which record
is to blame. MESSAGE_TOO_LARGE is about a record; for a dead letter it is about the
dead-letter topic.
"""

from __future__ import annotations

from typing import NamedTuple

from kafkaguard import _errors as e
from kafkaguard._common.topic_names import shortened
from kafkaguard._delivery.dead_letters import NO_ROOM, Reason
from kafkaguard._errors.base import Action, RuleInfo, Verdict
from kafkaguard_adapters.confluent.errors import errors


class _Refused(NamedTuple):
    """A kind of refused records.

    Attributes:
        error: The class of the error.
        said: What is wrong with the record, and what to do.
        verdict: None: the one that the class has everywhere.
    """

    error: type[e.KafkaGuardError]
    said: str
    verdict: Verdict | None = None


def _refused(
    error: type[e.KafkaGuardError], said: str, name: str, *rule: str
) -> _Refused:
    """Make a kind with a verdict of its own: the rule's sentence, source, scenario."""
    info = RuleInfo(f"spark-{name}", *rule)
    return _Refused(error, said, Verdict(Action.REJECT, False, "no", error, info))


_NAME_ONE = "name a dead-letter topic for such records"
_UNKNOWN = "Kafka's UnknownTopicOrPartitionException; librdkafka's CONFIGURATION.md"
_REFUSED = {
    Reason.NULL_KEY: _Refused(
        e.InvalidRecordKeyError,
        "a record for a compacted topic has no key",
    ),
    Reason.TOO_LARGE: _Refused(
        e.MessageTooLargeError,
        f"a record is too large for its topic; {_NAME_ONE}",
    ),
    Reason.NULL_TOPIC: _Refused(
        e.InvalidTopicError,
        f"a record names no topic; fill the column topic or {_NAME_ONE}",
    ),
    Reason.DEAD_LETTER_TOPIC: _refused(
        e.InvalidTopicError,
        "a record names the dead-letter topic; name another topic",
        "dead-letter-topic-of-a-record",
        "correct the column topic, or choose another dead-letter topic",
        "Kafka Connect's errors.deadletterqueue.topic.name",
        "The column topic names the dead-letter topic.",
    ),
    Reason.UNKNOWN_TOPIC: _refused(
        e.UnknownTopicOrPartitionError,
        "a record names a topic that does not exist",
        "no-such-topic-of-a-record",
        "create the topic, correct the column topic, or dead-letter such records",
        _UNKNOWN,
        "The column topic names a topic that the cluster does not have.",
    ),
    Reason.UNKNOWN_PARTITION: _refused(
        e.UnknownTopicOrPartitionError,
        "a record names a partition that its topic does not have",
        "no-such-partition-of-a-record",
        "correct the column partition, or dead-letter such records",
        _UNKNOWN,
        "The column partition has a number that the topic does not have.",
    ),
    Reason.NAMELESS_HEADER: _refused(
        e.InvalidRecordError,
        "a record has a header without a name",
        "nameless-header",
        "give each header a name, or dead-letter such records",
        "Kafka's record format, version 2: only the value of a header may be null",
        "The column headers has a null in its array, or a header without a key.",
    ),
    Reason.NUL_IN_HEADER: _refused(
        e.InvalidRecordError,
        "a header's name has a NUL, where it would be cut",
        "nul-in-header",
        "give the header a name without NUL, or dead-letter such records",
        "librdkafka's rd_kafka_header_add, which takes names that end with a NUL",
        "The column headers has a key with a NUL character.",
    ),
    Reason.INVALID_TIMESTAMP: _refused(
        e.InvalidTimestampError,
        "a record's timestamp is 1970-01-01 00:00:00 UTC or the millisecond before it, "
        "and the client would write the time of sending, or none",
        "unwritable-timestamp",
        "make the column timestamp null or another time, or dead-letter such records",
        "librdkafka's rd_kafka_producev: 0 is the time of sending; Kafka's record "
        "format: -1 is no timestamp",
        "The column timestamp has the start of 1970, which parsers make of 0.",
    ),
    Reason.MALFORMED: _refused(
        e.InvalidRecordError,
        "a line of the source does not fit the declared columns, or (CSV) it ends "
        "inside quotes, and its value may go on in the next line: multiLine",
        "malformed",
        "correct the file or its columns, or keep such lines as dead letters: "
        "source.on_malformed",
        "Spark's PermissiveMode and columnNameOfCorruptRecord",
        "A line of a pipeline's source does not fit the declared columns.",
    ),
    Reason.KEY_MADE_NULL: _refused(
        e.InvalidRecordKeyError,
        "a cast in select.key made a value null",
        "key-made-null",
        "correct the data or select.key, or dead-letter such records",
        "Spark's try_cast, and cast without ANSI mode",
        "A pipeline's key is a cast that turned a value into null.",
    ),
    Reason.SUPERSEDED: _Refused(
        e.BatchMateRefusedError,
        f"a record failed after a later record of its key was accepted; {_NAME_ONE}",
    ),
}
#: A write that names such a topic for all its records.
NO_TOPIC = Verdict(
    Action.CONFIGURE,
    False,
    "no",
    e.UnknownTopicOrPartitionError,
    RuleInfo(
        "spark-no-such-topic",
        "create the topic, or correct its name; nothing was sent",
        _UNKNOWN,
        "A write names a topic that the cluster does not have.",
    ),
)
NO_PARTITION_OF_A_RECORD = _REFUSED[Reason.UNKNOWN_PARTITION].verdict
MALFORMED = _REFUSED[Reason.MALFORMED].verdict
#: Verdicts by the name of the rule, to decode them on the driver.
BY_RULE = {
    verdict.rule.id: verdict
    for verdict in (NO_TOPIC, NO_ROOM, *(each.verdict for each in _REFUSED.values()))
    if verdict is not None
}


def record_error(
    reason: Reason, topic: str | None, said: str | None = None
) -> e.KafkaGuardError:
    """Return the error for a record that can never be accepted.

    Args:
        reason: The reason of the refusal.
        topic: The record's topic.
        said: A text about this record. Default: the text for the reason.
    """
    refused = _REFUSED[reason]
    return errors.make(
        refused.error,
        f"{reason}: {said or refused.said}",
        topic=shortened(topic),
        api="Produce",
        verdict=refused.verdict,
    )
