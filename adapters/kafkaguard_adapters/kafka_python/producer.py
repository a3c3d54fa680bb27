"""Guard a ``kafka.KafkaProducer`` fully, or with its public interface only."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from kafka import __version__

from kafkaguard_adapters.kafka_python._private import names
from kafkaguard_adapters.kafka_python.errors import errors
from kafkaguard_adapters.kafka_python.public_producer import PublicProducer
from kafkaguard_adapters.producing.policies import check_checks_only
from kafkaguard_policies import load_policy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkaguard._retries.events import Event
    from kafkaguard._verdicts.verdict import TopicFacts

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
) -> Any:
    """Guard a producer, as :func:`kafkaguard.guard` says."""
    settings = load_policy(policy)
    missing = names.missing(producer)
    if missing:
        check_checks_only(
            settings,
            errors,
            f"this kafkaguard does not know kafka-python {__version__}",
        )
        _log.warning(
            "guard(): this kafkaguard does not know kafka-python %s (other "
            "private attributes: %s). Null keys are refused and errors of send() "
            "have a verdict, but records are not sent again, a dead producer is not "
            "replaced, and flush() returns no report. Use kafka-python 3.0.x, or a "
            "newer kafkaguard",
            __version__,
            ", ".join(missing),
        )
        return PublicProducer(producer, settings, topics)
    from kafkaguard_adapters.kafka_python import guarded_producer

    return guarded_producer.wrap(
        producer,
        factory=factory,
        config=config,
        policy=settings,
        topics=topics,
        on_event=on_event,
    )
