"""The guard's own connections: order of addresses, sessions, losses, slow answers."""

from __future__ import annotations

import asyncio
import threading
from contextlib import AsyncExitStack
from types import SimpleNamespace

import pytest

from kafkaguard import errors
from kafkaguard._cluster.reports import make
from kafkaguard_adapters.wire import cluster as wire_cluster
from kafkaguard_adapters.wire import io_thread
from kafkaguard_adapters.wire.cluster import Cluster
from kafkaguard_adapters.wire.sasl import Login
from kafkaguard_adapters.wire.settings import Settings
from tests.wire.scripted_broker import scripted_broker

BOOTSTRAP, FIRST, SECOND = ("b", 1), ("one", 1), ("two", 2)
LOGIN = {"sasl_plain_username": "a", "sasl_plain_password": "b"}


def soon(seconds=20.0):
    """Return a deadline."""
    return asyncio.get_running_loop().time() + seconds


def cluster_of(*addresses, **settings):
    """Return a cluster with these bootstrap servers."""
    return Cluster(Settings(addresses, **settings), make)


def with_login(*addresses):
    """Return a cluster to which the guard logs in."""
    return cluster_of(*addresses, mechanism="PLAIN", sasl=LOGIN)


@pytest.mark.parametrize(
    ("known", "order"),
    [
        ({}, [(BOOTSTRAP, None)]),
        ({1: FIRST, 2: SECOND}, [(FIRST, 1), (SECOND, 2), (BOOTSTRAP, None)]),
        ({1: BOOTSTRAP, 2: SECOND}, [(BOOTSTRAP, 1), (SECOND, 2)]),
    ],
    ids=["nothing known", "others", "the same"],
)
async def test_known_brokers_are_tried_before_the_bootstrap_servers(known, order):
    """A bootstrap server may be gone for good; the last error of all is raised."""
    cluster, tried = cluster_of(BOOTSTRAP), []
    cluster.addresses = known

    async def refuse(address, broker):
        tried.append((address, broker))
        raise make(errors.ClientNotConnectedError, f"{address} is away")

    cluster._open = refuse
    with pytest.raises(errors.ClientNotConnectedError) as caught:
        await cluster.connection(None, soon())
    assert tried == order
    assert str(order[-1][0]) in str(caught.value)


async def test_a_session_ends_in_time_and_the_next_one_too():
    """It is in milliseconds, and not used to its last moment (KIP-368)."""
    loop = asyncio.get_running_loop()
    clock, shift = loop.time, 0.0
    async with scripted_broker() as broker:
        broker.session_ms = 60_000
        cluster = with_login(broker.address)
        loop.time = lambda: clock() + shift
        try:
            for count in (1, 2, 3):
                opened = await cluster.connection(None, soon())
                begun = clock()
                shift += 48
                assert opened.is_open
                assert await cluster.connection(None, soon()) is opened
                shift += 3 + begun - clock()
                assert not opened.is_open
                assert len(broker.asked) == count
        finally:
            cluster.close()
            del loop.time


@pytest.mark.parametrize("session_ms", [0, 60_000])
async def test_a_session_without_a_limit_stays(session_ms):
    """Brokers that want no new login say 0."""
    async with scripted_broker() as broker:
        broker.session_ms = session_ms
        cluster = with_login(broker.address)
        opened = await cluster.connection(None, soon())
        assert (opened._session_ends is None) == (not session_ms)
        assert opened.is_open
        cluster.close()


async def test_a_slow_login_is_awaited_although_there_are_other_addresses():
    """Each step takes most of a second, and no other broker is asked."""
    async with AsyncExitStack() as stack:
        slow, other = [
            await stack.enter_async_context(scripted_broker()) for _ in range(2)
        ]
        slow.delays = {"ApiVersions": 0.6, "SaslAuthenticate": 0.6, "Metadata": 0.6}
        cluster = with_login(slow.address, other.address)
        answer = await cluster.refresh(soon())
        cluster.close()
    assert [slow.port] == [each.port for each in answer.brokers]
    assert other.asked == []


