"""Bytes that are not Kafka frames: 100,000 of them, in both directions."""

from __future__ import annotations

import asyncio
import gc
import random
import socket
import threading
import tracemalloc
from contextlib import contextmanager

import pytest
from kafka.protocol.metadata import ApiVersionsRequest, MetadataResponse

from kafkaguard._verdicts.apis import API_KEYS
from kafkaguard.testing import FaultProxy
from kafkaguard.testing.proxy import frames
from kafkaguard.testing.proxy.connection import Connection
from kafkaguard.testing.proxy.hub import Hub
from kafkaguard.testing.proxy.journal import Recorder
from kafkaguard.testing.proxy.places import layout
from tests.effort import cases
from tests.own_log import own_records
from tests.testing.proxy import raw_requests as raw
from tests.testing.proxy.raw_client import RawClient
from tests.testing.proxy.test_proxy_codes import APIS

FRAMES = cases(50_000, quick=2_000)  # in each direction
AGAIN = cases(2_000, quick=200)
UPSTREAM = ("192.0.2.1", 9092)
CLEAN_ENDS = {"the client closed it", "the broker closed it"}


class Sink:
    """The writing end of a connection that goes nowhere."""

    def __init__(self):
        self.sent = 0

    def write(self, data):
        """Count what is sent."""
        self.sent += len(data)

    async def drain(self):
        """Never hold anybody up."""

    def close(self):
        """Do nothing."""

    async def wait_closed(self):
        """Do nothing."""


class ClosedCircuit(Hub):
    """A hub whose brokers are byte strings and whose doors are none."""

    def __init__(self):
        super().__init__(Recorder(100), "127.0.0.1", 0, "proxy", 1_000_000)
        self.broker_says = b""

    async def dial(self, host, port):
        """Connect to a broker that has already said everything."""
        return _stream(self.broker_says, ends=bool(self.broker_says)), Sink()

    async def open(self, listener):
        """Open no port."""
        return 1


def _stream(data, *, ends=True):
    reader = asyncio.StreamReader()
    reader.feed_data(data)
    if ends:
        reader.feed_eof()
    return reader


def _requests():
    """Encode a request of each API, in every version that our samples know."""
    for api, (make, _) in APIS.items():
        key = API_KEYS[api]
        oldest = 8 if api == "OffsetFetch" else 3
        for version in range(oldest, frames.max_version(key) + 1):
            yield _sample(key, version, make)


def _sample(key, version, make):
    request = make(version, "topic", None)
    request.with_header(correlation_id=7, client_id="client")
    data = request.encode(header=True, framed=True)
    return frames.read_header(data), data


def _answer_to(header):
    answer = layout(header.api_key, header.version).blank()
    if header.api == "Metadata":
        broker = MetadataResponse.MetadataResponseBroker
        answer.brokers = [
            broker(version=header.version, node_id=1, host="b", port=9092)
        ]
    return frames.encode_answer(header, answer)


def _spoil(dice, frame):
    """Return the frame with some damage, mostly with a length that fits again."""
    body = bytearray(frame[4:])
    for _ in range(dice.randint(1, 4)):
        at = dice.randrange(len(body))
        match dice.randrange(5):
            case 0:
                body[at] = dice.randrange(256)
            case 1:
                body[at : at + 4] = dice.randbytes(4)
            case 2:
                del body[at:]
            case 3:
                body[at:at] = b"\xff" * dice.randrange(1, 20)
            case _:
                body = bytearray(dice.randbytes(dice.randrange(4, 60)))
        if not body:
            body = bytearray(b"\0")
    if dice.random() < 0.05:
        return dice.randbytes(4) + bytes(body)
    return len(body).to_bytes(4, "big") + bytes(body)


async def _serve(hub, said_by_client, said_by_broker):
    listener = await hub.listener(UPSTREAM)
    hub.broker_says = said_by_broker
    client = _stream(said_by_client, ends=not said_by_broker)
    connection = Connection(1, hub, listener, (client, Sink()))
    async with asyncio.timeout(10):
        await connection.run()
    return hub.journal.closures()[-1].reason


