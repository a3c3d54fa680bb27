"""Changes to private state of kafka-python's producer (3.x).

The public interface cannot end a producer whose broker does not answer, cannot send the
bytes of a record again, and has no time limit for the end of a transaction.
"""

# ruff: noqa: SLF001 - this module is for changes to private attributes

from __future__ import annotations

import inspect
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from kafka import KafkaProducer, TopicPartition
from kafka.errors import DuplicateSequenceNumberError, IllegalStateError
from kafka.future import Future
from kafka.producer.future import FutureProduceResult, FutureRecordMetadata

from kafkaguard._delivery.facts import Raw
from kafkaguard_adapters.kafka_python._private.reading import is_ready, is_sender_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafka.producer.transaction_manager import ProducerIdAndEpoch

_POLL_S = 0.01
#: Codes of an answer to a batch that is in the topic.
_ACCEPTED = (0, DuplicateSequenceNumberError.errno)
#: Seconds that running sends have to put their records into the client's buffer.
_APPEND_S = 1.0


def attach(inner: Any, record: Any) -> None:
    """Set the guard's record as the value of a failed future, which has no other."""
    inner.value = record


def report_batches(producer: Any, report: Callable[[Any], object]) -> None:
    """Call a function with each new batch, before the batch can be sent.

    The client calls the replaced method while it holds the lock of the batch's
    partition.
    """
    incomplete = producer._accumulator._incomplete
    note = incomplete.add

    def note_and_report(batch: Any) -> None:
        note(batch)
        report(batch)

    incomplete.add = note_and_report


def check_appends(producer: Any, check_record: Callable[[str, int, Raw], Any]) -> None:
    """Call a function with each record, in its final bytes, before it is in a batch.

    Args:
        producer: The client's producer.
        check_record: Called with topic, partition and record. It returns None if the
            record may enter a batch, or the future of a record that must not, or it
            raises.
    """
    accumulator = producer._accumulator
    append = accumulator.append

    def check_and_append(
        tp: Any,
        timestamp_ms: Any,
        key: Any,
        value: Any,
        headers: Any,
        now: Any = None,
        abort_on_new_batch: Any = False,
    ) -> Any:
        topic, partition = tp
        inner = check_record(topic, partition, Raw(key, value, headers, timestamp_ms))
        if inner is not None:
            return inner, False, False, False
        return append(tp, timestamp_ms, key, value, headers, now, abort_on_new_batch)

    accumulator.append = check_and_append


def report_retries(producer: Any, report: Callable[[Any, Any, bool], object]) -> None:
    """Report each batch that the client will send again, in the client's own thread.

    Args:
        producer: The client's producer.
        report: Called with the batch, the exception of the attempt that has just
            ended, and whether a broker has answered it.
    """
    sender = producer._sender
    dispatch = sender._dispatch_error

    def dispatch_and_report(
        batch: Any, exception: Any, partition_response: Any
    ) -> None:
        dispatch(batch, exception, partition_response)
        if batch.final_state is None:
            report(batch, exception, partition_response is not None)

    sender._dispatch_error = dispatch_and_report


def note_requests(producer: Any) -> None:
    """Note when the client last made requests of the batches that it took to send.

    A batch that has no time left is failed between the two. If it was sent before, the
    client makes no requests of what it took with it.
    """
    sender = producer._sender
    make, send = sender._create_produce_requests, sender._send_producer_data

    def note_and_make(collated: Any) -> Any:
        sender.requests_made_at = time.monotonic()
        return make(collated)

    def note_and_send(now: Any = None) -> Any:
        sender.is_sending = True
        try:
            return send(now)
        finally:
            sender.is_sending = False

    sender.requests_made_at, sender.is_sending = time.monotonic(), False
    sender._create_produce_requests = note_and_make
    sender._send_producer_data = note_and_send


def keep_numbers(producer: Any, may_be_written: Callable[[Any], bool]) -> None:
    """Let an idempotent producer give no sequence number twice, and none anew.

    After UNKNOWN_PRODUCER_ID the client may number the next batch as the one that it
    sends again, so the broker would drop it as a copy. The parts of a batch that it
    splits get new numbers, with which the broker would write them again.

    Args:
        producer: The client's producer.
        may_be_written: Returns whether an earlier attempt may have written a batch.
    """
    sender = producer._sender
    can_split = sender._can_split

    def may_split(batch: Any, error: Any) -> Any:
        return not may_be_written(batch) and can_split(batch, error)

    def is_never(batch: Any, error_cls: Any, log_start_offset: Any) -> bool:  # noqa: ARG001 - the client's own arguments
        return False

    sender._can_split = may_split
    sender._is_retention_based_unknown_producer_id = is_never


