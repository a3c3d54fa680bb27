"""A request of aiokafka that waits for a connection was not sent yet."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from aiokafka.errors import NodeNotReadyError
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.protocol.transaction import EndTxnRequest

from aiokafka import TopicPartition
from kafkaguard_adapters.aiokafka._private.producing.moving import Hooks

PLACE = TopicPartition("t", 0)


class Told:
    """Keeps what a batch was told."""

    def __init__(self):
        self.calls = []

    def went(self):
        """Note that the batch is in a request."""
        self.calls.append("went")

    def was_answered(self, code):
        """Note the code of the answer."""
        self.calls.append(code)


class _Batch:
    """A batch of the client."""

    tp = PLACE

    def __init__(self):
        self.future = asyncio.get_running_loop().create_future()


class Bench:
    """Hooks of a producer whose connection opens when the test says so."""

    def __init__(self):
        self.opened = asyncio.get_running_loop().create_future()
        self.written = []
        self.batch = _Batch()
        accumulator = SimpleNamespace(
            _append_batch=None,
            add_message=None,
            add_batch=None,
            reenqueue=None,
            _pending_batches={self.batch},
        )
        self.client = SimpleNamespace(ready=self.ready, send=self.write)
        producer = SimpleNamespace(
            _message_accumulator=accumulator,
            _sender=SimpleNamespace(_send_produce_req=None),
            client=self.client,
        )
        gate = SimpleNamespace(adding=lambda add: add, add_batch=None)
        self.hooks = Hooks(producer, lambda batch: None, gate)
        self.told = self.hooks.followed[self.batch] = Told()

    async def ready(self, node_id, *, group):
        """Wait for the connection, as the client does."""
        return await self.opened

    async def write(self, node_id, request, *, group):
        """Write the request; its answer accepts the batch."""
        self.written.append(request)
        return SimpleNamespace(topics=[("t", [(0, 0, 5)])])

    async def start(self, request):
        """Send a request, until it waits for the connection."""
        task = asyncio.create_task(self.client.send(0, request))
        await asyncio.sleep(0)
        return task


def produce():
    """Make a request with the batch."""
    return ProduceRequest(None, 1, 1, [(PLACE.topic, [(PLACE.partition, b"")])])


async def test_a_batch_counts_as_sent_when_there_is_a_connection():
    """Before that, the broker cannot have written it."""
    bench = Bench()
    sending = await bench.start(produce())
    assert bench.told.calls == []
    bench.opened.set_result(True)
    await sending
    assert bench.told.calls == ["went", 0]


async def test_a_batch_without_a_connection_was_not_sent():
    """The client is told so, and queues the batch again."""
    bench = Bench()
    sending = await bench.start(produce())
    bench.opened.set_result(False)
    with pytest.raises(NodeNotReadyError):
        await sending
    assert (bench.told.calls, bench.written) == ([], [])


async def test_a_batch_given_up_before_the_connection_is_never_sent():
    """Its records may be sent again by then: they would be written twice."""
    bench = Bench()
    sending = await bench.start(produce())
    bench.batch.future.set_exception(TimeoutError())
    bench.batch.future.exception()
    bench.opened.set_result(True)
    with pytest.raises(NodeNotReadyError, match="given up"):
        await sending
    assert (bench.told.calls, bench.written) == ([], [])


async def test_the_end_of_a_transaction_without_a_connection_was_not_sent():
    """It is not in doubt when its caller stops waiting."""
    bench = Bench()
    sending = await bench.start(EndTxnRequest("t", 1, 0, True))
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
    assert (bench.hooks.lost_end, bench.written) == (False, [])
