"""Changes to private state of aiokafka's producer.

The application waits on the client's own futures. So the futures of a failed batch stay
open until the guard settles them. If a record is sent again, its first future gets the
outcome of the second send.
"""

# ruff: noqa: SLF001 - this module exists to change private attributes

from __future__ import annotations

import asyncio
import inspect
import traceback
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, cast

from aiokafka.client import ConnectionGroup
from aiokafka.errors import (
    InvalidTopicError,
    KafkaError,
    MessageSizeTooLargeError,
    NodeNotReadyError,
    ProducerClosed,
)
from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.protocol.transaction import EndTxnRequest
from aiokafka.structs import RecordMetadata

from aiokafka import AIOKafkaProducer, TopicPartition
from kafkaguard._common.topic_names import ALLOWED, can_be_a_topic, shortened
from kafkaguard._delivery.facts import Raw

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from aiokafka.producer.transaction_manager import PidAndEpoch

    #: Adds a record or a batch to the accumulator; the result is its future.
    Add = Callable[..., Coroutine[Any, Any, asyncio.Future[Any]]]

_FIRST_SEQUENCE = -(1 << 31)


class Followed(Protocol):
    """Receives what happens to one batch."""

    def went(self) -> None:
        """The batch is in a request now."""

    def was_answered(self, code: int) -> None:
        """The answer to the request has this code for the batch."""

    def was_not_sent(self) -> None:
        """The request was not sent, because there is no connection."""

    def waits_again(self) -> None:
        """The client will send the batch again later."""

    def was_accepted(self, base_offset: int | None) -> None:
        """The broker accepted the batch; with acks=0, ``base_offset`` is None."""

    def has_failed(self, error: BaseException) -> None:
        """The client has given up the batch."""

    async def room(self) -> None:
        """Wait until a record that waited for room may be added."""


class Gate(Protocol):
    """Replaces an accumulator's functions, with the same parameters."""

    def adding(self, add: Add) -> Add:
        """Return the function that adds a record; made once, called for each."""

    async def add_batch(self, builder: Any, tp: Any, timeout: float) -> Any:  # noqa: ASYNC109 - the client's own signature
        """Add a batch that the application has built."""


