"""Guarded clients of aiokafka in another event loop than their own."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka.admin import AIOKafkaAdminClient

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from kafkaguard import Action, errors, guard

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
