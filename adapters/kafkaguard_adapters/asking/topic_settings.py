"""Settings of topics: one look-up for all uses, for many topics at once.

A look-up may fail without harm: settings that are not available count as not known.
"""

from __future__ import annotations

import asyncio
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

from kafka.protocol.admin import DescribeConfigsRequest

from kafkaguard._cluster.topic_settings import NAMES, TopicSettings, read
from kafkaguard._errors import KafkaGuardError, UnknownTopicOrPartitionError
from kafkaguard._verdicts.classification import classify
from kafkaguard._verdicts.topic_facts import TopicFactsCache
from kafkaguard_adapters.asking.topic_facts import NOTHING_KNOWN
from kafkaguard_adapters.wire.cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import Collection

    from kafkaguard._cluster.reports import Make
    from kafkaguard._delivery.facts import SizeAnswer
    from kafkaguard._verdicts.context import TopicFacts
    from kafkaguard_adapters.wire.settings import Settings

_API: Final = "DescribeConfigs"
_TOPIC: Final = 2
_BROKER: Final = 4
_MAKES_TOPICS: Final = "auto.create.topics.enable"
_NO_TOPIC: Final = classify(
    UnknownTopicOrPartitionError(), api="Produce", phase="enqueue"
)
#: Seconds for one look-up.
_TIMEOUT_S: Final = 10.0


async def ask(
    cluster: Cluster, topics: Collection[str], deadline: float
) -> dict[str, TopicSettings | KafkaGuardError]:
    """Request the settings of topics, all in one request.

    Args:
        cluster: The cluster.
        topics: Names of topics.
        deadline: The deadline, in seconds on the event loop's clock.

    Returns:
        The settings of each topic, or the error with which the broker refused them.

    Raises:
        KafkaGuardError: No broker answers.
    """
    request = DescribeConfigsRequest(
        resources=[(_TOPIC, topic, list(NAMES)) for topic in topics]
    )
    answer = await cluster.ask(request, None, deadline)
    return {each.resource_name: _settings_of(each, cluster) for each in answer.results}


def _settings_of(result: Any, cluster: Cluster) -> TopicSettings | KafkaGuardError:
    code, topic = result.error_code, result.resource_name
    if code:
        return cluster.make(code, result.error_message, api=_API, topic=topic)
    return read({each.name: each.value for each in result.configs})


async def ask_once(settings: Settings, make: Make, topic: str) -> TopicSettings:
    """Request the settings of one topic, on a connection for this request only.

    Raises:
        KafkaGuardError: The broker refuses, or no broker answers within 10 s.
    """
    deadline = asyncio.get_running_loop().time() + _TIMEOUT_S
    with closing(Cluster(settings, make)) as cluster:
        result = (await ask(cluster, [topic], deadline))[topic]
    if isinstance(result, KafkaGuardError):
        raise result
    return result


async def creates_topics(cluster: Cluster, deadline: float) -> bool | None:
    """Return whether brokers create missing topics by themselves; None if unknown.

    Raises:
        KafkaGuardError: No broker answers.
    """
    await cluster.refresh(deadline)
    broker = next(iter(cluster.addresses))
    resource: Any = (_BROKER, str(broker), [_MAKES_TOPICS])
    answer = await cluster.ask(
        DescribeConfigsRequest(resources=[resource]), broker, deadline
    )
    values = [config.value for each in answer.results for config in each.configs]
    return "true" in values if values else None


async def size_limit(settings: Settings, make: Make, topic: str) -> SizeAnswer:
    """Request ``max.message.bytes`` of a topic.

    Returns:
        The bytes; an error, if the topic does not exist and a record for it does not
        create it; None, if that is unknown.

    Raises:
        KafkaGuardError: No broker answers within 10 s.
    """
    deadline = asyncio.get_running_loop().time() + _TIMEOUT_S
    with closing(Cluster(settings, make)) as cluster:
        result = (await ask(cluster, [topic], deadline))[topic]
        if isinstance(result, TopicSettings):
            return result.max_message_bytes
        if (
            isinstance(result, UnknownTopicOrPartitionError)
            and await creates_topics(cluster, deadline) is False
        ):
            return make(
                UnknownTopicOrPartitionError,
                "the topic does not exist",
                api="Produce",
                topic=topic,
                verdict=_NO_TOPIC,
            )
    return None


class FactsOfTopics:
    """Looks up facts about topics, many at once, and caches them for a limited time.

    Args:
        cache: Facts that are already known. Default: an empty cache.
    """

    def __init__(self, cache: TopicFactsCache | None = None) -> None:
        self._cache = cache or TopicFactsCache()

    async def get(
        self, cluster: Cluster, topics: Collection[str], deadline: float
    ) -> dict[str, TopicFacts]:
        """Return facts about topics; one request asks for all that are not cached."""
        uncached = [topic for topic in topics if self._cache.get(topic) is None]
        for topic, settings in (await _try_to_ask(cluster, uncached, deadline)).items():
            self._cache.remember(topic, settings.facts)
        return {topic: self._cache.get(topic) or NOTHING_KNOWN for topic in topics}


async def _try_to_ask(
    cluster: Cluster, topics: Collection[str], deadline: float
) -> dict[str, TopicSettings]:
    try:
        answers = await ask(cluster, topics, deadline) if topics else {}
    except KafkaGuardError:
        return {}
    return {t: s for t, s in answers.items() if isinstance(s, TopicSettings)}
