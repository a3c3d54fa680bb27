"""Guard a ``confluent_kafka.Producer`` or ``SerializingProducer``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkaguard._common.logs import Log
from kafkaguard_adapters.confluent.errors import errors
from kafkaguard_adapters.confluent.guarded_producer import GuardedProducer
from kafkaguard_adapters.confluent.producer_settings import (
    Prepared,
    ProducerSettings,
    prepare,
)
from kafkaguard_adapters.producing.policies import check_transactional

if TYPE_CHECKING:
    from kafkaguard_adapters.building import Wish

__all__ = ["prepare", "wrap"]

_log = Log("producer")


def wrap(producer: Any, wish: Wish) -> GuardedProducer:
    """Guard a producer, as :func:`kafkaguard.guard` says."""
    settings = ProducerSettings(wish.config)
    settings.check(producer, is_ours=isinstance(wish.config, Prepared))
    if settings.transactional_id:
        check_transactional(wish.policy, errors)
    if wish.config is None:
        _log.warning(
            "producer_without_config",
            "guard(): without config={...} the guard looks up no topic, so it refuses "
            "a record without a key only if topics={...} declares the topic "
            "compacted, does not know the topic's largest record, and assumes the "
            "default of delivery.timeout.ms. Give config={...} with the producer's "
            "settings, or use guard(factory=Producer, config={...}), which can also "
            "replace a dead producer",
        )
    return GuardedProducer(producer, settings, wish)
