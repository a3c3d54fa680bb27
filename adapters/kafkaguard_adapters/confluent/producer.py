"""Guard a ``confluent_kafka.Producer`` or ``SerializingProducer``."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from kafkaguard._verdicts.topic_facts import TopicFactsCache
from kafkaguard_adapters.confluent.errors import errors
from kafkaguard_adapters.confluent.guarded_producer import GuardedProducer
from kafkaguard_adapters.confluent.producer_settings import (
    Prepared,
    ProducerSettings,
    prepare,
)
from kafkaguard_adapters.confluent.view import settings_reader, view_of
from kafkaguard_adapters.producing.letter_topics import LetterTopics
from kafkaguard_adapters.producing.policies import check_transactional
from kafkaguard_policies import load_policy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkaguard._retries.events import Event
    from kafkaguard._verdicts.verdict import TopicFacts

__all__ = ["prepare", "wrap"]

_log = logging.getLogger("kafkaguard.producer")


def wrap(
    producer: Any,
    *,
    factory: Callable[..., Any] | None,
    config: Mapping[str, Any] | None,
    policy: Any,
    topics: Mapping[str, TopicFacts] | None,
    on_event: Callable[[Event], object] | None = None,
    **_: Any,
) -> GuardedProducer:
    """Guard a producer, as :func:`kafkaguard.guard` says."""
    loaded = load_policy(policy)
    settings = ProducerSettings(config)
    settings.check(producer, is_ours=isinstance(config, Prepared))
    if settings.transactional_id:
        check_transactional(loaded, errors)
    if config is None:
        _log.warning(
            "guard(): without config={...} the guard looks up no topic, so it refuses "
            "a record without a key only if topics={...} declares the topic "
            "compacted, does not know the topic's largest record, and assumes the "
            "default of delivery.timeout.ms. Give config={...} with the producer's "
            "settings, or use guard(factory=Producer, config={...}), which can also "
            "replace a dead producer"
        )
    build = None
    if factory is not None:
        given = dict(config or {})
        build = lambda: factory(given)  # noqa: E731 - as short as it is
    cache = TopicFactsCache(topics)
    view = view_of(producer, config, cache)
    letter_topics = LetterTopics(
        loaded, settings_reader(producer, config), errors.make, topics or ()
    )
    return GuardedProducer(
        producer, build, settings, view, loaded, cache, letter_topics, on_event
    )
