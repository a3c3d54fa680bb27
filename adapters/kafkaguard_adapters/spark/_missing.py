"""Topics and partitions that were looked for and are not there.

Kafka's own word for them, UNKNOWN_TOPIC_OR_PARTITION, is also what a broker says that
does not know of a topic yet, so it is called retriable. Here the cluster was asked, and
waited for: who asks again gets the same answer.
"""

from __future__ import annotations

from kafkaguard._verdict import Action, RuleInfo, Verdict
from kafkaguard.errors import UnknownTopicOrPartitionError

_SOURCE = "Kafka's UnknownTopicOrPartitionException; librdkafka's CONFIGURATION.md"


def _verdict(action: Action, name: str, sentence: str, scenario: str) -> Verdict:
    rule = RuleInfo(name, sentence, _SOURCE, scenario)
    return Verdict(action, False, "no", UnknownTopicOrPartitionError, rule)


NO_TOPIC = _verdict(
    Action.CONFIGURE,
    "spark-no-such-topic",
    "create the topic, or mend its name; nothing was sent",
    "A write was told to go into a topic that the cluster does not have.",
)
NO_TOPIC_OF_A_RECORD = _verdict(
    Action.REJECT,
    "spark-no-such-topic-of-a-record",
    "create the topic, or mend the column topic, or dead-letter such records",
    "The column topic names one that the cluster does not have.",
)
NO_PARTITION_OF_A_RECORD = _verdict(
    Action.REJECT,
    "spark-no-such-partition-of-a-record",
    "mend the column partition, or dead-letter such records",
    "The column partition names one that the topic does not have.",
)
#: By the name of the rule, for the way from an executor to the driver.
BY_RULE = {
    verdict.rule.id: verdict
    for verdict in (NO_TOPIC, NO_TOPIC_OF_A_RECORD, NO_PARTITION_OF_A_RECORD)
}
