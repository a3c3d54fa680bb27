"""Guard an ``AIOKafkaProducer``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiokafka import __version__
from kafkaguard_adapters.aiokafka._private.producing import names
from kafkaguard_adapters.aiokafka.errors import errors
from kafkaguard_adapters.inside_names import check_known

if TYPE_CHECKING:
    from kafkaguard_adapters.building import Wish


def wrap(producer: Any, wish: Wish) -> Any:
    """Guard a producer, as :func:`kafkaguard.guard` says.

    Raises:
        ClientConfigurationError: This version of the client has other private names.
    """
    check_known(errors, __version__, "0.14", names.missing(producer))
    # This module cannot be imported if private names are missing.
    from kafkaguard_adapters.aiokafka.guarded_producer import GuardedProducer

    return GuardedProducer(producer, wish)
