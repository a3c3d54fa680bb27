"""The guard's own connections to a client's cluster, kept between calls.

They also find out why a client cannot connect. kafka-python and aiokafka log a refused
login or a port with another security protocol, and raise a timeout or a lost
connection. confluent-kafka tries on, and says only that all brokers are down.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kafkaguard._errors import (
    AuthenticationError,
    ClientClosedError,
    ClientConfigurationError,
    ClientConnectionError,
    ClientTimeoutError,
    KafkaGuardError,
    TokenProviderError,
)
from kafkaguard_adapters.asking.topic_settings import (
    FactsOfTopics,
    ask_once,
    size_limit,
)
from kafkaguard_adapters.client_errors import recast
from kafkaguard_adapters.wire.cluster import Cluster
from kafkaguard_adapters.wire.sasl import fetch_token

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaguard._cluster.reports import Make, TopicPartition
    from kafkaguard._delivery.facts import SizeAnswer
    from kafkaguard._verdicts.context import TopicFacts
    from kafkaguard._verdicts.topic_facts import TopicFactsCache
    from kafkaguard_adapters.wire.settings import Settings


#: Seconds to wait for ``max.message.bytes`` of a topic.
TIME_LIMIT_S = 3.0


class ClusterView:
    """Sends requests to a cluster over its own connections, which it keeps open.

    Args:
        settings: Returns the connection settings; called at the first request.
        make: Makes the errors.
        cache: Cached facts about topics. Default: an empty cache.
    """

    def __init__(
        self,
        settings: Callable[[], Settings],
        make: Make,
        cache: TopicFactsCache | None = None,
    ) -> None:
        self.settings = settings
        self.make = make
        self.facts = FactsOfTopics(cache)
        #: Errors of partitions whose consumers wait for remote storage.
        self.read_errors: dict[TopicPartition, KafkaGuardError] = {}
        self._cluster: Cluster | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closed = False

    def cluster(self) -> Cluster:
        """Return the cluster, with connections of the running event loop.

        Raises:
            ClientClosedError: The client was closed.
        """
        if self._is_closed:
            raise self.closed("it can send no more requests")
        loop = asyncio.get_running_loop()
        if self._cluster is None or self._loop is not loop:
            self._cluster = Cluster(self.settings(), self.make)
            self._loop = loop
        return self._cluster

    async def topic_facts(self, topic: str) -> TopicFacts:
        """Request the facts about a topic.

        Raises:
            KafkaGuardError: The broker refuses, or no broker answers within 10 s.
        """
        return (await ask_once(self.settings(), self.make, topic)).facts

    async def size_limit(self, topic: str) -> SizeAnswer:
        """Request ``max.message.bytes`` of a topic; None if it is unknown after 3 s.

        The error is returned if the topic does not exist, and is not created by itself.
        """
        try:
            async with asyncio.timeout(TIME_LIMIT_S):
                return await size_limit(self.settings(), self.make, topic)
        except Exception:  # noqa: BLE001 - the error's text does without it
            return None

    async def find_wrong_setting(self) -> KafkaGuardError | None:
        """Connect, and return the error if a setting keeps the client out; else None.

        The setting may be the login, the security protocol or the port.
        """
        return await find_wrong_setting(self.settings, self.make)

    @property
    def is_closed(self) -> bool:
        """Whether the client was closed."""
        return self._is_closed

    def closed(self, consequence: str) -> KafkaGuardError:
        """Make the error for a call on a client that was closed."""
        return self.make(ClientClosedError, f"the client was closed: {consequence}")

    async def close(self) -> None:
        """Close the connections. All later calls raise an error."""
        self._is_closed = True
        if self._cluster is not None and self._loop is asyncio.get_running_loop():
            self._cluster.close()
        self._cluster = None


#: Seconds for the connection and the login.
_TIMEOUT_S = 5.0


async def find_wrong_setting(
    settings: Callable[[], Settings], make: Make
) -> KafkaGuardError | None:
    """Connect and log in, and return the error that keeps the client out.

    Args:
        settings: Returns the connection settings.
        make: Makes the errors.

    Returns:
        A refused login, a token provider that fails, or a port that is not a Kafka
        broker's or has another security protocol. None: the connection succeeds, or
        fails for another reason that may pass.
    """
    try:
        known = settings()
    except KafkaGuardError:
        return None  # the guard cannot read the settings
    cluster = Cluster(known, make)
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            if known.token is not None:  # no broker is needed to see that it fails
                await fetch_token(known.token, make)
            await cluster.refresh(asyncio.get_running_loop().time() + _TIMEOUT_S)
    except (AuthenticationError, ClientConfigurationError, TokenProviderError) as error:
        return error
    except (KafkaGuardError, TimeoutError):
        pass
    finally:
        cluster.close()
    return None


async def explain(
    error: KafkaGuardError, settings: Callable[[], Settings], make: Make
) -> KafkaGuardError:
    """Return why a client could not connect: the wrong setting, or the error itself.

    Args:
        error: The client's error, translated.
        settings: Returns the connection settings.
        make: Makes the errors.

    Returns:
        The error of :func:`find_wrong_setting`, also of the class that the client has
        raised. If there is none, or ``error`` is not about the connection: ``error``.
        Either has its ``__cause__``.
    """
    if not isinstance(error, (ClientConnectionError, ClientTimeoutError)):
        return error
    original = error.__cause__
    assert original is not None
    cause = await find_wrong_setting(settings, make)
    if cause is None:
        return error
    found = recast(cause, type(original))
    found.__cause__ = cause.__cause__ or original
    return found
