"""Guard an ``AIOKafkaProducer`` fully, or by its public interface only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiokafka import __version__
from kafkaguard_adapters.aiokafka._private.producing import names
from kafkaguard_adapters.aiokafka.errors import errors
from kafkaguard_adapters.aiokafka.public_producer import PublicProducer
from kafkaguard_adapters.inside_names import warn_changed
from kafkaguard_adapters.producing.policies import check_checks_only

if TYPE_CHECKING:
    from kafkaguard_adapters.building import Wish


def wrap(producer: Any, wish: Wish) -> Any:
    """Guard a producer, as :func:`kafkaguard.guard` says."""
    missing = names.missing(producer)
    if missing:
        why = f"this kafkaguard does not know aiokafka {__version__}"
        check_checks_only(wish.policy, errors, why)
        warn_changed("producer", "aiokafka", __version__, "0.14", missing)
        return PublicProducer(producer, wish)
    # This module cannot be imported if private names are missing.
    from kafkaguard_adapters.aiokafka.guarded_producer import GuardedProducer

    return GuardedProducer(producer, wish)
