"""Why a client cannot connect, found out by a connection of the guard's own.

kafka-python and aiokafka log a refused login or a port with another security protocol,
and raise a timeout or a lost connection. confluent-kafka tries on, and says only that
all brokers are down.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kafkaguard.errors import (
    AuthenticationError,
    ClientConfigurationError,
    ClientConnectionError,
    ClientTimeoutError,
    KafkaGuardError,
)
from kafkaguard_adapters.client_errors import recast
from kafkaguard_adapters.wire.cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaguard._cluster.reports import Make
    from kafkaguard_adapters.wire.settings import Settings

#: Seconds for the connection and the login.
_TIMEOUT_S = 5.0


async def wrong_setting(
    settings: Callable[[], Settings], make: Make
) -> KafkaGuardError | None:
    """Connect and log in, and return the error if a setting keeps the client out.

    Args:
        settings: Returns the connection settings.
        make: Makes the errors.

    Returns:
        A refused login, or a port that is no Kafka broker's or has another security
        protocol. None: the connection succeeds, or fails for a reason that may pass.
    """
    try:
        cluster = Cluster(settings(), make)
    except KafkaGuardError:
        return None  # the guard cannot read the settings
    try:
        await cluster.refresh(asyncio.get_running_loop().time() + _TIMEOUT_S)
    except (AuthenticationError, ClientConfigurationError) as error:
        return error
    except KafkaGuardError:
        pass
    finally:
        cluster.close()
    return None


async def explained(
    error: KafkaGuardError, settings: Callable[[], Settings], make: Make
) -> KafkaGuardError:
    """Return why a client could not connect: the wrong setting, or the error itself.

    Args:
        error: The client's error, translated.
        settings: Returns the connection settings.
        make: Makes the errors.

    Returns:
        The error of :func:`wrong_setting`, also of the class that the client has
        raised. If there is none, or ``error`` is not about the connection: ``error``.
    """
    if not isinstance(error, (ClientConnectionError, ClientTimeoutError)):
        return error
    original = error.__cause__
    assert original is not None
    found = await wrong_setting(settings, make)
    return error if found is None else recast(found, type(original))
