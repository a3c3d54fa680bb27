"""One login of the guard's own, after a client could not connect.

kafka-python and aiokafka log a refused login and raise a timeout or a lost connection.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kafkaguard.errors import (
    AuthenticationError,
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

#: Seconds for the login.
_TIMEOUT_S = 5.0


async def refused_login(
    error: KafkaGuardError, settings: Callable[[], Settings], make: Make
) -> KafkaGuardError:
    """Return why a client could not connect: the refused login, or the error itself.

    Args:
        error: The client's error, translated.
        settings: Returns the connection settings.
        make: Makes the errors.

    Returns:
        The refusal, also of the class that the client has raised; the error, if it is
        not about the connection or the login succeeds.
    """
    if not isinstance(error, (ClientConnectionError, ClientTimeoutError)):
        return error
    original = error.__cause__
    assert original is not None
    try:
        cluster = Cluster(settings(), make)
        try:
            await cluster.refresh(asyncio.get_running_loop().time() + _TIMEOUT_S)
        finally:
            cluster.close()
    except AuthenticationError as refusal:
        return recast(refusal, type(original))
    except KafkaGuardError:
        pass  # the client's own error says as much
    return error
