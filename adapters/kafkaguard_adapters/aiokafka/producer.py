"""Guard an ``AIOKafkaProducer`` fully, or by its public interface only."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from aiokafka import __version__
from kafkaguard_adapters.aiokafka._private.producing import names
from kafkaguard_adapters.aiokafka.errors import errors
from kafkaguard_adapters.aiokafka.public_producer import PublicProducer
from kafkaguard_adapters.producing.policies import check_checks_only

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkaguard._retries.events import Event
    from kafkaguard._verdicts.verdict import TopicFacts
    from kafkaguard_policies import RetryPolicy

_log = logging.getLogger("kafkaguard.producer")


def wrap(
    producer: Any,
    *,
    factory: Callable[..., Any] | None = None,
    config: Mapping[str, Any] | None = None,
    policy: RetryPolicy,
    topics: Mapping[str, TopicFacts] | None = None,
    on_event: Callable[[Event], object] | None = None,
    **_: Any,
) -> Any:
    """Guard a producer, as :func:`kafkaguard.guard` says."""
    missing = names.missing(producer)
    if missing:
        check_checks_only(policy, errors, f"aiokafka {__version__} has changed")
        _log.warning(
            "guard(): this kafkaguard does not know aiokafka %s (other "
            "private attributes: %s). Null keys are refused and errors have a "
            "verdict, but records are not sent again, a dead producer is not "
            "replaced, and flush() returns no report. Use aiokafka 0.14, or a newer "
            "kafkaguard",
            __version__,
            ", ".join(missing),
        )
        return PublicProducer(producer, policy, topics, config)
    from kafkaguard_adapters.aiokafka import guarded_producer

    return guarded_producer.wrap(
        producer,
        factory=factory,
        config=config,
        policy=policy,
        topics=topics,
        on_event=on_event,
    )
