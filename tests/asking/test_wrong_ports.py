"""Ports that do not let us in: each is told by what is wrong, and what to change."""

from __future__ import annotations

import asyncio
import datetime as dt
import ssl
from contextlib import asynccontextmanager

import pytest
import trustme

from kafkaguard import errors
from kafkaguard._cluster.reports import make
from kafkaguard.protocol._other_protocols import name_protocol, name_protocol_of_size
from kafkaguard_adapters.wire import connection_texts
from kafkaguard_adapters.wire.cluster import Cluster
from kafkaguard_adapters.wire.connection import Connection, ConnectionLostError
from kafkaguard_adapters.wire.settings import Settings, Tls

ALERT = bytes.fromhex("15030300020246")
LONG_AGO = {
    "not_before": dt.datetime(2023, 1, 1, tzinfo=dt.UTC),
    "not_after": dt.datetime(2024, 1, 1, tzinfo=dt.UTC),
}


@asynccontextmanager
async def port(answer=b"", context=None):
    """Listen where no broker is; yield the port."""
    done = []

    async def serve(reader, writer):
        done.append(asyncio.current_task())
        try:
            await reader.read(100)
            writer.write(answer)
            await writer.drain()
            await reader.read(100)
        except OSError:
            pass
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await asyncio.wait_for(asyncio.gather(*done), 10)
        await server.wait_closed()


async def refused(number, host="127.0.0.1", tls=None):
    """Connect, and return the error."""
    settings = Settings(
        ((host, number),), tls=tls and tls.context, ca=tls and tls.cafile
    )

    async def enter():
        opened = await Connection.connect((host, number), settings, make, None)
        await opened.enter()

    with pytest.raises(errors.KafkaGuardError) as caught:
        await asyncio.wait_for(enter(), 10)
    return caught.value


@pytest.fixture
def authority(tmp_path):
    """An authority, and the file with its certificate."""
    made = trustme.CA()
    made.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    return made, str(tmp_path / "ca.pem")


def serving(certificate):
    """Make a server's context."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    return context


@pytest.mark.parametrize("kind", ["name", "authority", "none given", "expired"])
async def test_certificates_that_are_not_accepted_are_told_apart(
    authority, tmp_path, kind
):
    """Another name, an unknown authority, none given, an old one."""
    signer, ca = authority
    dates = LONG_AGO if kind == "expired" else {}
    name = "elsewhere.example" if kind == "name" else "127.0.0.1"
    context = serving(signer.issue_cert(name, **dates))
    if kind == "authority":
        trustme.CA().cert_pem.write_to_path(ca := str(tmp_path / "other.pem"))
    async with port(context=context) as number:
        error = await refused(number, tls=Tls(None if kind == "none given" else ca))
    assert isinstance(error, errors.ClientConfigurationError)
    said, advice = {
        "name": ("address mismatch", "connect by an address"),
        "authority": ("unable to get local issuer", f"now {ca}"),
        "none given": ("unable to get local issuer", "now the system's"),
        "expired": ("certificate has expired", "needs a new certificate"),
    }[kind]
    assert said in str(error)
    assert advice in str(error)
    assert "speak TLS" not in str(error)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (ALERT, "TLS (an alert)"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "HTTP (a web server's answer)"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "SSH"),
    ],
)
async def test_what_is_no_broker_is_named_by_its_first_bytes(answer, said):
    """Plaintext to a TLS port, a web server, another one: the settings are wrong."""
    async with port(answer) as number:
        error = await refused(number)
    assert isinstance(error, errors.ClientConfigurationError)
    assert error.verdict.action == "CONFIGURE"
    assert said in str(error)


async def test_tls_to_a_port_without_it(authority):
    """The other side's plain bytes are no record of TLS."""
    async with port(b"HTTP/1.1 400 Bad Request\r\n\r\n") as number:
        error = await refused(number, tls=Tls(authority[1]))
    assert isinstance(error, errors.ClientConfigurationError)
    assert "does not speak TLS" in str(error)


