"""Verdicts that only the Spark sink can decide.

UNKNOWN_TOPIC_OR_PARTITION is retriable in general, because a broker may not know a new
topic yet. Here the cluster was asked with a wait, so another try gets the same answer.
INVALID_RECORD can be about another record of the batch; here it is known which record
is to blame. MESSAGE_TOO_LARGE is about a record; for a dead letter it is about the
dead-letter topic.
"""

from __future__ import annotations

from kafkaguard._delivery.dead_letters import NO_ROOM
from kafkaguard._verdicts.verdict import Action, RuleInfo, Verdict
from kafkaguard.errors import (
    InvalidRecordError,
    InvalidRecordKeyError,
    InvalidTopicError,
    UnknownTopicOrPartitionError,
)

_SOURCE = "Kafka's UnknownTopicOrPartitionException; librdkafka's CONFIGURATION.md"


def _missing(action: Action, name: str, sentence: str, scenario: str) -> Verdict:
    rule = RuleInfo(name, sentence, _SOURCE, scenario)
    return Verdict(action, False, "no", UnknownTopicOrPartitionError, rule)


NO_TOPIC = _missing(
    Action.CONFIGURE,
    "spark-no-such-topic",
    "create the topic, or correct its name; nothing was sent",
    "A write names a topic that the cluster does not have.",
)
NO_TOPIC_OF_A_RECORD = _missing(
    Action.REJECT,
    "spark-no-such-topic-of-a-record",
    "create the topic, correct the column topic, or dead-letter such records",
    "The column topic names a topic that the cluster does not have.",
)
DEAD_LETTER_TOPIC_OF_A_RECORD = Verdict(
    Action.REJECT,
    False,
    "no",
    InvalidTopicError,
    RuleInfo(
        "spark-dead-letter-topic-of-a-record",
        "correct the column topic, or choose another dead-letter topic",
        "Kafka Connect's errors.deadletterqueue.topic.name",
        "The column topic names the dead-letter topic.",
    ),
)
NO_PARTITION_OF_A_RECORD = _missing(
    Action.REJECT,
    "spark-no-such-partition-of-a-record",
    "correct the column partition, or dead-letter such records",
    "The column partition has a number that the topic does not have.",
)
NAMELESS_HEADER = Verdict(
    Action.REJECT,
    False,
    "no",
    InvalidRecordError,
    RuleInfo(
        "spark-nameless-header",
        "give each header a name, or dead-letter such records",
        "Kafka's record format, version 2: only the value of a header may be null",
        "The column headers has a null in its array, or a header without a key.",
    ),
)
NUL_IN_HEADER = Verdict(
    Action.REJECT,
    False,
    "no",
    InvalidRecordError,
    RuleInfo(
        "spark-nul-in-header",
        "give the header a name without NUL, or dead-letter such records",
        "librdkafka's rd_kafka_header_add, which takes names that end with a NUL",
        "The column headers has a key with a NUL character.",
    ),
)
MALFORMED = Verdict(
    Action.REJECT,
    False,
    "no",
    InvalidRecordError,
    RuleInfo(
        "spark-malformed",
        "correct the file or its columns, or keep such lines as dead letters: "
        "source.on_malformed",
        "Spark's PermissiveMode and columnNameOfCorruptRecord",
        "A line of a pipeline's source does not fit the declared columns.",
    ),
)
KEY_MADE_NULL = Verdict(
    Action.REJECT,
    False,
    "no",
    InvalidRecordKeyError,
    RuleInfo(
        "spark-key-made-null",
        "correct the data or select.key, or dead-letter such records",
        "Spark's try_cast, and cast without ANSI mode",
        "A pipeline's key is a cast that turned a value into null.",
    ),
)
#: Verdicts by the name of the rule, to decode them on the driver.
BY_RULE = {
    verdict.rule.id: verdict
    for verdict in (
        NO_TOPIC,
        NO_TOPIC_OF_A_RECORD,
        DEAD_LETTER_TOPIC_OF_A_RECORD,
        NO_PARTITION_OF_A_RECORD,
        NAMELESS_HEADER,
        NUL_IN_HEADER,
        MALFORMED,
        KEY_MADE_NULL,
        NO_ROOM,
    )
}