class Hooks:
    """The methods that are replaced in one producer.

    Args:
        producer: The producer.
        begin: Called with each new batch before it can be sent; returns the receiver of
            what happens to the batch.
        gate: Replaces the accumulator's functions that add records and batches.

    Attributes:
        add: Adds a record without the gate.
        add_batch: Adds a batch without the gate.
        followed: The receiver for each batch.
        lost_end: Whether a request to end a transaction has had no answer.
        requests: The tasks of the requests in flight.
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
        self._client = producer.client
        self._send = producer.client.send
        accumulator._append_batch = self.append_batch
        accumulator.add_message = gate.adding(self.add)
        accumulator.add_batch = gate.add_batch
        accumulator.reenqueue = self.reenqueue
        producer._sender._send_produce_req = self.send_produce_req
        producer.client.send = self.send

    def follow(self, batch: Any) -> None:
        """Track a batch; if that is not possible, the batch is sent nevertheless."""
        followed = self._begin(batch)
        if followed is not None:
            self.followed[batch] = followed
            _BatchHooks(batch, followed, self.followed, self._accumulator)

    def append_batch(self, builder: Any, tp: Any) -> Any:
        """Create a batch, as the client's own method does, and track it."""
        batch = self._append_batch(builder, tp)
        self.follow(batch)
        return batch

    def reenqueue(self, batch: Any) -> None:
        """Queue a batch to be sent again, unless it was given up meanwhile."""
        if batch.future.done():
            return
        followed = self.followed.get(batch)
        if followed is not None:
            followed.waits_again()
        self._reenqueue(batch)

    async def send_produce_req(self, node_id: Any, batches: Any) -> None:
        """Send batches; the task is in ``requests`` until that is done."""
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
        """Send any request, and report the outcome of a Produce request."""
        if type(request) is EndTxnRequest:
            return await self._end(node_id, request, group)
        if type(request) is not ProduceRequest:
            return await self._send(node_id, request, group=group)
        sources = self._batches_of(request)
        await self._connect(node_id, group)
        if any(source.future.done() for source in sources):
            # They may have been sent again. The client queues the others again.
            raise NodeNotReadyError("batches of the request were given up meanwhile")
        batches = {source.tp: followed for source, followed in sources.items()}
        for batch in batches.values():
            batch.went()
        try:
            response = await self._send(node_id, request, group=group)
        except NodeNotReadyError:
            for batch in batches.values():
                batch.was_not_sent()
            raise
        if response is not None:
            _note_answers(response, batches)
        return response

    async def _connect(self, node_id: Any, group: Any) -> None:
        """Wait for the connection before a request, which counts as sent after it.

        A silent broker lets the client wait for ``request_timeout_ms``. With an open
        connection, the client's own ``send`` writes the request without waiting.

        Raises:
            NodeNotReadyError: There is no connection; the request was not sent.
        """
        if not await self._client.ready(node_id, group=group):
            raise NodeNotReadyError(f"no connection to node {node_id}")

    async def _end(self, node_id: Any, request: Any, group: Any) -> Any:
        """End a transaction, and record whether the answer was lost."""
        await self._connect(node_id, group)
        try:
            return await self._send(node_id, request, group=group)
        except NodeNotReadyError:
            raise
        except BaseException:
            self.lost_end = True
            raise

    def _batches_of(self, request: Any) -> dict[Any, Followed]:
        """Find the batches of a request among the pending ones, one for a partition."""
        places = {(topic, p) for topic, parts in request._topics for p, _ in parts}
        followed = self.followed
        return {
            batch: followed[batch]
            for batch in self._accumulator._pending_batches
            if batch.tp in places and batch in followed
        }


def _note_answers(response: Any, batches: dict[Any, Followed]) -> None:
    """Report the answer for each batch of a Produce request, by its partition."""
    for topic, partitions in response.topics:
        for partition, code, *_ in partitions:
            if (topic, partition) in batches:
                batches[topic, partition].was_answered(code)