async def test_certificate_of_the_client_that_is_missing(authority):
    """TLS 1.3 refuses it after the handshake, if need be without a word."""
    signer, ca = authority
    context = serving(signer.issue_cert("127.0.0.1"))
    context.verify_mode = ssl.CERT_REQUIRED
    signer.configure_trust(context)
    async with port(context=context) as number:
        error = await refused(number, tls=Tls(ca))
    assert "client's certificate" in str(error)


@pytest.mark.parametrize("tls", [None, Tls()])
async def test_port_that_closes_without_a_word(tls):
    """It may want another security protocol; nothing is claimed of it."""

    def close(_, writer):
        writer.transport.abort()

    server = await asyncio.start_server(close, "127.0.0.1")
    error = await refused(server.sockets[0].getsockname()[1], tls=tls)
    server.close()
    await server.wait_closed()
    assert "choose the security protocol of this port" in str(error)


def test_every_failure_of_tls_says_what_to_do():
    """Also one that OpenSSL names in a way unknown here."""
    for reason in ("WRONG_VERSION_NUMBER", "TLSV1_ALERT_UNKNOWN_CA", "NEW_ONE", None):
        error = ssl.SSLError(1, "said so")
        error.reason = reason
        said = connection_texts.tls_failed("host:1", error, None)
        assert (reason or "said so") in said
        assert "host:1" in said


async def test_address_that_the_cluster_gave_is_told_as_such():
    """Whoever named only the bootstrap server cannot know this address."""
    cluster = Cluster(Settings((("127.0.0.1", 9),)), make)
    cluster.addresses = {7: ("127.0.0.1", 1)}
    deadline = asyncio.get_running_loop().time() + 5
    with pytest.raises(errors.ClientNotConnectedError) as caught:
        await cluster.version(_Request, 7, deadline)
    assert "advertised.listeners" in str(caught.value)
    assert "127.0.0.1:1" in str(caught.value)
    own = Cluster(Settings((("127.0.0.1", 1),)), make)
    with pytest.raises(errors.ClientNotConnectedError) as caught:
        await own.version(_Request, None, deadline)
    assert "advertised.listeners" not in str(caught.value)


class _Request:
    name = "MetadataRequest"


@pytest.mark.parametrize(
    ("first", "name"),
    [
        (b"GET / HTTP/1.1", "HTTP (a request)"),
        (b"PRI * HTTP/2.0", "HTTP (a request)"),
        (b"HTTP/1.1 200", "HTTP (a web server's answer)"),
        (b"\x16\x03\x01\x02", "TLS (a handshake)"),
        (ALERT, "TLS (an alert)"),
        (b"\x00\x00\x00\x10", None),
    ],
)
def test_first_bytes_of_other_protocols(first, name):
    """As bytes, and as the size that a broker takes them for."""
    assert name == name_protocol(first)
    assert name == name_protocol_of_size(int.from_bytes(first[:4], "big", signed=True))
    assert name == name_protocol_of_size(int.from_bytes(first[:4], "big"))


@pytest.mark.java
async def test_server_that_is_silent_leaves_the_others_time(kafka_cluster):
    """Also where the whole answer may take less than one connection may."""
    host, number = kafka_cluster.bootstrap_servers.split(":")
    async with port() as first, port() as second:
        given = ((host, first), (host, second), (host, int(number)))
        cluster = Cluster(Settings(given), make)
        now = asyncio.get_running_loop().time()
        answer = await cluster.refresh(now + 4)
        cluster.close()
    assert [int(number)] == [each.port for each in answer.brokers]


async def timed_out(*numbers):
    """Ask servers that do not answer; return the text of the error."""
    cluster = Cluster(Settings(tuple(("127.0.0.1", each) for each in numbers)), make)
    with pytest.raises(errors.ClientTimeoutError) as caught:
        await cluster.refresh(asyncio.get_running_loop().time() + 0.4)
    cluster.close()
    return caught.value.summary


async def test_all_addresses_that_were_tried_are_named():
    """A broker that hangs takes connections, as any port with a listener does."""
    async with port() as first, port() as second:
        assert (
            f"no answer within 0.4 s; 127.0.0.1:{first} accepts connections, but does not "
            "answer: check whether it is a port of Kafka's and whether the broker hangs; "
            f"127.0.0.1:{second} accepts connections, but does not answer: check whether "
            "it is a port of Kafka's and whether the broker hangs"
        ) == await timed_out(first, second)


