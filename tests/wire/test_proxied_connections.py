"""Clients whose connections go through a proxy: ours go through it too."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress

import pytest
from kafka.protocol.metadata import MetadataRequest

from kafkaguard import errors
from kafkaguard._cluster.reports import make
from kafkaguard_adapters.kafka_python.settings import read_settings
from kafkaguard_adapters.wire.cluster import Cluster

TIMEOUT_S = 20.0


async def pump(reader, writer):
    """Hand bytes on until there are no more."""
    with suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
    writer.close()


@asynccontextmanager
async def http_proxy(answer="HTTP/1.1 200 OK"):
    """Run a proxy that speaks CONNECT, and keeps the lines that it was sent."""
    lines, talks = [], []

    async def serve(reader, writer):
        talks.append(asyncio.current_task())
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        lines.append(head.splitlines()[0])
        host, _, port = head.split()[1].rpartition(":")
        writer.write(f"{answer}\r\n\r\n".encode())
        if " 200 " not in answer:
            writer.close()
            return
        inner = await asyncio.open_connection(host, int(port))
        await asyncio.gather(pump(reader, inner[1]), pump(inner[0], writer))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        yield f"http://127.0.0.1:{port}", lines
        await asyncio.wait_for(asyncio.gather(*talks), TIMEOUT_S)


async def ask(bootstrap_servers, proxy):
    """Ask for the brokers by way of the proxy."""
    config = {"bootstrap_servers": bootstrap_servers, "proxy_url": proxy}
    cluster = Cluster(read_settings(config, make), make)
    deadline = asyncio.get_running_loop().time() + TIMEOUT_S
    try:
        return await cluster.ask(MetadataRequest(topics=[]), None, deadline)
    finally:
        cluster.close()


async def test_our_own_connections_go_through_the_clients_proxy(kafka_cluster):
    """Brokers behind it may not be reached otherwise."""
    servers = kafka_cluster.bootstrap_servers
    async with http_proxy() as (url, lines):
        answer = await ask(servers, url)
    assert [f"CONNECT {servers} HTTP/1.1"] == lines
    assert len(answer.brokers) == 1


async def test_a_proxy_that_refuses_is_named_as_the_cause():
    """Not as a broker that is away."""
    async with http_proxy("HTTP/1.1 403 Forbidden") as (url, _):
        with pytest.raises(errors.ClientNotConnectedError, match="the proxy"):
            await ask("127.0.0.1:9", url)


async def test_what_is_no_proxy_is_refused_without_its_password():
    """Its address may hold one."""
    with pytest.raises(errors.ClientNotConnectedError, match="proxy_url") as caught:
        await ask("127.0.0.1:9", "ftp://user:secret@127.0.0.1:1")
    assert "secret" not in str(caught.value)
