"""A broker at protocol level that answers as a test tells it to."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress

from kafka.protocol.metadata import (
    ApiVersionsResponse,
    MetadataResponse,
)
from kafka.protocol.sasl import (
    SaslAuthenticateResponse,
    SaslHandshakeResponse,
)

#: The answer to each request that is known, and the highest version of both.
_APIS = {
    each.API_KEY: (each, highest)
    for each, highest in (
        (MetadataResponse, 5),
        (SaslHandshakeResponse, 1),
        (ApiVersionsResponse, 3),
        (SaslAuthenticateResponse, 1),
    )
}


class ScriptedBroker:
    """One broker of a cluster.

    Attributes:
        port: Where it listens.
        asked: The names of the requests of each connection, in order.
        delays: Seconds before the answer to a request, by its name.
        closes: How many connections are closed instead of answering Metadata.
        session_ms: The lifetime of a SASL session.
        others: Ids and ports of the brokers in Metadata.
    """

    def __init__(self):
        self.port = 0
        self.asked, self.delays, self.closes = [], {}, 0
        self.session_ms, self.others = 0, {}
        self._talks = set()

    @property
    def address(self):
        """Host and port."""
        return "127.0.0.1", self.port

    async def serve(self, reader, writer):
        """Answer the requests of one connection."""
        self._talks.add(asyncio.current_task())
        asked = []
        self.asked.append(asked)
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                frame = await reader.readexactly(size)
                key, version = (int.from_bytes(frame[n : n + 2]) for n in (0, 2))
                kind, highest = _APIS[key]
                name = kind.__name__.removesuffix("Response")
                asked.append(name)
                await asyncio.sleep(self.delays.get(name, 0))
                if name == "Metadata" and self.closes:
                    self.closes -= 1
                    break
                answer = getattr(self, f"_{name}")(kind)
                body = answer.encode(version=min(version, highest))
                number = frame[4:8]
                writer.write((len(body) + 4).to_bytes(4, "big") + number + body)
        writer.transport.abort()

    def _ApiVersions(self, kind):
        names = [
            kind.ApiVersion(api_key=key, min_version=0, max_version=highest)
            for key, (_, highest) in _APIS.items()
        ]
        return kind(error_code=0, api_keys=names)

    def _SaslHandshake(self, kind):
        return kind(error_code=0, mechanisms=["PLAIN"])

    def _SaslAuthenticate(self, kind):
        return kind(
            error_code=0,
            error_message=None,
            auth_bytes=b"",
            session_lifetime_ms=self.session_ms,
        )

    def _Metadata(self, kind):
        brokers = [
            kind.MetadataResponseBroker(
                node_id=number, host="127.0.0.1", port=port, rack=None
            )
            for number, port in self.others.items()
        ]
        return kind(
            throttle_time_ms=0,
            brokers=brokers,
            cluster_id="c",
            controller_id=0,
            topics=[],
        )

    async def end(self):
        """Wait for the ends of the connections."""
        if self._talks:
            await asyncio.wait(self._talks, timeout=10)


@asynccontextmanager
async def scripted_broker():
    """Listen on a port of its own."""
    broker = ScriptedBroker()
    server = await asyncio.start_server(broker.serve, "127.0.0.1")
    broker.port = server.sockets[0].getsockname()[1]
    broker.others = {7: broker.port}
    try:
        yield broker
    finally:
        server.close()
        await broker.end()
        await server.wait_closed()