def report_late_refusals(producer: Any, report: Callable[[Any, Any], object]) -> None:
    """Report refusals of batches that the producer had already given up.

    Args:
        producer: The client's producer.
        report: Called with the batch, and a function from a record's index to its
            exception.
    """
    sender = producer._sender
    dispatch = sender._dispatch_error

    def report_and_dispatch(
        batch: Any, exception: Any, partition_response: Any
    ) -> None:
        answer = partition_response
        if answer is not None and batch.final_state is not None:
            report(
                batch,
                sender._record_exceptions_fn(
                    exception, answer.record_errors, answer.error_message
                ),
            )
        dispatch(batch, exception, partition_response)

    sender._dispatch_error = report_and_dispatch


def report_late_acceptances(
    producer: Any, report: Callable[[Any, int | None], object]
) -> None:
    """Report acceptances of batches that the producer had already given up.

    Args:
        producer: The client's producer.
        report: Called with the batch, and its base offset; None if the answer, that of
            a repeated batch, has none.
    """
    sender = producer._sender
    complete = sender._complete_batch

    def report_and_complete(batch: Any, partition_response: Any) -> None:
        code = partition_response.error_code
        if batch.final_state is not None and code in _ACCEPTED:
            report(batch, None if code else partition_response.base_offset)
        complete(batch, partition_response)

    sender._complete_batch = report_and_complete


def fail_metadata_waiters(producer: Any) -> None:
    """Fail the sends that wait for a topic's metadata: it is not requested any more."""
    metadata = producer._metadata
    error = IllegalStateError("the producer has ended")
    metadata.request_update = lambda: Future().failure(error)
    with metadata._lock:
        waiting = metadata._future
    if waiting is not None and not waiting.is_done:
        waiting.failure(error)


def append(producer: Any, topic: str, partition: int, raw: Raw) -> Any:
    """Add a record's bytes to a partition, without serialisers and partitioner."""
    future, *_ = producer._accumulator.append(
        TopicPartition(topic, partition),
        raw.timestamp_ms,
        raw.key,
        raw.value,
        _with_values(raw),
    )
    producer._sender.wakeup()
    return future


class _Plain:
    """A view of a producer without serialisers, which never waits for a topic."""

    def __init__(self, producer: Any) -> None:
        self._producer = producer
        self.config = {
            **producer.config,
            "key_serializer": None,
            "value_serializer": None,
            "max_block_ms": 0,
        }

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)


def send_bytes(producer: Any, topic: str, raw: Raw) -> Any:
    """Send bytes with the client's own ``send``, including partitioner and limits."""
    # Without instrumentation: the record already has the headers of its first send.
    send = inspect.unwrap(inspect.getattr_static(KafkaProducer, "send"))
    return send(
        _Plain(producer),
        topic,
        raw.value,
        raw.key,
        _with_values(raw),
        timestamp_ms=raw.timestamp_ms,
    )


def _with_values(raw: Raw) -> list[tuple[str, bytes]]:
    """Return the headers; a value of None becomes empty, for kafka-python."""
    return [(name, value or b"") for name, value in raw.headers]


def never_sent(topic: str, partition: int | None) -> Any:
    """Make the future of a record that the client never sees."""
    result = FutureProduceResult(TopicPartition(topic, partition))
    return FutureRecordMetadata(result, -1, None, None, -1, -1, -1)


def wait_for_topic(producer: Any, topic: str, timeout: float) -> None:
    """Wait until the producer knows a topic.

    Raises:
        KafkaTimeoutError: The topic is not known within ``timeout`` seconds or
            ``max_block_ms``.
    """
    limit = min(timeout * 1000, producer.config["max_block_ms"])
    producer._wait_on_metadata(topic, limit)


def fresh_partitions(producer: Any, topic: str, timeout: float) -> set[int] | None:
    """Ask for new metadata; return a topic's partitions, or None if none came in time.

    Args:
        producer: The client's producer.
        topic: The topic.
        timeout: Time limit in seconds; 0: only ask.
    """
    done = threading.Event()
    future = producer._metadata.request_update()
    future.add_both(lambda _: done.set())
    producer._sender.wakeup()
    done.wait(timeout)
    if not future.succeeded():
        return None
    known: set[int] | None = producer._metadata.partitions_for_topic(topic)
    return known


@contextmanager
def flushing(producer: Any) -> Iterator[None]:
    """Send everything at once, without ``linger_ms``, while the block runs."""
    producer._accumulator.begin_flush()
    producer._sender.wakeup()
    try:
        yield
    finally:
        producer._accumulator._flushes_in_progress.decrement()


