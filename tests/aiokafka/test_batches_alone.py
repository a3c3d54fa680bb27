"""aiokafka's batches and why their records failed, without a broker."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from aiokafka.errors import KafkaError, KafkaTimeoutError
from aiokafka.producer.message_accumulator import BatchBuilder, MessageBatch

from aiokafka import TopicPartition
from kafkaguard_adapters.aiokafka._private.producing import moving
from kafkaguard_adapters.aiokafka.batches import SourceBatch, TakenBackError

NO, MAYBE, LOST, NOT_SENT = 19, 20, None, "not sent"


def batch_of(*keys, is_alive=True):
    """Make a batch, of a client whose sender runs or has ended."""
    builder = BatchBuilder(10_000, 0)
    source = MessageBatch(TopicPartition("t", 0), builder, 4.0, 0)
    for key in keys:
        source.append(key, b"v", None)
    task = SimpleNamespace(done=lambda: not is_alive)
    producer = SimpleNamespace(_sender=SimpleNamespace(sender_task=task))
    return SourceBatch(None, producer, source, (0, 0), 5.0)


def try_to_send(batch, *ends):
    """Let the client make requests that end with a code, without one, or not at all."""
    for end in ends:
        batch.went()
        if end is NOT_SENT:
            batch.was_not_sent()
        elif end is not LOST:
            batch.was_answered(end)
            batch.waits_again()


@pytest.mark.parametrize(
    ("ends", "sent", "code"),
    [
        ([NO], "answered", NO),
        ([NO, 3, NOT_SENT], "answered", 3),
        ([NOT_SENT], "never", None),
        ([NO, LOST], "maybe", None),
        ([NO, MAYBE, NO], "maybe", None),
        ([NO, 56, NO], "maybe", None),
    ],
)
async def test_a_batch_that_expires_keeps_the_answer_of_requests_that_were_all_refused(
    ends, sent, code
):
    """A request without an answer, or with one that is not certain, leaves a doubt."""
    batch = batch_of(b"a", b"b")
    try_to_send(batch, *ends)
    for refusal in batch.refusals(KafkaTimeoutError()):
        assert (refusal.sent, getattr(refusal.cause, "errno", None)) == (sent, code)
        assert refusal.was_unanswered is False
        assert (refusal.blame == "client") == (code is None)


@pytest.mark.parametrize(
    ("cause", "is_alive"),
    [(TakenBackError(), True), (KafkaError("it has ended"), False)],
)
async def test_a_batch_that_leaves_its_client_was_not_refused_itself(cause, is_alive):
    """It is taken back, or its client has ended: another client may send it."""
    batch = batch_of(b"a", is_alive=is_alive)
    try_to_send(batch, NO)
    [refusal] = batch.refusals(cause)
    assert (refusal.blame, refusal.sent, refusal.expired) == ("client", "never", False)


async def test_a_dead_producer_hears_the_answers_of_requests_to_other_brokers():
    """Also where it is stopped twice: the client waits for them after the first time."""
    heard = []

    async def request():
        await asyncio.sleep(0.01)
        heard.append("answer")

    async def send():  # as the client's sender does
        task = asyncio.create_task(request())
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await task

    task = asyncio.create_task(send())
    await asyncio.sleep(0)
    producer = SimpleNamespace(_sender=SimpleNamespace(sender_task=task))
    for _ in range(2):
        moving.stop_sending(producer)
        await asyncio.sleep(0)
    await asyncio.wait([task])
    assert heard == ["answer"]
