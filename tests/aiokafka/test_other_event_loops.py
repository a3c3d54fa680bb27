"""Guarded clients of aiokafka in another event loop than their own."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka.admin import AIOKafkaAdminClient

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from kafkaguard import Action, errors, guard
from kafkaguard_adapters.aiokafka._private.producing import names

NOWHERE = "127.0.0.1:1"


async def build(kind):
    """Build a client in the loop that runs, and guard it."""
    return guard(kind(bootstrap_servers=NOWHERE))


async def opened(kind):
    """Build a client with a task, as after start()."""
    guarded = await build(kind)
    client = guarded.client
    inner = getattr(client, "_client", None) or client.client
    inner._sync_task = asyncio.create_task(asyncio.sleep(60))
    return guarded


def check(kind, end):
    """Try to close a client in another loop, then close it in its own."""
    with asyncio.Runner() as runner:
        client = runner.run(opened(kind))
        with pytest.raises(errors.ClientStateError, match="another event loop") as told:
            asyncio.run(end(client))
        assert told.value.verdict.action is Action.CONFIGURE
        assert not client.cluster_view.is_closed
        runner.run(end(client))
        assert client.cluster_view.is_closed
        assert asyncio.all_tasks(runner.get_loop()) == set()
        asyncio.run(end(client))  # nothing is left to do


@pytest.mark.filterwarnings("ignore::kafkaguard.errors.StackingWarning")
@pytest.mark.parametrize("kind", [AIOKafkaConsumer, AIOKafkaProducer])
def test_stop_in_another_loop_closes_nothing(kind):
    """The client alone would be closed by half, and keep its tasks."""
    check(kind, lambda client: client.stop())


def test_close_of_an_admin_client_in_another_loop_closes_nothing():
    """close() in another event loop raises, and the admin client stays usable."""
    check(AIOKafkaAdminClient, lambda client: client.close())


@pytest.mark.filterwarnings("ignore::kafkaguard.errors.StackingWarning")
def test_a_producer_with_other_private_names_refuses_it_too(monkeypatch):
    """It is guarded by its public methods only."""
    monkeypatch.setitem(names.USED, "Sender", ("no_such_name",))
    check(AIOKafkaProducer, lambda client: client.stop())


@pytest.mark.filterwarnings("ignore::kafkaguard.errors.StackingWarning")
async def test_a_producer_with_other_private_names_may_be_started_again(monkeypatch):
    """It is not told as a client that was closed."""
    monkeypatch.setitem(names.USED, "Sender", ("no_such_name",))
    producer = await build(AIOKafkaProducer)
    with pytest.raises(errors.ClientNotConnectedError):
        await producer.start()
    with pytest.raises(errors.ClientClosedError, match="did not start") as caught:
        await producer.send("t", b"v", b"k")
    assert caught.value.verdict.action is Action.CONFIGURE
    await producer.stop()
