"""Changes to private state of aiokafka's producer.

Its futures are the application's. So those of a failed batch stay open until the guard
settles them, and one that is sent again gets the outcome of its successor.
"""

# ruff: noqa: SLF001 - moving what is inside is what this module is for

from __future__ import annotations

import asyncio
import inspect
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from aiokafka.client import ConnectionGroup
from aiokafka.errors import (
    MessageSizeTooLargeError,
    NodeNotReadyError,
    ProducerClosed,
)
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.protocol.transaction import EndTxnRequest
from aiokafka.structs import RecordMetadata

from aiokafka import AIOKafkaProducer, TopicPartition
from kafkaguard._delivery.facts import Raw

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from aiokafka.producer.transaction_manager import PidAndEpoch

    #: How a record, or a batch, comes to the accumulator; its future is awaited for.
    Add = Callable[..., Coroutine[Any, Any, asyncio.Future[Any]]]

_FIRST_SEQUENCE = -(1 << 31)


class Followed(Protocol):
    """What is told of one batch."""

    def went(self) -> None:
        """It is in a request now."""

    def was_answered(self, code: int) -> None:
        """The request was answered with a code for it."""

    def was_not_sent(self) -> None:
        """The request was not sent, for want of a connection."""

    def waits_again(self) -> None:
        """The client sends it again later."""

    def was_accepted(self, base_offset: int | None) -> None:
        """The broker took it; ``base_offset`` is None where no answer is asked for."""

    def has_failed(self, error: BaseException) -> None:
        """The client has given it up."""

    async def room(self) -> None:
        """Wait until a record that waited for room may go on."""


class Gate(Protocol):
    """What stands before an accumulator; its functions take what that one's take."""

    def adding(self, add: Add) -> Add:
        """Return what takes in a record; it is called for each, so it is made once."""

    async def add_batch(self, builder: Any, tp: Any, timeout: float) -> Any:  # noqa: ASYNC109 - the client's own signature
        """Record a batch of the application's own."""


class Hooks:
    """All that is replaced in one producer.

    Args:
        producer: The producer.
        begin: Called with each new batch before it can be sent; returns who is told of
            it.
        gate: What stands before the accumulator's own functions that take in.

    Attributes:
        add: Takes in a record, past the gate.
        followed: Who is told of each batch.
        lost_end: A request to end a transaction has had no answer.
        requests: Those on their way.
    """

    def __init__(
        self, producer: Any, begin: Callable[[Any], Followed | None], gate: Gate
    ) -> None:
        self._accumulator = accumulator = producer._message_accumulator
        self._begin = begin
        self.followed: dict[Any, Followed] = {}
        self.lost_end = False
        self.requests: set[asyncio.Task[Any]] = set()
        self._append_batch = accumulator._append_batch
        self.add: Add = accumulator.add_message
        self.add_batch: Add = accumulator.add_batch
        self._reenqueue = accumulator.reenqueue
        self._send_produce_req = producer._sender._send_produce_req
        self._send = producer.client.send
        accumulator._append_batch = self.append_batch
        accumulator.add_message = gate.adding(self.add)
        accumulator.add_batch = gate.add_batch
        accumulator.reenqueue = self.reenqueue
        producer._sender._send_produce_req = self.send_produce_req
        producer.client.send = self.send

    def follow(self, batch: Any) -> None:
        """Have a batch told of; one that cannot be followed is sent nevertheless."""
        followed = self._begin(batch)
        if followed is not None:
            self.followed[batch] = followed
            _BatchHooks(batch, followed, self.followed)

    def append_batch(self, builder: Any, tp: Any) -> Any:
        """Make a batch, as the client's own method does."""
        batch = self._append_batch(builder, tp)
        self.follow(batch)
        return batch

    def reenqueue(self, batch: Any) -> None:
        """Let a batch wait to be sent again, unless it was given up meanwhile."""
        if batch.future.done():
            return
        followed = self.followed.get(batch)
        if followed is not None:
            followed.waits_again()
        self._reenqueue(batch)

    async def send_produce_req(self, node_id: Any, batches: Any) -> None:
        """Send batches, and be known as long as that takes."""
        task = asyncio.current_task()
        assert task is not None
        self.requests.add(task)
        try:
            await self._send_produce_req(node_id, batches)
        finally:
            self.requests.discard(task)

    async def send(
        self, node_id: Any, request: Any, *, group: Any = ConnectionGroup.DEFAULT
    ) -> Any:
        """Send any request; of Produce requests it is told what came of them."""
        if type(request) is EndTxnRequest:
            return await self._end(node_id, request, group)
        if type(request) is not ProduceRequest:
            return await self._send(node_id, request, group=group)
        batches = self._batches_of(request)
        for batch in batches.values():
            batch.went()
        try:
            response = await self._send(node_id, request, group=group)
        except NodeNotReadyError:
            for batch in batches.values():
                batch.was_not_sent()
            raise
        if response is not None and batches:
            for topic, partitions in response.topics:
                for partition, code, *_ in partitions:
                    if (topic, partition) in batches:
                        batches[topic, partition].was_answered(code)
        return response

    async def _end(self, node_id: Any, request: Any, group: Any) -> Any:
        """End a transaction, and note whether that may have happened unheard."""
        try:
            return await self._send(node_id, request, group=group)
        except NodeNotReadyError:
            raise
        except BaseException:
            self.lost_end = True
            raise

    def _batches_of(self, request: Any) -> dict[tuple[str, int], Followed]:
        """Find the batches of a request; there is one a partition."""
        wanted = {(topic, p) for topic, parts in request._topics for p, _ in parts}
        return {
            (batch.tp.topic, batch.tp.partition): followed
            for batch, followed in self.followed.items()
            if (batch.tp.topic, batch.tp.partition) in wanted
            and batch in self._accumulator._pending_batches
        }


