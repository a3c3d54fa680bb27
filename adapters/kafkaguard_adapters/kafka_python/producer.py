"""Guard an ``kafka.KafkaProducer``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka import __version__

from kafkaguard_adapters.inside_names import check_known
from kafkaguard_adapters.kafka_python._private import names
from kafkaguard_adapters.kafka_python.errors import errors

if TYPE_CHECKING:
    from kafkaguard_adapters.building import Wish


def wrap(producer: Any, wish: Wish) -> Any:
    """Guard a producer, as :func:`kafkaguard.guard` says.

    Raises:
        ClientConfigurationError: This version of the client has other private names.
    """
    check_known(errors, __version__, "3.0.x", names.missing(producer))
    # This module cannot be imported if private names are missing.
    from kafkaguard_adapters.kafka_python.guarded_producer import GuardedProducer

    return GuardedProducer(producer, wish)