async def test_address_that_takes_no_connection_is_told_as_such(monkeypatch):
    """An address behind a firewall, which never accepts, is named in the timeout."""

    async def wait(*_, **__):
        await asyncio.sleep(60)

    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", wait)
    expected = "127.0.0.1:9 accepts no connection: check the address and the network"
    assert f"no answer within 0.4 s; {expected}" == await timed_out(9)


@pytest.mark.java
async def test_one_address_may_be_opened_twice_at_once(kafka_cluster):
    """As any broker, and as the one that has this id."""
    host, number = kafka_cluster.bootstrap_servers.split(":")
    cluster = Cluster(Settings(((host, int(number)),)), make)
    cluster.addresses = {0: (host, int(number))}
    until = asyncio.get_running_loop().time() + 20
    opened = await asyncio.gather(
        cluster.connection(None, until), cluster.connection(0, until)
    )
    assert all(each.is_open for each in opened)
    cluster.close()


@pytest.mark.java
async def test_broker_that_hangs_is_named(kafka_cluster):
    """It has answered before, so nothing is said about its port."""
    host, number = kafka_cluster.bootstrap_servers.split(":")
    cluster = Cluster(Settings(((host, int(number)),)), make)
    await cluster.refresh(asyncio.get_running_loop().time() + 20)
    broker = kafka_cluster.broker(0)
    broker.pause()
    try:
        with pytest.raises(errors.ClientTimeoutError) as caught:
            await cluster.refresh(asyncio.get_running_loop().time() + 0.4)
    finally:
        broker.resume()
    cluster.close()
    assert f"no answer within 0.4 s from {host}:{number}" == caught.value.summary


@pytest.mark.java
async def test_login_on_a_port_without_sasl(kafka_cluster):
    """No right and no password is missing."""
    host, number = kafka_cluster.bootstrap_servers.split(":")
    sasl = {"sasl_plain_username": "a", "sasl_plain_password": "b"}
    given = Settings(((host, int(number)),), mechanism="PLAIN", sasl=sasl)
    cluster = Cluster(given, make)
    with pytest.raises(errors.IllegalSaslStateError) as caught:
        await cluster.refresh(asyncio.get_running_loop().time() + 20)
    cluster.close()
    assert f"{host}:{number} does not use SASL" == caught.value.summary
    assert "set security.protocol to that of this listener" in str(caught.value)


@pytest.mark.java
async def test_mechanism_that_the_broker_does_not_offer(kafka_users):
    """The error for an unknown SASL mechanism names those that the broker offers."""
    config = kafka_users.client_config("SASL_PLAIN", user="alice")
    host, number = config["bootstrap_servers"].split(":")
    cluster = Cluster(Settings(((host, int(number)),), mechanism="GSSAPI"), make)
    with pytest.raises(errors.UnsupportedSaslMechanismError) as caught:
        await cluster.refresh(asyncio.get_running_loop().time() + 20)
    cluster.close()
    assert f"SASL GSSAPI: {host}:{number} offers " in str(caught.value)
    assert "set sasl.mechanism to one that it offers" in str(caught.value)


@pytest.mark.parametrize("tls", [None, Tls()])
async def test_a_port_that_requires_more_than_tls(tls):
    """With TLS in use only SASL can be missing."""
    cluster = Cluster(Settings((("127.0.0.1", 9),), tls=tls and tls.context), make)

    async def answering(*_):
        return Silent()

    cluster.connection = answering
    deadline = asyncio.get_running_loop().time() + 5
    with pytest.raises(errors.ClientConfigurationError) as caught:
        await cluster.ask(_Request, None, deadline)
    assert ("SASL or TLS" in str(caught.value)) == (tls is None)
    assert "requires SASL" in str(caught.value)


class Silent:
    """A connection that the broker closes at each request."""

    is_new, address = True, ("127.0.0.1", 9)

    async def ask(self, *_, **__):
        """Lose the connection."""
        raise ConnectionLostError(None)

    def version(self, *_):
        """Return the version of the request."""
        return 0