async def test_garbage_from_clients(caplog):
    """The connection ends with a reason, or the broker is left to judge."""
    hub, dice = ClosedCircuit(), random.Random(1)
    samples = list(_requests())
    reasons = [
        await _serve(hub, _spoil(dice, dice.choice(samples)[1]), b"")
        for _ in range(FRAMES)
    ]
    _judge(reasons, hub, caplog)


async def test_garbage_from_brokers(caplog):
    """A client never gets an answer that could lead it past the proxy."""
    hub, dice = ClosedCircuit(), random.Random(2)
    samples = [(request, _answer_to(header)) for header, request in _requests()]
    reasons = []
    for _ in range(FRAMES):
        request, answer = dice.choice(samples)
        reasons.append(await _serve(hub, request, _spoil(dice, answer)))
    _judge(reasons, hub, caplog)


def _judge(reasons, hub, caplog):
    """Every end has a reason; much was garbage; nothing failed; nothing grew."""
    garbage = sum(reason.startswith("garbage: ") for reason in reasons)
    assert len(reasons) == FRAMES
    assert garbage > FRAMES // 4
    assert {True} == {
        reason in CLEAN_ENDS or reason.startswith("garbage: ") for reason in reasons
    }
    assert own_records(caplog, "asyncio") == []
    assert len(hub.journal.exchanges()) <= 100
    assert len(hub.listeners) <= 256


async def test_garbage_leaves_nothing_behind():
    """As many connections full of garbage once more need no more memory."""
    hub, dice = ClosedCircuit(), random.Random(3)
    samples = list(_requests())

    async def many():
        for _ in range(AGAIN):
            await _serve(hub, _spoil(dice, dice.choice(samples)[1]), b"")
        gc.collect()

    await many()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    await many()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    # The journal keeps its newest 1,000 exchanges and closures, about 1 kB each.
    assert grown < 1_500_000


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(b"\xff" * 1_000_000, id="endless numbers"),
        pytest.param(bytes(1_000_000), id="zeros"),
        pytest.param(b"\x7f" * 1_000_000, id="huge lengths"),
    ],
)
@pytest.mark.parametrize("api", ["Produce", "Fetch", "Metadata"])
async def test_a_large_frame_of_garbage_costs_little(api, frame):
    """A frame whose numbers never end is given up at once."""
    hub = ClosedCircuit()
    version = frames.max_version(API_KEYS[api])
    header, sample = _sample(API_KEYS[api], version, APIS[api][0])
    body = sample[4 : header.body_at] + frame[: 1_000_000 - header.body_at]
    reason = await _serve(hub, len(body).to_bytes(4, "big") + body, b"")
    assert reason.startswith("garbage: ") or reason in CLEAN_ENDS


