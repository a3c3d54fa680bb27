"""The brokers of a cluster, and a connection to each on demand."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from kafka.protocol.metadata import MetadataRequest

from kafkaguard._errors import (
    ClientConfigurationError,
    ClientConnectionError,
    ClientMetadataError,
    ClientNotConnectedError,
    ClientTimeoutError,
    KafkaGuardError,
    UnsupportedVersionError,
)
from kafkaguard_adapters.wire import connection_texts
from kafkaguard_adapters.wire.connection import (
    Connection,
    ConnectionLostError,
    api_name,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkaguard._cluster.reports import Make
    from kafkaguard_adapters.wire.settings import Settings

#: How many new connections a broker may close instead of answering, before the guard
#: concludes that the broker does not support the request.
_TRIES: Final = 2
#: Below this version, a Metadata request creates the topics that it names, if
#: auto.create.topics.enable is set.
_FIRST_THAT_MAKES_NO_TOPIC: Final = 4
#: The longest time to connect to one address, in seconds, if there are others to try.
_CONNECT_S: Final = 5.0


class Cluster:
    """The brokers of a cluster. An instance belongs to one event loop.

    Args:
        settings: The connection settings.
        make: Makes the errors.
    """

    def __init__(self, settings: Settings, make: Make) -> None:
        self.make = make
        self.addresses: dict[int, tuple[str, int]] = {}
        self._settings = settings
        # The key None is the first connection, until its broker's id is known.
        self._connections: dict[int | None, Connection] = {}
        self._locks: dict[int | None, asyncio.Lock] = {}
        # Connections that are not open yet, or were given up: whether the other side
        # has accepted them.
        self._opening: dict[tuple[str, int], bool] = {}

    def close(self) -> None:
        """Close all connections. A later request opens them again."""
        connections, self._connections = self._connections, {}
        for connection in connections.values():
            connection.close()

    async def refresh(self, deadline: float, topics: Iterable[str] | None = ()) -> Any:
        """Request the brokers, and metadata of topics; never creates a topic.

        Args:
            deadline: The deadline, in seconds on the event loop's clock.
            topics: Names of topics; None: all. Default: no topics.

        Returns:
            The MetadataResponse.

        Raises:
            KafkaGuardError: No broker answered.
        """
        topic_class = MetadataRequest.MetadataRequestTopic
        request = MetadataRequest(
            topics=None
            if topics is None
            else [topic_class(name=name) for name in topics],
            allow_auto_topic_creation=False,
        )
        lowest = _FIRST_THAT_MAKES_NO_TOPIC if request.topics else 0
        answer = await self.ask(request, None, deadline, min_version=lowest)
        self.addresses = {
            each.node_id: (each.host, each.port) for each in answer.brokers
        }
        self._adopt()
        return answer

    async def ask(
        self,
        request: Any,
        broker: int | None,
        deadline: float,
        *,
        max_version: int | None = None,
        min_version: int = 0,
    ) -> Any:
        """Send a request to a broker and wait for the answer.

        Args:
            request: A request of kafka-python's protocol engine.
            broker: The broker's id; None: any broker.
            deadline: The deadline, in seconds on the event loop's clock.
            max_version: The highest version to use. Default: no limit.
            min_version: The lowest version that has the fields which the caller needs.

        Raises:
            KafkaGuardError: There is no answer before the deadline, or the request
                cannot be sent or answered.
        """
        started = asyncio.get_running_loop().time()
        place = {"api": api_name(request), "broker": broker}
        try:
            async with asyncio.timeout_at(deadline):
                return await self._ask(
                    request, broker, deadline, (max_version, min_version), place
                )
        except TimeoutError:
            text = self._describe_timeout(max(0.0, deadline - started), broker)
            self._drop(broker)
            raise self.make(ClientTimeoutError, text, **place) from None

    def _describe_timeout(self, seconds: float, broker: int | None) -> str:
        """Return what is known of brokers that did not answer within some seconds."""
        text = f"no answer within {seconds:.3g} s"
        connection = self._find_open(broker)
        if connection is not None:
            return "{} from {}:{}".format(text, *connection.address)
        addresses = (
            set(self._opening) if broker is None else {self.addresses.get(broker)}
        )
        for address, has_accepted in self._opening.items():
            if address not in addresses:
                continue
            text += "; " + connection_texts.unopened(
                "{}:{}".format(*address), has_accepted=has_accepted
            )
            if not has_accepted and self._is_from_cluster(address):
                text = connection_texts.given_by_the_cluster(text)
        return text

    async def version(self, request: Any, broker: int | None, deadline: float) -> int:
        """Return the highest version that the broker and kafkaguard support; -1: none.

        Raises:
            KafkaGuardError: The broker cannot be reached.
        """
        try:
            async with asyncio.timeout_at(deadline):
                connection = await self.connection(broker, deadline)
        except TimeoutError:
            place = {"api": api_name(request), "broker": broker}
            raise self.make(ClientTimeoutError, "no connection", **place) from None
        version = connection.version(request)
        return -1 if version is None else version

    async def _ask(
        self,
        request: Any,
        broker: int | None,
        deadline: float,
        bounds: tuple[int | None, int],
        place: Any,
    ) -> Any:
        highest, lowest = bounds
        losses, loss = 0, ConnectionLostError()
        while losses < _TRIES:
            connection = await self.connection(broker, deadline)
            is_new = connection.is_new
            try:
                return await connection.ask(
                    request, max_version=highest, min_version=lowest
                )
            except ConnectionLostError as error:
                loss = error
                losses += is_new  # an older connection may be closed for being idle
                self._drop(broker)
        version = connection.version(request, highest, lowest)
        raise self._make_loss_error(loss, connection.address, version, place)

    def _make_loss_error(
        self,
        loss: ConnectionLostError,
        address: tuple[str, int],
        version: int | None,
        place: Any,
    ) -> KafkaGuardError:
        """Make the error for connections that ended without an answer, repeatedly."""
        times = f"{_TRIES} times"
        if loss.fault is not None:
            text = "{} the connection with {}:{} was lost: {}; check the network"
            text = text.format(times, *address, loss.fault)
            return self.make(ClientConnectionError, text, **place)
        if self._settings.mechanism is None and not self.addresses:
            text = connection_texts.requires_more(
                "{}:{}".format(*address),
                times,
                has_tls=self._settings.tls is not None,
            )
            return self.make(ClientConfigurationError, text, **place)
        text = (
            f"{times} the broker closed the connection instead of answering version "
            f"{version}. So it is concluded that the broker, or a proxy in between, "
            "does not support this request"
        )
        return self.make(UnsupportedVersionError, text, **place)

    async def connection(self, broker: int | None, deadline: float) -> Connection:
        """Return an open connection to a broker; None: to any broker.

        Args:
            broker: The broker's id; None: any broker.
            deadline: When the caller stops waiting, in seconds on the event loop's
                clock. Addresses that may be tried instead get an equal part of it.

        Raises:
            KafkaGuardError: The connection cannot be opened.
        """
        async with self._locks.setdefault(broker, asyncio.Lock()):
            existing = self._find_open(broker)
            if existing is None:
                opening = (
                    self._connect_to_any(deadline)
                    if broker is None
                    else self._connect_to(broker)
                )
                existing = await opening
                self._connections[existing.broker] = existing
            return existing

    def _find_open(self, broker: int | None) -> Connection | None:
        for each in [b for b, c in self._connections.items() if not c.is_open]:
            self._connections.pop(each).close()
        connections = self._connections.values()
        return next(
            (c for c in connections if broker in (None, c.broker)),
            None,
        )

    async def _connect_to(self, broker: int) -> Connection:
        if broker not in self.addresses:
            ids = ", ".join(map(str, sorted(self.addresses)))
            text = f"the cluster has no broker {broker}; it has {ids or 'none'}"
            raise self.make(ClientMetadataError, text, api="Metadata", broker=broker)
        return await self._open(self.addresses[broker], broker)

    async def _connect_to_any(self, deadline: float) -> Connection:
        """Connect to the first broker that can be reached, bootstrap servers last."""
        brokers = {address: broker for broker, address in self.addresses.items()}
        candidates = {
            **brokers,
            **{a: brokers.get(a) for a in self._settings.bootstrap},
        }
        failure: KafkaGuardError | None = None
        for others_left, (address, broker) in zip(
            range(len(candidates) - 1, -1, -1), candidates.items(), strict=True
        ):
            part = (deadline - asyncio.get_running_loop().time()) / (others_left + 1)
            seconds = min(part, _CONNECT_S) if others_left else None
            try:
                async with asyncio.timeout(seconds):
                    return await self._open(address, broker)
            except TimeoutError:
                text = "{}:{} did not answer in {:.3g} s".format(*address, seconds)
                failure = self.make(ClientNotConnectedError, text)
            except ClientNotConnectedError as error:
                failure = error
        assert failure is not None
        raise failure

    async def _open(self, address: tuple[str, int], broker: int | None) -> Connection:
        self._opening[address] = False
        try:
            connection = await Connection.connect(
                address, self._settings, self.make, broker
            )
            self._opening[address] = True
            await connection.enter()
        except KafkaGuardError as error:
            self._opening.pop(address, None)
            if (
                not isinstance(error, ClientNotConnectedError)
                or not self._is_from_cluster(address)
                or error.summary is None
            ):
                raise
            text = connection_texts.given_by_the_cluster(error.summary)
            raise self.make(ClientNotConnectedError, text, broker=broker) from error
        self._opening.pop(address, None)
        return connection

    def _is_from_cluster(self, address: tuple[str, int]) -> bool:
        """Return whether an address comes from the cluster, and not from the user."""
        return address not in self._settings.bootstrap

    def _adopt(self) -> None:
        """Find out the broker id of the first connection."""
        first = self._connections.pop(None, None)
        if first is None:
            return
        for broker, address in self.addresses.items():
            if address == first.address and broker not in self._connections:
                first.broker = broker
                self._connections[broker] = first
                return
        first.close()

    def _drop(self, broker: int | None) -> None:
        """Close the connection to a broker; None: close all connections."""
        keys = [broker] if broker is not None else list(self._connections)
        for each in keys:
            connection = self._connections.pop(each, None)
            if connection is not None:
                connection.close()