async def test_the_last_address_has_all_the_time_that_is_left(monkeypatch):
    """Only what comes before another address is given up early."""
    monkeypatch.setattr(wire_cluster, "_CONNECT_S", 0.1)
    async with AsyncExitStack() as stack:
        first, last = [
            await stack.enter_async_context(scripted_broker()) for _ in range(2)
        ]
        first.delays = last.delays = {"ApiVersions": 0.4}
        cluster = cluster_of(first.address, last.address)
        answer = await cluster.refresh(soon())
        cluster.close()
    assert [last.port] == [each.port for each in answer.brokers]


async def test_only_new_connections_that_close_count_as_no_support():
    """An old one may be closed for being idle, again and again."""
    async with scripted_broker() as broker:
        cluster = cluster_of(broker.address)
        await cluster.refresh(soon())
        for _ in range(3):
            broker.closes = 2  # the old connection, and a new one
            await cluster.refresh(soon())
        cluster.close()
    assert len(broker.asked) == 7


@pytest.mark.parametrize("has_login", [False, True])
async def test_a_request_that_closes_two_new_connections_is_not_supported(has_login):
    """The login before it does not make a connection an old one."""
    async with scripted_broker() as broker:
        cluster = (with_login if has_login else cluster_of)(broker.address)
        await cluster.refresh(soon())
        cluster.close()
        for _ in range(2):
            broker.asked, broker.closes = [], 99
            with pytest.raises(errors.UnsupportedVersionError, match="2 times"):
                await cluster.refresh(soon())
            assert len(broker.asked) == 2
        broker.closes = 0
        await cluster.refresh(soon())
        cluster.close()


async def test_a_broker_that_answered_too_late_is_asked_on_a_new_connection():
    """Twice in a row; the answer that comes late is not taken for the next one's."""
    async with scripted_broker() as broker:
        cluster = cluster_of(broker.address)
        await cluster.refresh(soon())
        for count in (1, 2):
            broker.delays = {"Metadata": 0.5}
            with pytest.raises(errors.ClientTimeoutError):
                await cluster.refresh(soon(0.1))
            broker.delays = {}
            await cluster.refresh(soon())
            assert len(broker.asked) == 1 + count
        cluster.close()


def mechanism(**answers):
    """Return a login whose mechanism ends with these answers."""
    login = Login(Settings((BOOTSTRAP,), mechanism="PLAIN"), "host", make)
    login._mechanism = SimpleNamespace(
        receive=lambda _: None, **{name: lambda a=a: a for name, a in answers.items()}
    )
    return login


def test_a_login_that_ends_without_proof_is_refused():
    """A broker may end the exchange and never say who it is."""
    with pytest.raises(errors.SaslAuthenticationFailedError, match="did not accept"):
        mechanism(is_done=True, is_authenticated=False).receive(b"")
    mechanism(is_done=True, is_authenticated=True).receive(b"")
    mechanism(is_done=False, is_authenticated=False).receive(b"")


def test_ctrl_c_ends_the_request_that_is_waited_for(monkeypatch):
    """Else it runs on, and holds a connection, until its own deadline."""
    begun, tasks, ended = threading.Event(), [], []

    async def ask():
        tasks.append(asyncio.current_task())
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("ask")

    class Interrupted:
        """A future whose result is interrupted."""

        def __init__(self, future):
            self.cancel = future.cancel

        def result(self):
            """Wait until it runs; then Ctrl-C."""
            assert begun.wait(10)
            raise KeyboardInterrupt

    start = io_thread.start
    monkeypatch.setattr(io_thread, "start", lambda asking: Interrupted(start(asking)))
    with pytest.raises(KeyboardInterrupt):
        io_thread.run(ask())
    start(asyncio.wait(tasks)).result(10)
    assert ended == ["ask"]