class _BatchHooks:
    """The methods that are replaced in one batch.

    Args:
        batch: The batch.
        followed: The receiver of what happens to the batch.
        known: The tracked batches; a batch is removed when it has its outcome.
        accumulator: The accumulator of the batch.
    """

    __slots__ = (
        "_accumulator",
        "_batch",
        "_done",
        "_failure",
        "_followed",
        "_known",
        "_wait_drain",
    )

    def __init__(
        self,
        batch: Any,
        followed: Followed,
        known: dict[Any, Followed],
        accumulator: Any,
    ) -> None:
        self._accumulator = accumulator
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
        """Settle all futures, then report the batch as accepted."""
        self._known.pop(self._batch, None)
        if not self._batch.future.done():
            self._done(base_offset, timestamp, log_start_offset, _record_metadata_class)
        self._let_go()
        self._followed.was_accepted(base_offset)

    def done_noack(self) -> None:
        """Settle all futures of a batch that was sent with acks=0."""
        self._known.pop(self._batch, None)
        if not self._batch.future.done():
            type(self._batch).done_noack(self._batch)
        self._let_go()
        self._followed.was_accepted(None)

    def _let_go(self) -> None:
        """Restore the batch's own methods: nothing more happens to an accepted batch.

        Otherwise the batch and its hooks would refer to each other, and all its records
        and futures would stay in memory until the garbage collector finds them.
        """
        batch = self._batch
        with suppress(AttributeError):  # done already
            del batch.done, batch.done_noack, batch.failure, batch.wait_drain

    def failure(self, exception: BaseException) -> None:
        """Settle the batch's own future, not its records', then report the failure."""
        batch = self._batch
        self._known.pop(batch, None)
        futures, batch._msg_futures = batch._msg_futures, []
        if batch.retry_count and not batch.future.done():
            # The client takes it out of these when its future is done, also where it
            # has put it back among the batches to send.
            self._accumulator._pending_batches.add(batch)
        try:
            self._failure(exception)
        finally:
            batch._msg_futures = futures
        batch.future.exception()  # nobody else reads it: avoids asyncio's warning
        with suppress(asyncio.InvalidStateError, asyncio.CancelledError):
            batch._drain_waiter.exception()
        self._followed.has_failed(exception)

    async def wait_drain(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - the client's own signature
        """Wait for room, then for a hold of the guard.

        A batch that fails before it is sent makes room, too. Its error is not the error
        of the record that waits, unless the client accepts no more records.
        """
        try:
            await self._wait_drain(timeout)
        except KafkaError:
            accumulator = self._accumulator
            if accumulator._closed or accumulator._exception is not None:
                raise
        await self._followed.room()


# --- futures --------------------------------------------------------------------------


def was_seen(future: asyncio.Future[Any]) -> bool:
    """Return whether somebody has read the exception of a future."""
    return not future.cancelled() and not future._log_traceback


def forgive(future: asyncio.Future[Any]) -> None:
    """Keep asyncio from logging a future's unread exception: it was reported."""
    future._log_traceback = False


def metadata_at(topic: str, partition: int, offset: int) -> RecordMetadata:
    """Return the metadata of a delivered record, without a timestamp."""
    return RecordMetadata(
        topic, partition, TopicPartition(topic, partition), offset, -1, 0, -1
    )


def wrap_key_serializer(producer: Any, note: Callable[[Any, Any], None]) -> None:
    """Call ``note`` with each key and its serialised form, before it is sent."""
    serialize = producer._key_serializer
    if serialize is None:
        return

    def serialize_and_note(key: Any) -> Any:
        serialized = serialize(key)
        note(key, serialized)
        return serialized

    producer._key_serializer = serialize_and_note


def check_topic_names(producer: Any) -> None:
    """Refuse a name that is not a topic's before the client asks brokers for it.

    The client asks for each topic of its list at once, and would get no answer about
    any of them while a wrong name is in the list.
    """
    client = producer.client
    add = client.add_topic

    def add_topic(topic: Any) -> Any:
        if not isinstance(topic, str):
            raise TypeError(
                f"topic must be a str, not {type(topic).__name__}; nothing was sent"
            )
        if not can_be_a_topic(topic):
            raise InvalidTopicError(
                f"{shortened(topic)!r} is not a topic's name ({ALLOWED}); nothing was "
                "sent"
            )
        return add(topic)

    client.add_topic = add_topic


def answer_for_known_topics(producer: Any) -> None:
    """Let no send of a known topic run a coroutine that only finds the topic known.

    The client awaits its ``_wait_on_metadata`` for each record. For a topic in the
    client's metadata, a future that is done gives the same partitions. For any other
    topic, the client's own coroutine asks the brokers.
    """
    client = producer.client
    cluster, wait = client.cluster, client._wait_on_metadata
    if not hasattr(cluster, "_partitions"):
        return
    answers: dict[str, asyncio.Future[set[int]]] = {}
    answered_for: Any = None

    def wait_on_metadata(topic: Any) -> Any:
        nonlocal answered_for
        partitions = cluster._partitions
        if topic not in partitions:
            return wait(topic)
        if partitions is not answered_for:  # new metadata is a new dict
            answers.clear()
            answered_for = partitions
        answer = answers.get(topic)
        if answer is None:
            answers[topic] = answer = producer._loop.create_future()
            answer.set_result(cluster.partitions_for_topic(topic))
        return answer

    client._wait_on_metadata = wait_on_metadata


def refused_partition(
    producer: Any, error: AssertionError, make_error: Callable[..., Exception]
) -> Exception | None:
    """Return the error for a partition that a call names and the topic does not have.

    The client raises an AssertionError for it, in the method that the traceback shows.

    Args:
        producer: The producer.
        error: What a sending method has raised.
        make_error: Makes the error, from the topic, the partition and the existing
            partitions.
    """
    raised_in = None
    for frame, _ in traceback.walk_tb(error.__traceback__):
        raised_in = frame
    if (
        raised_in is None
        or raised_in.f_code is not AIOKafkaProducer._partition.__code__
    ):
        return None
    variables = raised_in.f_locals
    topic, partition = variables["topic"], variables["partition"]
    if partition is None:
        return None
    partitions = producer.client.cluster.partitions_for_topic(topic)
    if partitions is None or partition in partitions:
        return None
    partition_error = make_error(topic, partition, partitions)
    return _with_raw(
        partition_error, variables["serialized_key"], variables["serialized_value"]
    )


def _with_raw(error: Any, key: Any, value: Any) -> Exception:
    """Add the bytes of a refused record to its error; a whole batch has none."""
    if not (key is None and value is None):
        error.kafkaguard_raw = Raw(key, value)
    return cast("Exception", error)


async def fresh_partitions(producer: Any, topic: str, within: float) -> set[int] | None:
    """Ask for new metadata; return a topic's partitions, or None if none came in time.

    Args:
        producer: The producer.
        topic: The topic.
        within: Time limit in seconds.
    """
    client, partitions = producer.client, None
    with suppress(TimeoutError):
        async with asyncio.timeout(within):
            if await client.force_metadata_update():
                partitions = client.cluster.partitions_for_topic(topic)
    return partitions


def keep_large_records(producer: Any) -> None:
    """Add the record's bytes to the client's error for a record that is too large."""
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
    """Return the record's bytes that an error has; None: it has none.

    Args:
        error: What ``send`` has raised.
        args: The positional arguments of the call.
        kwargs: The keyword arguments of the call.
    """
    raw: Raw | None = getattr(error, "kafkaguard_raw", None)
    if raw is None:
        return None
    try:
        arguments = _ARGUMENTS.bind_partial(None, *args, **kwargs).arguments
    except TypeError:  # the user's class has another signature
        return raw
    headers = arguments.get("headers") or raw.headers or ()
    return raw._replace(timestamp_ms=arguments.get("timestamp_ms"), headers=headers)


class NullKeyNotes:
    """Counts the records without a key in a batch that the application builds.

    Args:
        builder: The batch builder that the application fills.

    Attributes:
        count: How many records have no key.
    """

    def __init__(self, builder: Any) -> None:
        self.count = 0
        self._is_null = False
        self._append, self._serialize = builder.append, builder._serialize
        builder.append, builder._serialize = self.append, self.serialize
        builder.kafkaguard_null_keys = self

    def serialize(self, key: Any, value: Any) -> Any:
        """Serialise, as the builder does."""
        parts = self._serialize(key, value)
        self._is_null = parts[0] is None
        return parts

    def append(
        self, *, timestamp: Any, key: Any, value: Any, headers: Any = None
    ) -> Any:
        """Append, as the builder does."""
        result = self._append(
            timestamp=timestamp, key=key, value=value, headers=headers
        )
        self.count += result is not None and self._is_null
        return result


def is_batch(builder: Any) -> bool:
    """Return whether ``create_batch`` has made a thing."""
    return isinstance(builder, BatchBuilder)


def null_keys_in(builder: Any) -> int:
    """Count the records without a key in a batch that ``create_batch`` has made."""
    notes = getattr(builder, "kafkaguard_null_keys", None)
    return 0 if notes is None else notes.count


# --- records --------------------------------------------------------------------------


def place_of(producer: Any, topic: str, partition: int | None, raw: Raw) -> Any:
    """Return a record's partition; without one, the client chooses it."""
    if partition is None:
        key, value = raw.key, raw.value
        partition = producer._partition(topic, None, key, value, key, value)
    return TopicPartition(topic, partition)


async def wait_for_topic(producer: Any, topic: str) -> None:
    """Wait until the producer knows a topic."""
    await producer.client._wait_on_metadata(topic)


def end_linger(producer: Any) -> None:
    """Send the records in the accumulator now, without lingering."""
    accumulator = producer._message_accumulator
    for line in accumulator._batches.values():
        for batch in line:
            batch._linger_time = 0
    wake(producer)


def wake(producer: Any) -> None:
    """Wake up the sender, so that it sends what is ready."""
    waiter = producer._message_accumulator._waiter_future
    if not waiter.done():
        waiter.set_result(None)


def fail_batch(producer: Any, batch: Any, error: BaseException) -> None:
    """Fail a batch. If it is still in the accumulator, it will never be sent."""
    accumulator = producer._message_accumulator
    line = accumulator._batches.get(batch.tp)
    if line is not None and batch in line:
        line.remove(batch)
        if not line:
            del accumulator._batches[batch.tp]
    if not batch.future.done():
        batch.failure(error)


def rewind(producer: Any, batch: Any) -> None:
    """Give a batch's sequence number to the next batch: the batch was not written.

    Only one batch of a partition is in flight at a time, so none has a later number.
    """
    numbers = producer._txn_manager._sequence_numbers
    number = numbers[batch.tp] - batch.record_count
    numbers[batch.tp] = number + (1 << 32) if number < _FIRST_SEQUENCE else number


def take_identity(producer: Any, identity: PidAndEpoch) -> None:
    """Give a new producer the producer id of an old one, before it sends anything."""
    producer._txn_manager._pid_and_epoch = identity


# --- the end --------------------------------------------------------------------------


def shut_intake(producer: Any) -> None:
    """Accept no more records; calls that wait for room fail."""
    producer._message_accumulator._closed = True


def stop_sending(producer: Any) -> None:
    """Let a producer send nothing more, and still get the answers in flight.

    The client's sender does this when it is cancelled once.
    """
    task = producer._sender.sender_task
    # A second one would cancel a request in flight, for which the task waits.
    if task is not None and not task.done() and not task.cancelling():
        task.cancel()


async def end(producer: Any, requests: set[asyncio.Task[Any]], within: float) -> None:
    """End all tasks of a producer.

    Args:
        producer: The producer.
        requests: The tasks of its requests in flight.
        within: Seconds that the tasks have to end by themselves.
    """
    stop_sending(producer)
    sender = producer._sender.sender_task
    tasks = {task for task in (sender, *requests) if task is not None}
    if tasks:
        await asyncio.wait(tasks, timeout=within)
    for _ in range(len(tasks) + 1):  # the sender cancels its requests one by one
        left = {task for task in (sender, *requests) if task and not task.done()}
        if not left:
            break
        for task in left:
            task.cancel()
        await asyncio.wait(left, timeout=within)


async def close(producer: Any, within: float) -> None:
    """Close a producer's connections, after its tasks have ended.

    Raises:
        TimeoutError: The connections did not close in time.
    """
    producer._closed = True
    try:
        async with asyncio.timeout(within):
            await producer.client.close()
    finally:
        fail_metadata_waiters(producer)


def fail_metadata_waiters(producer: Any) -> None:
    """Fail the calls that wait for metadata, because no task fetches it any more.

    They learn that the update under way has failed, and get the error when they ask
    again. An error of that update itself would also reach futures that nobody awaits,
    which asyncio logs.
    """
    client = producer.client

    def ended() -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = producer._loop.create_future()
        future.set_exception(ProducerClosed("the producer has ended"))
        forgive(future)
        return future

    client.force_metadata_update = ended
    waiting = client._md_update_fut
    if waiting is not None and not waiting.done():
        waiting.set_result(False)