def end_linger(producer: Any) -> None:
    """Send the records in the buffer now, as if ``linger_ms`` had passed."""
    linger = producer.config["linger_ms"] / 1000
    for batch in producer._accumulator._incomplete.all():
        if batch.drained is None and not batch.attempts:
            batch.last_attempt = batch.created - linger
    producer._sender.wakeup()


def stop_sending(producer: Any) -> None:
    """Let an idempotent producer send nothing more, but process answers in flight.

    A producer without an id only receives; kafka-python uses the same state.
    """
    manager = producer._transaction_manager
    if manager is not None and not manager.has_fatal_error():
        manager.bump_producer_id_and_epoch = lambda: None  # else it would get a new id
        manager.reset_producer_id()


def shut_intake(producer: Any) -> None:
    """Take no more records; sends that are running may still add theirs."""
    producer._accumulator.close()


def shut(producer: Any) -> None:
    """Take no more records, and wait for the sends that are running."""
    accumulator = producer._accumulator
    shut_intake(producer)
    end = time.monotonic() + _APPEND_S
    while accumulator._appends_in_progress.get() and time.monotonic() < end:
        time.sleep(_POLL_S)


def fail_batch(producer: Any, batch: Any, error: BaseException) -> None:
    """Fail a batch. If the client has not drained it yet, it is never sent.

    This takes the lock under which the client drains batches, so that a batch is not
    drained at the same time.
    """
    with producer._accumulator._tp_lock(batch.topic_partition):
        _take_out(producer, batch)
    _fail(producer, batch, error)


def take_back(producer: Any, batch: Any, error: BaseException) -> None:
    """Fail a batch, unless it was drained or has already failed."""
    queue = producer._accumulator._batches[batch.topic_partition]
    with producer._accumulator._tp_lock(batch.topic_partition):
        if batch.drained is not None or batch not in queue:
            return
        _take_out(producer, batch)
    _fail(producer, batch, error)


def _take_out(producer: Any, batch: Any) -> None:
    """Remove a batch from the client's queue. The caller holds its lock."""
    with suppress(Exception):  # if a record cannot be encoded; nothing is sent
        batch.records.close()
    with suppress(ValueError):
        producer._accumulator._batches[batch.topic_partition].remove(batch)


def _fail(producer: Any, batch: Any, error: BaseException) -> None:
    producer._accumulator.deallocate(batch)
    with suppress(IllegalStateError):  # the answer came at the same time
        batch.abort(error)


def stop(producer: Any, timeout: float) -> None:
    """Stop a producer's thread, and fail the batches that it still holds.

    ``close(timeout)`` is not enough: if a record is pending, it raises before it stops
    anything, and a thread that waits for a connection does not notice the close for
    ``request_timeout_ms``.
    """
    producer._sender.force_close()
    if is_sender_thread(producer):
        return
    if not _ends(producer, timeout):
        error = IllegalStateError("Producer is closed forcefully.")
        for batch in _claim(producer._accumulator._incomplete):
            fail_batch(producer, batch, error)


def _ends(producer: Any, timeout: float) -> bool:
    """Wait for a producer's thread to end, as long as it still fails batches.

    Returns:
        Whether the thread has ended.
    """
    unfinished = producer._accumulator._incomplete
    while producer._sender.is_alive():
        before = len(unfinished.all())
        producer._sender.join(timeout)
        if len(unfinished.all()) >= before:
            return not producer._sender.is_alive()
    return True


def _claim(incomplete: Any) -> list[Any]:
    """Remove and return all batches, so the client's thread cannot also abort them."""
    with incomplete._lock:
        batches = list(incomplete._incomplete)
        incomplete._incomplete.clear()
    return batches


def take_identity(producer: Any, identity: ProducerIdAndEpoch, timeout: float) -> bool:
    """Give a new producer the id of its predecessor, before it sends anything.

    Args:
        producer: An idempotent producer.
        identity: The id, with an epoch that was never used.
        timeout: Seconds that the producer has to get an id of its own first.

    Returns:
        Whether the producer has the predecessor's id now.
    """
    end = time.monotonic() + timeout
    while not is_ready(producer):
        if time.monotonic() >= end:
            return False
        time.sleep(_POLL_S)
    producer._transaction_manager.set_producer_id_and_epoch(identity)
    return True


def detach_serializers(producer: Any) -> None:
    """Prevent a dead producer's close() from closing serialisers that are in use."""
    producer.config = {
        **producer.config,
        "key_serializer": None,
        "value_serializer": None,
    }


def disown(producer: Any) -> None:
    """In a forked child: prevent exit and GC from closing the parent's producer."""
    producer._closed = True
    producer._unregister_cleanup()
