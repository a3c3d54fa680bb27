"""A guarded producer for kafka-python versions with unknown private attributes.

It uses the public interface only. It refuses a record without a key for a compacted
topic before anything is sent, and the client's errors get a verdict.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka.errors import KafkaError

from kafkaguard._verdicts.topic_facts import TopicFactsLookup
from kafkaguard_adapters.asking.cluster_calls import ClusterCalls
from kafkaguard_adapters.kafka_python.errors import errors
from kafkaguard_adapters.kafka_python.view import view_of
from kafkaguard_adapters.producing.null_keys import NullKeyCheck
from kafkaguard_adapters.stand_in import GuardedClient

if TYPE_CHECKING:
    from kafkaguard_adapters.building import Wish


class PublicProducer(ClusterCalls, GuardedClient):
    """A guarded KafkaProducer that uses the client's public interface only.

    Args:
        producer: The client's producer.
        wish: What ``guard()`` was told.
    """

    def __init__(self, producer: Any, wish: Wish) -> None:
        super().__init__(producer, view_of(producer, None, wish.cache))
        self._null_keys = NullKeyCheck(
            TopicFactsLookup(self.cluster_view.topic_facts, wish.cache),
            errors,
            wish.policy,
            transactional=bool(producer.config["transactional_id"]),
        )

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Any:
        """Send a record, as ``KafkaProducer.send`` does.

        Returns:
            The client's own future.

        Raises:
            InvalidRecordKeyError: The topic is compacted and the record has no key.
            KafkaGuardError: The client raised another error. The error also has the
                client's class.
        """
        serializer = self.client.config["key_serializer"]
        self._null_keys.check(topic, key, headers, serializer)
        try:
            return self.client.send(topic, value, key, headers, partition, timestamp_ms)
        except KafkaError as error:
            raise errors.translate(
                error,
                api="Produce",
                topic=topic,
                partition=partition,
                context={"phase": "enqueue"},
            ) from error
