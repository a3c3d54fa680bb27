"""Facts about the topics that a task writes to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaguard import _errors as e
from kafkaguard._common.logs import Log
from kafkaguard._common.topic_names import can_be_a_topic
from kafkaguard_adapters.spark.executor.size_limits import SizeLimit
from kafkaguard_adapters.spark.topics import (
    ANSWER_TIMEOUT_S,
    apply_declared,
    cache_for,
    explain_letters,
)

if TYPE_CHECKING:
    from kafkaguard._verdicts.context import TopicFacts
    from kafkaguard_adapters.spark.settings import SinkSettings
    from kafkaguard_adapters.spark.topics import SinkTopic

#: Seconds of a look-up whose answer is not needed.
_GLANCE_S = 3.0
_log = Log("spark")
#: librdkafka's own default of ``message.max.bytes``.
_DEFAULT_BYTES = 1_000_000
#: Larger batches need more processor time, because their memory is not reused.
_BATCH_BYTES = 256 * 1024


class KnownTopics:
    """Facts by topic: from the driver, or looked up when a column names the topic.

    Args:
        settings: The settings of the write.
        topics: The facts that the driver has looked up.
    """

    def __init__(self, settings: SinkSettings, topics: dict[str, SinkTopic]) -> None:
        self._settings = settings
        self._topics = dict(topics)
        self._is_renewed = False
        self._looked_again: set[str] = set()
        self._missing: set[str] = set()

    def takes_dead_letters(self, topic: str) -> bool:
        """Return whether a topic is the dead-letter topic."""
        return topic == self._settings.dead_letter_topic

    def exists(self, topic: str) -> bool:
        """Return whether a topic exists; a missing topic is looked up only once."""
        if topic in self._missing or not can_be_a_topic(topic):
            return False
        try:
            self._find(topic)
        except (e.UnknownTopicOrPartitionError, e.InvalidTopicError):
            self._missing.add(topic)
        return topic not in self._missing

    def find_deletion(self, topic: str) -> e.KafkaGuardError | None:
        """Return the error of a topic that was deleted since it was looked up.

        None if it exists, or if no broker says so.
        """
        try:
            cache_for(self._settings.client).find([topic], timeout=_GLANCE_S)
        except e.UnknownTopicOrPartitionError as error:
            return explain_letters(error) if self.takes_dead_letters(topic) else error
        except e.KafkaGuardError as error:
            _log.debug(
                "topic_not_looked_up",
                "topic %s could not be looked up again: %s",
                topic,
                error,
                topic=topic,
                error=error,
            )
        return None

    def partitions(self, topic: str) -> int:
        """Return the number of a topic's partitions."""
        return self._find(topic).partitions

    def compacted(self, topic: str) -> bool | None:
        """Return whether a topic is compacted; None if unknown."""
        return self._find(topic).compacted

    def refuses_null_keys(self, topic: str) -> bool:
        """Return whether a record without a key is refused before it is sent."""
        return self._settings.refuses_null_keys and bool(self.compacted(topic))

    def facts(self, topic: str) -> TopicFacts | None:
        """Return the known facts about a topic that verdicts use, without a look-up."""
        facts = self._topics.get(topic)
        return None if facts is None else facts.facts

    def look_again(self, topic: str) -> None:
        """Look a topic up again, once: an answer of a broker contradicts its facts.

        What the caller declares counts only if the cluster does not show it.

        Raises:
            KafkaGuardError: The topic does not exist, or no broker answers.
        """
        if topic not in self._looked_again:
            self._looked_again.add(topic)
            self._topics.pop(topic, None)
            facts, declared = self._find(topic), self._settings.compacted
            if topic == self._settings.topic and facts.compacted is None:
                self._topics[topic] = apply_declared(facts, declared)

    def renew(self) -> bool:
        """Look up the topic of a stream again, once, before a record is refused.

        The cached facts of a stream may be old.

        Returns:
            Whether the topic was looked up again.
        """
        topic = self._settings.topic
        if self._settings.patience_s is None or topic is None or self._is_renewed:
            return False
        self._is_renewed = True
        self._topics.pop(topic, None)
        self._topics[topic] = apply_declared(
            self._find(topic), self._settings.compacted
        )
        return True

    def limits(self, topic: str) -> list[SizeLimit]:
        """Return the known limits of a record's size."""
        most = self._settings.max_record_bytes
        settings = [
            (self._find(topic).max_message_bytes, "max.message.bytes of the topic"),
            (self._settings.client.get("message.max.bytes"), "kafka.max.request.size"),
        ]
        limits = [SizeLimit(int(n), name) for n, name in settings if n is not None]
        if most is not None and not self.takes_dead_letters(topic):
            limits.append(SizeLimit(most, "max_record_bytes", "record"))
        return limits

    def max_message_bytes(self, topic: str) -> int | None:
        """Return the largest batch that a topic accepts in bytes; None if unknown."""
        return self._find(topic).max_message_bytes

    def producer_config(self) -> dict[str, str]:
        """Return producer settings.

        Batches are small enough for each topic, and the largest record is the largest
        that any topic accepts.
        """
        client = self._settings.client
        sizes = [each.max_message_bytes for each in self._topics.values()]
        limits = [size for size in sizes if size is not None]
        batch = int(client.get("batch.size", _BATCH_BYTES))
        largest = {"message.max.bytes": str(max([*limits, _DEFAULT_BYTES]))}
        return {**largest, **client, "batch.size": str(min([*limits, batch]))}

    def _find(self, topic: str) -> SinkTopic:
        if topic not in self._topics:
            timeout = self._settings.patience_s or ANSWER_TIMEOUT_S
            cache = cache_for(self._settings.client)
            self._topics |= cache.find([topic], timeout=timeout)
        return self._topics[topic]
