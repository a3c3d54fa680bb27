"""Shared state of a proxy's connections: listeners, faults, journal, topics."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from kafkaguard.testing.proxy import frames
from kafkaguard.testing.proxy.connection import BUFFER_BYTES, Connection
from kafkaguard.testing.proxy.frames import GarbageError, struct_of
from kafkaguard.testing.proxy.journal import Recorder, answered_errors
from kafkaguard.testing.proxy.listener import Address, Answer, Listener
from kafkaguard.testing.proxy.matching import DecodedRequest
from kafkaguard.testing.proxy.places import layout
from kafkaguard.testing.proxy.plan import make_plan, shape

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

    from kafkaguard.testing.proxy.actions import CountedFault, Plan
    from kafkaguard.testing.proxy.places import Item


_API_VERSIONS: Final = 18
_FETCH: Final = 1
_FIND_COORDINATOR: Final = 10
BROKER_TAKEN_AWAY: Final = "the broker was taken away"
_SASL_HANDSHAKE: Final = 17
# Limits far above any test or staging cluster.
_MAX_BROKERS: Final = 256
_MAX_TOPICS: Final = 100_000
#: APIs whose answers contain topic ids with names.
_NAMES_TOPICS: Final = {"Metadata", "CreateTopics", "DescribeTopicPartitions"}

#: The lists of addresses in answers, by API. A client connects to these addresses, so
#: each of them must be the proxy's: the brokers in Metadata and DescribeCluster, the
#: coordinators in FindCoordinator, the new leaders in Produce and Fetch (KIP-951).
ADDRESS_LISTS: Final = {
    0: "node_endpoints",
    1: "node_endpoints",
    3: "brokers",
    10: "coordinators",
    60: "brokers",
}


class Hub:
    """The state of a proxy; all methods run in the proxy's own event loop.

    Args:
        journal: The journal of all requests.
        host: The interface to listen at.
        port: The port of the first listener; the others have the next ports. 0: any.
        advertised_host: The host name for clients.
        max_bytes: The largest frame that may pass.
    """

    def __init__(
        self,
        journal: Recorder,
        host: str,
        port: int,
        advertised_host: str,
        max_bytes: int,
    ) -> None:
        self.journal = journal
        self.max_bytes = max_bytes
        self.faults: tuple[CountedFault, ...] = ()
        self.paused = False
        self.listeners: dict[Address, Listener] = {}
        self.topic_names: OrderedDict[UUID, str] = OrderedDict()
        self._host = host
        self._next_port = port
        self._advertised_host = advertised_host
        self._opening = asyncio.Lock()
        self._connections = 0
        self._absences: set[asyncio.Task[None]] = set()

    async def listener(self, upstream: Address, broker: int | None = None) -> Listener:
        """Return the listener for a broker, which is opened if it is new."""
        async with self._opening:
            listener = self.listeners.get(upstream)
            if listener is None and len(self.listeners) >= _MAX_BROKERS:
                raise GarbageError(f"more than {_MAX_BROKERS} brokers were named")
            if listener is None:
                listener = Listener(upstream, (self._advertised_host, 0))
                listener.address = (self._advertised_host, await self.open(listener))
                self.listeners[upstream] = listener
        if broker is not None and broker >= 0:
            listener.broker = broker
        return listener

    async def open(self, listener: Listener) -> int:
        """Let clients connect, at the same port as before if there was one."""

        def serve(*client: Any) -> None:
            self._accept(listener, client)

        port = listener.address[1] or self._next_free_port()
        listener.server = await asyncio.start_server(
            serve, self._host, port, limit=BUFFER_BYTES
        )
        actual_port: int = listener.server.sockets[0].getsockname()[1]
        return actual_port

    async def close(self, listener: Listener, reason: str) -> None:
        """Refuse new connections, and end the open ones with a reason."""
        server, listener.server = listener.server, None
        if server is not None:
            await _close_server(server)
        for task in list(listener.connections):
            task.cancel(reason)
        await asyncio.gather(*listener.connections, return_exceptions=True)

    async def shut_down(self) -> None:
        """Close everything."""
        for absence in self._absences:
            absence.cancel()
        for listener in self.listeners.values():
            await self.close(listener, "the proxy stopped")
        await asyncio.sleep(0)  # lets the event loop finish closed transports

    def take_down(self, listener: Listener, seconds: float) -> None:
        """Make a broker unreachable for some seconds."""
        absence = asyncio.create_task(self._stay_down(listener, seconds))
        self._absences.add(absence)
        absence.add_done_callback(self._absences.discard)

    async def dial(self, host: str, port: int) -> Any:
        """Connect to a broker."""
        return await asyncio.open_connection(host, port, limit=BUFFER_BYTES)

    def plan(self, frame: bytes, listener: Listener, connection: int) -> Plan:
        """Read a request, record it, and decide what to do with it.

        Raises:
            GarbageError: It is not a request, or its answer would let the client
                bypass the proxy.
        """
        header = frames.read_header(frame)
        body = frames.decode_request(header, frame)
        _refuse_unsupported(header, body)
        items = self._list_items(header, body, listener)
        request = DecodedRequest(header, listener.broker, tuple(items), body)
        exchange = self.journal.request(
            connection=connection,
            broker=listener.broker,
            client_id=header.client_id,
            api=header.api,
            version=header.version,
            partitions=request.partitions,
            size=len(frame),
        )
        return make_plan(request, exchange, () if self.paused else self.faults)

    async def answer(self, plan: Plan, raw: bytes | None, listener: Listener) -> Answer:
        """Make the client's answer from the broker's answer, or without one.

        Raises:
            GarbageError: The broker's bytes are not an answer to the request.
        """
        header = plan.request.header
        if raw is not None and frames.correlation_id(raw) != header.correlation_id:
            raise GarbageError(
                f"the answer to request {header.correlation_id} ({header.api}) carries "
                f"the number {frames.correlation_id(raw)}"
            )
        answer = None if raw is None else frames.decode_answer(header, raw)
        if raw is not None and answer is None:
            return Answer(raw)
        is_changed = raw is None or plan.changes_answer
        if answer is not None:
            self._remember(plan.request, answer, listener)
            is_changed |= await self._rewrite(header.api_key, answer)
            is_changed |= self._narrow_versions(plan, answer)
        if is_changed:
            answer = shape(plan, answer, self.topic_names)
            raw = frames.encode_answer(header, answer)
        assert raw is not None
        return Answer(raw, answered_errors(answer, self._topic_name))

    def _accept(self, listener: Listener, client: Any) -> None:
        _, writer = client
        if not listener.is_up:
            writer.transport.abort()
            return
        self._connections += 1
        connection = Connection(self._connections, self, listener, client)
        task = asyncio.create_task(connection.run())
        listener.connections.add(task)
        task.add_done_callback(listener.connections.discard)
        # A task that is cancelled before its first step does not close the writer.
        task.add_done_callback(lambda _: writer.close())

    async def _stay_down(self, listener: Listener, seconds: float) -> None:
        await self.close(listener, BROKER_TAKEN_AWAY)
        await asyncio.sleep(seconds)
        if not listener.is_up:
            await self.open(listener)

    def _next_free_port(self) -> int:
        port = self._next_port
        self._next_port += port > 0
        return port

    def _list_items(
        self, header: frames.Header, body: Any, listener: Listener
    ) -> list[Item]:
        answer_layout = layout(header.api_key, header.version)
        if body is None or answer_layout is None:
            return []
        items = answer_layout.asked_items(body, self.topic_names)
        if header.api_key == _FETCH:
            return listener.sessions.find_items(body, items)
        return items

    def _remember(
        self, request: DecodedRequest, answer: Any, listener: Listener
    ) -> None:
        """Record the names of topics and the partitions of Fetch sessions."""
        if request.api in _NAMES_TOPICS:
            for topic in answer.topics or ():
                if topic.name and topic.topic_id:
                    self.topic_names[topic.topic_id] = topic.name
            while len(self.topic_names) > _MAX_TOPICS:
                self.topic_names.popitem(last=False)
        elif request.api == "Fetch" and answer.session_id and not answer.error_code:
            listener.sessions.record(answer.session_id, request.items)

    async def _rewrite(self, api_key: int, answer: Any) -> bool:
        """Replace the brokers' addresses by the proxy's."""
        if api_key not in ADDRESS_LISTS:
            return False
        endpoints = list(list_endpoints(api_key, answer))
        for endpoint in endpoints:
            upstream = (endpoint.host, endpoint.port)
            listener = await self.listener(upstream, _node_id(endpoint))
            endpoint.host, endpoint.port = listener.address
        return bool(endpoints)

    def _narrow_versions(self, plan: Plan, answer: Any) -> bool:
        """Remove versions that are hidden, or that the proxy must decode but cannot."""
        if plan.request.header.api_key != _API_VERSIONS:
            return False
        before = [(e.api_key, e.min_version, e.max_version) for e in answer.api_keys]
        for entry in answer.api_keys:
            if entry.api_key in ADDRESS_LISTS:
                highest = frames.max_version(entry.api_key)
                assert highest is not None
                entry.max_version = min(entry.max_version, highest)
            for fault in () if self.paused else self.faults:
                _narrow(entry, fault, plan.request)
        answer.api_keys = [e for e in answer.api_keys if e.min_version <= e.max_version]
        after = [(e.api_key, e.min_version, e.max_version) for e in answer.api_keys]
        return before != after

    def _topic_name(self, topic_id: UUID) -> str:
        return self.topic_names.get(topic_id, str(topic_id))


async def _close_server(server: asyncio.Server) -> None:
    """Close a server, including clients that it is just accepting.

    If a server is closed after it accepted a client and before the first step of the
    client's transport, the client's socket stays open for good. So the server first
    stops listening. It is closed after these steps: a task, a transport, a call of the
    protocol.
    """
    for listening in server.sockets:
        asyncio.get_running_loop().remove_reader(listening.fileno())
    for _ in range(3):
        await asyncio.sleep(0)
    server.close()


def _narrow(entry: Any, fault: CountedFault, request: DecodedRequest) -> None:
    versions = fault.action.versions
    if versions and fault.match.matches_offer(entry.api_key, request):
        entry.min_version = max(entry.min_version, versions[0])
        entry.max_version = min(entry.max_version, versions[1])


def _refuse_unsupported(header: frames.Header, body: Any) -> None:
    if body is None and header.api_key in ADDRESS_LISTS:
        raise GarbageError(
            f"{header.api} v{header.version} is not known to the proxy, and its answer "
            "could name addresses that bypass the proxy; a client that sends "
            "ApiVersions will not use it"
        )
    if header.api_key == _SASL_HANDSHAKE and header.version == 0:
        raise GarbageError(
            "SaslHandshake v0 is followed by bytes that are not Kafka frames: "
            "use a client that speaks v1"
        )


def list_endpoints(api_key: int, answer: Any) -> Iterator[Any]:
    """Yield each part of an answer that has a ``host`` and a ``port``."""
    entries = list(getattr(answer, ADDRESS_LISTS[api_key], None) or ())
    if api_key == _FIND_COORDINATOR and not entries:
        entries.append(answer)
    for entry in entries:
        if entry.host and entry.port > 0:
            yield entry


def _node_id(endpoint: Any) -> int:
    """Return the id of the broker at an endpoint."""
    fields = struct_of(endpoint).fields
    number: int = endpoint.broker_id if "broker_id" in fields else endpoint.node_id
    return number