@contextmanager
def _broker_saying(data):
    """Run a broker that answers whatever is asked with some bytes."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer():
            peer, _ = server.accept()
            with peer:
                peer.recv(1000)
                peer.sendall(data)
                peer.recv(1000)

        thread = threading.Thread(target=answer)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        thread.join(10)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"\x15\x03\x03\x00\x02\x02\x46", "these bytes are TLS"),
        (b"\xff\xff\xff\xff", "a frame of -1 bytes"),
        (b"\0\0\0\x08\0\0\0\x63\0\0\0\0", "carries the number 99"),
        (b"\0\0\0\x06\0\0\0\x01\0\0", "not a ApiVersionsResponse v2"),
    ],
)
def test_the_reason_is_recorded(answer, reason):
    """Over real sockets: the client sees the end, the journal says why."""
    with _broker_saying(answer) as broker, FaultProxy(broker) as proxy:
        with RawClient(proxy.bootstrap_servers) as client:
            client.send(ApiVersionsRequest(version=2))
            assert client.receive_bytes() == b""
        assert reason in _closed(proxy)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00", "these bytes are TLS"),
        (b"GET / HTTP/1.1\r\n\r\n", "a frame of 1195725856 bytes"),
        (b"\0\0\0\x08\0\x03\0\x63\0\0\0\x01\xff\xff", "no request header"),
        (b"\0\0\0\x0a\0\x03\0\x63\0\0\0\x01\xff\xff", "Metadata v99 is not known"),
        (b"\0\0\0\x0a\0\x11\0\0\0\0\0\x01\xff\xff\0\0", "not a SaslHandshakeRequest"),
        (b"\0\0\0\x0e\0\x11\0\0\0\0\0\x01\xff\xff\0\x02ab", "SaslHandshake v0"),
    ],
)
def test_what_clients_may_not_say(data, reason, kafka_faults):
    """Other protocols, headers cut short, and what would lead past the proxy."""
    with RawClient(kafka_faults.bootstrap_servers) as client:
        client.send_bytes(data)
        assert client.receive_bytes() == b""
    assert reason in _closed(kafka_faults)


def test_unknown_apis_pass_raw(kafka_faults):
    """The broker is asked, and its answer comes back, whatever the API is."""
    body = b"\0\x47\0\0\0\0\0\x05\xff\xff\0" + bytes(16) + b"\0"
    with RawClient(kafka_faults.bootstrap_servers) as client:
        client.send_bytes(len(body).to_bytes(4, "big") + body)
        answer = client.receive_bytes()
    assert answer[:4] == b"\0\0\0\x05"
    assert kafka_faults.requests()[0].api == "GetTelemetrySubscriptions"


def test_a_fault_that_cannot_be_applied_is_noted(kafka_faults):
    """An answer of a version that is not known cannot be failed; the journal says so."""
    fault = kafka_faults.on("TxnOffsetCommit").fail("NOT_COORDINATOR")
    body = b"\0\x1c\0\x63\0\0\0\x05\xff\xff"
    with RawClient(kafka_faults.bootstrap_servers) as client:
        client.send_bytes(len(body).to_bytes(4, "big") + body)
        assert client.receive_bytes() == b""
    assert fault.fired == 0
    assert "cannot fail with NOT_COORDINATOR(16)" in str(kafka_faults.journal)


def test_a_frame_that_ends_early(kafka_faults):
    """A client that goes away within a frame is no accident of the proxy's."""
    with RawClient(kafka_faults.bootstrap_servers) as client:
        client.send_bytes(b"\0\0\0\x20abc")
    assert "the stream ended after 3 of 32 bytes" in _closed(kafka_faults)


def test_a_broker_that_is_not_there():
    """The client sees the end of its connection, the journal the address."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with FaultProxy(f"127.0.0.1:{port}") as proxy:
        with RawClient(proxy.bootstrap_servers) as client:
            assert client.receive_bytes() == b""
        assert f"no connection to the broker at 127.0.0.1:{port}" in _closed(proxy)


def _closed(proxy):
    with proxy.journal.changed:
        assert proxy.journal.changed.wait_for(lambda: proxy.closures, 10)
    return proxy.closures[-1].reason


@pytest.mark.parametrize("host", ["a..b", "x" * 70])
def test_an_address_that_no_network_has(host):
    """A name that cannot be looked up at all ended a connection as a fault of ours."""
    with FaultProxy(f"{host}:9092") as proxy:
        with RawClient(proxy.bootstrap_servers) as client:
            assert client.receive_bytes() == b""
        assert f"no connection to the broker at {host}:9092" in _closed(proxy)


def test_a_broken_off_exchange_is_unanswered(kafka_faults, kafka_topic):
    """What a client no longer waits for is in the journal as such."""
    kafka_faults.on("ListOffsets").delay(30)
    with RawClient(kafka_faults.bootstrap_servers) as client:
        client.send(raw.list_offsets(7, kafka_topic, None))
        kafka_faults.wait_for("ListOffsets")
    _closed(kafka_faults)
    assert [e.outcome for e in kafka_faults.requests("ListOffsets")] == ["unanswered"]