class _BatchHooks:
    """What is replaced in one batch.

    Args:
        batch: The batch.
        followed: Who is told.
        known: Where it is known until it has its outcome.
    """

    __slots__ = ("_batch", "_done", "_failure", "_followed", "_known", "_wait_drain")

    def __init__(
        self, batch: Any, followed: Followed, known: dict[Any, Followed]
    ) -> None:
        self._batch = batch
        self._followed = followed
        self._known = known
        self._done, self._failure = batch.done, batch.failure
        self._wait_drain = batch.wait_drain
        batch.done, batch.done_noack = self.done, self.done_noack
        batch.failure, batch.wait_drain = self.failure, self.wait_drain

    def done(
        self,
        base_offset: Any,
        timestamp: Any = None,
        log_start_offset: Any = None,
        _record_metadata_class: Any = RecordMetadata,
    ) -> None:
        """Settle all futures, then tell."""
        self._known.pop(self._batch, None)
        if not self._batch.future.done():
            self._done(base_offset, timestamp, log_start_offset, _record_metadata_class)
        self._followed.was_accepted(base_offset)

    def done_noack(self) -> None:
        """Settle all futures of a batch for which no answer is asked."""
        self._known.pop(self._batch, None)
        if not self._batch.future.done():
            type(self._batch).done_noack(self._batch)
        self._followed.was_accepted(None)

    def failure(self, exception: BaseException) -> None:
        """Settle the future of the batch, not those of its records, then tell."""
        batch = self._batch
        self._known.pop(batch, None)
        futures, batch._msg_futures = batch._msg_futures, []
        try:
            self._failure(exception)
        finally:
            batch._msg_futures = futures
        batch.future.exception()  # nobody else looks at it
        with suppress(asyncio.InvalidStateError, asyncio.CancelledError):
            batch._drain_waiter.exception()
        self._followed.has_failed(exception)

    async def wait_drain(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - the client's own signature
        """Wait for room, then for what the guard lets records wait for."""
        await self._wait_drain(timeout)
        await self._followed.room()


# --- futures --------------------------------------------------------------------------


def was_seen(future: asyncio.Future[Any]) -> bool:
    """Return whether somebody has looked at the exception of a future."""
    return not future.cancelled() and not future._log_traceback


def forgive(future: asyncio.Future[Any]) -> None:
    """Have nothing logged of an exception at which nobody has looked: it was told."""
    future._log_traceback = False


def metadata_at(topic: str, partition: int, offset: int) -> RecordMetadata:
    """Make what a future of a delivered record says, without a time."""
    return RecordMetadata(
        topic, partition, TopicPartition(topic, partition), offset, -1, 0, -1
    )


def wrap_key_serializer(producer: Any, note: Callable[[Any, Any], None]) -> None:
    """Have what the key serialiser makes of a key noted, just before it is sent."""
    serialize = producer._key_serializer
    if serialize is None:
        return

    def serialize_and_note(key: Any) -> Any:
        sent = serialize(key)
        note(key, sent)
        return sent

    producer._key_serializer = serialize_and_note


def check_partitioner(producer: Any, refusal: Callable[..., Exception]) -> None:
    """Have a partition refused that the topic does not have.

    The client would take a record whose partitioner has made one up, and keep it until
    its time is over; where the call names one, it raises an AssertionError.

    Args:
        producer: Whose partitions are meant.
        refusal: Makes the error, of a topic, the partition, those that are there, and
            whether the call has named it.
    """
    trusted = type(producer._partitioner).__module__.startswith("aiokafka.")
    choose = producer._partition
    partitions_of = producer.client.cluster.partitions_for_topic

    def choose_and_check(
        topic: str,
        partition: int | None,
        key: Any,
        value: Any,
        serialized_key: Any,
        serialized_value: Any,
    ) -> Any:
        is_given = partition is not None
        try:
            chosen = choose(
                topic, partition, key, value, serialized_key, serialized_value
            )
        except AssertionError:
            if not is_given:
                raise
            chosen = partition
        else:
            if is_given or trusted:
                return chosen
        known = partitions_of(topic)
        if known is None or chosen in known:
            return chosen
        error: Any = refusal(topic, chosen, known, is_given=is_given)
        if not (serialized_key is None and serialized_value is None):
            error.kafkaguard_raw = Raw(serialized_key, serialized_value)
        raise error

    producer._partition = choose_and_check


def keep_large_records(producer: Any) -> None:
    """Have the error for a record that is too large for the client carry its bytes."""
    serialize = producer._serialize

    def serialize_and_keep(key: Any, value: Any, headers: Any) -> Any:
        try:
            return serialize(key, value, headers)
        except MessageSizeTooLargeError as error:
            key_of, value_of = producer._key_serializer, producer._value_serializer
            error.kafkaguard_raw = Raw(
                key if key_of is None else key_of(key),
                value if value_of is None else value_of(value),
                headers,
            )
            raise

    producer._serialize = serialize_and_keep


_ARGUMENTS = inspect.signature(AIOKafkaProducer.send)


def bytes_of(
    error: BaseException, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Raw | None:
    """Return the bytes that the error for a record carries; None: it carries none.

    Args:
        error: What ``send`` has raised.
        args: With what it was called.
        kwargs: The same.
    """
    raw: Raw | None = getattr(error, "kafkaguard_raw", None)
    if raw is None:
        return None
    try:
        given = _ARGUMENTS.bind_partial(None, *args, **kwargs).arguments
    except TypeError:  # a signature of the user's own
        return raw
    headers = given.get("headers") or raw.headers or ()
    return raw._replace(timestamp_ms=given.get("timestamp_ms"), headers=headers)


class NullKeyNotes:
    """Notes whether a batch of the application's own has records without a key.

    Args:
        builder: What the application fills.

    Attributes:
        count: How many there are.
    """

    def __init__(self, builder: Any) -> None:
        self.count = 0
        self._is_null = False
        self._append, self._make = builder.append, builder._serialize
        builder.append, builder._serialize = self.append, self.serialize
        builder.kafkaguard_null_keys = self

    def serialize(self, key: Any, value: Any) -> Any:
        """Serialise, as the builder does."""
        made = self._make(key, value)
        self._is_null = made[0] is None
        return made

    def append(
        self, *, timestamp: Any, key: Any, value: Any, headers: Any = None
    ) -> Any:
        """Append, as the builder does."""
        found = self._append(timestamp=timestamp, key=key, value=value, headers=headers)
        self.count += found is not None and self._is_null
        return found


def null_keys_in(builder: Any) -> int:
    """Count the records without a key in a batch that ``create_batch`` has made."""
    notes = getattr(builder, "kafkaguard_null_keys", None)
    return 0 if notes is None else notes.count


# --- records --------------------------------------------------------------------------


def place_of(producer: Any, topic: str, partition: int | None, raw: Raw) -> Any:
    """Return where bytes go; the client chooses the partition, if there is none."""
    if partition is None:
        key, value = raw.key, raw.value
        partition = producer._partition(topic, None, key, value, key, value)
    return TopicPartition(topic, partition)


async def wait_for_topic(producer: Any, topic: str) -> None:
    """Wait until the producer knows a topic."""
    await producer.client._wait_on_metadata(topic)


def end_linger(producer: Any) -> None:
    """Send what was taken in, as if it had lingered for long enough."""
    accumulator = producer._message_accumulator
    for line in accumulator._batches.values():
        for batch in line:
            batch._linger_time = 0
    wake(producer)


def wake(producer: Any) -> None:
    """Have the sender look at what there is to send."""
    waiter = producer._message_accumulator._waiter_future
    if not waiter.done():
        waiter.set_result(None)


def give_up(producer: Any, batch: Any, error: BaseException) -> None:
    """Fail a batch. One that waits will never be sent."""
    accumulator = producer._message_accumulator
    line = accumulator._batches.get(batch.tp)
    if line is not None and batch in line:
        line.remove(batch)
        if not line:
            del accumulator._batches[batch.tp]
    if not batch.future.done():
        batch.failure(error)


def rewind(producer: Any, batch: Any) -> None:
    """Number the next batch of a partition as one that was certainly not written.

    One batch of a partition is on its way at a time, so none has a later number.
    """
    numbers = producer._txn_manager._sequence_numbers
    number = numbers[batch.tp] - batch.record_count
    numbers[batch.tp] = number + (1 << 32) if number < _FIRST_SEQUENCE else number


def take_identity(producer: Any, identity: PidAndEpoch) -> None:
    """Give a new producer an id of its predecessor's, before it sends anything."""
    producer._txn_manager._pid_and_epoch = identity


# --- the end --------------------------------------------------------------------------


def refuse(producer: Any) -> None:
    """Record no more records; those that wait for room are told."""
    producer._message_accumulator._closed = True


def silence(producer: Any) -> None:
    """Let a producer send nothing more, and hear what is on its way.

    That is what its sender does when it is cancelled once.
    """
    task = producer._sender.sender_task
    if task is not None and not task.done():
        task.cancel()


async def end(producer: Any, requests: set[asyncio.Task[Any]], within: float) -> None:
    """End all tasks of a producer.

    Args:
        producer: The producer.
        requests: Its requests on their way.
        within: Seconds that they have to end by themselves.
    """
    silence(producer)
    sender = producer._sender.sender_task
    tasks = {task for task in (sender, *requests) if task is not None}
    if tasks:
        await asyncio.wait(tasks, timeout=within)
    for _ in range(len(tasks) + 1):  # a sender ends one request after the other
        left = {task for task in (sender, *requests) if task and not task.done()}
        if not left:
            break
        for task in left:
            task.cancel()
        await asyncio.wait(left, timeout=within)


async def close(producer: Any, within: float) -> None:
    """Close a producer's connections; its tasks have ended.

    Raises:
        TimeoutError: They did not close in time.
    """
    producer._closed = True
    try:
        async with asyncio.timeout(within):
            await producer.client.close()
    finally:
        let_go(producer)


def let_go(producer: Any) -> None:
    """Let the calls go that wait for metadata, now that nobody asks for it any more."""
    client = producer.client

    def ended() -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = producer._loop.create_future()
        future.set_exception(ProducerClosed("the producer has ended"))
        forgive(future)
        return future

    client.force_metadata_update = ended
    waiting = client._md_update_fut
    if waiting is not None and not waiting.done():
        waiting.set_exception(ProducerClosed("the producer has ended"))
        forgive(waiting)


def reopen(producer: Any) -> None:
    """Let a producer that did not start be started again."""
    producer._closed = False
