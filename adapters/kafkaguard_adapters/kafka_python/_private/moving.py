"""Changes to private state of kafka-python's producer (3.x).

Its public interface can neither end a producer whose broker does not answer, nor send
the bytes of a record again, nor bound the end of a transaction.
"""

# ruff: noqa: SLF001 - moving what is inside is what this module is for

from __future__ import annotations

import inspect
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from kafka import KafkaProducer, TopicPartition
from kafka.errors import IllegalStateError
from kafka.future import Future
from kafka.producer.future import FutureProduceResult, FutureRecordMetadata

from kafkaguard._delivery.facts import Raw
from kafkaguard_adapters.kafka_python._private.reading import is_ready, is_sender_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafka.producer.transaction_manager import ProducerIdAndEpoch

_POLL_S = 0.01
#: Seconds that sends running have to hand over their records.
_APPEND_S = 1.0


def attach(inner: Any, record: Any) -> None:
    """Hang the guard's record on a future, which has no value if it has failed."""
    inner.value = record


def tell_of_batches(producer: Any, tell: Callable[[Any], object]) -> None:
    """Have every new batch told of before it can be sent.

    The client makes a note of it while it still holds the lock of its partition.
    """
    incomplete = producer._accumulator._incomplete
    note = incomplete.add

    def note_and_tell(batch: Any) -> None:
        note(batch)
        tell(batch)

    incomplete.add = note_and_tell


def look_at_appends(producer: Any, kept_out: Callable[[str, int, Raw], Any]) -> None:
    """Have every record looked at before it comes into a batch, in its final bytes.

    Args:
        producer: Whose records.
        kept_out: Called with topic, partition and record; returns the future of one
            that stays out, else None, or raises.
    """
    accumulator = producer._accumulator
    append = accumulator.append

    def look_and_append(
        tp: Any,
        timestamp_ms: Any,
        key: Any,
        value: Any,
        headers: Any,
        now: Any = None,
        abort_on_new_batch: Any = False,
    ) -> Any:
        topic, partition = tp
        inner = kept_out(topic, partition, Raw(key, value, headers, timestamp_ms))
        if inner is not None:
            return inner, False, False, False
        return append(tp, timestamp_ms, key, value, headers, now, abort_on_new_batch)

    accumulator.append = look_and_append


def check_partitioner(
    producer: Any, refusal: Callable[[str, Any, set[int]], Exception]
) -> None:
    """Have a partition refused that the application's partitioner makes up.

    The client would take the record, and keep it until ``delivery_timeout_ms``.

    Args:
        producer: Whose partitioner is meant; one of the client's own makes up nothing.
        refusal: Makes the error, of a topic, the partition and those that are there.
    """
    if type(producer.config["partitioner"]).__module__.startswith("kafka."):
        return
    choose, partitions_of = producer._partition, producer._metadata.partitions_for_topic

    def choose_and_check(
        topic: str,
        partition: int | None,
        key: Any,
        value: Any,
        serialized_key: Any,
        serialized_value: Any,
    ) -> Any:
        chosen = choose(topic, partition, key, value, serialized_key, serialized_value)
        if partition is None and chosen is not None:
            known = partitions_of(topic)
            if known is not None and chosen not in known:
                raise refusal(topic, chosen, known)
        return chosen

    producer._partition = choose_and_check


def hear_refusals(producer: Any, tell: Callable[[Any, Any], object]) -> None:
    """Have refusals told of that come for batches which were given up already.

    Args:
        producer: Who gave them up.
        tell: Called with the batch, and what says of each record by its index why.
    """
    sender = producer._sender
    dispatch = sender._dispatch_error

    def tell_and_dispatch(batch: Any, exception: Any, partition_response: Any) -> None:
        answer = partition_response
        if answer is not None and batch.final_state is not None:
            tell(
                batch,
                sender._record_exceptions_fn(
                    exception, answer.record_errors, answer.error_message
                ),
            )
        dispatch(batch, exception, partition_response)

    sender._dispatch_error = tell_and_dispatch


def let_go(producer: Any) -> None:
    """Let the sends go that wait for a topic, now that nobody asks for it any more."""
    metadata = producer._metadata
    error = IllegalStateError("the producer has ended")
    metadata.request_update = lambda: Future().failure(error)
    with metadata._lock:
        waiting = metadata._future
    if waiting is not None and not waiting.is_done:
        waiting.failure(error)


def append(producer: Any, topic: str, partition: int, raw: Raw) -> Any:
    """Hand over bytes for a given partition, past serialisers and partitioner."""
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
    """A producer seen as one without serialisers that never waits for a topic."""

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
    """Send bytes as the client's own ``send`` does, partitioner and limits included."""
    # Without instrumentation: these bytes have the headers of the first time already.
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
    """Return the headers; kafka-python sends none without a value."""
    return [(name, value or b"") for name, value in raw.headers]


def never_sent(topic: str, partition: int | None) -> Any:
    """Make the future of a record that the client never sees."""
    result = FutureProduceResult(TopicPartition(topic, partition))
    return FutureRecordMetadata(result, -1, None, None, -1, -1, -1)


def wait_for_topic(producer: Any, topic: str, timeout: float) -> None:
    """Wait until the producer knows a topic.

    Raises:
        KafkaTimeoutError: It does not within ``timeout`` seconds or ``max_block_ms``.
    """
    limit = min(timeout * 1000, producer.config["max_block_ms"])
    producer._wait_on_metadata(topic, limit)


@contextmanager
def flushing(producer: Any) -> Iterator[None]:
    """Send everything at once, whatever ``linger_ms`` says, for the time of a wait."""
    producer._accumulator.begin_flush()
    producer._sender.wakeup()
    try:
        yield
    finally:
        producer._accumulator._flushes_in_progress.decrement()


def end_linger(producer: Any) -> None:
    """Send what was taken in, as if it had lingered for long enough."""
    linger = producer.config["linger_ms"] / 1000
    for batch in producer._accumulator._incomplete.all():
        if batch.drained is None and not batch.attempts:
            batch.last_attempt = batch.created - linger
    producer._sender.wakeup()


def silence(producer: Any) -> None:
    """Let an idempotent producer send nothing more, and hear what is on its way.

    Without an id it only listens; kafka-python does the same to itself.
    """
    manager = producer._transaction_manager
    if manager is not None and not manager.has_fatal_error():
        manager.reset_producer_id()


def refuse(producer: Any) -> None:
    """Record no more records; those that are on their way in may come in yet."""
    producer._accumulator.close()


def shut(producer: Any) -> None:
    """Record no more records, and wait for the sends that are running."""
    accumulator = producer._accumulator
    refuse(producer)
    end = time.monotonic() + _APPEND_S
    while accumulator._appends_in_progress.get() and time.monotonic() < end:
        time.sleep(_POLL_S)


def give_up(producer: Any, batch: Any, error: BaseException) -> None:
    """Fail a batch. One that has not been drained will never be sent.

    The lock is the one under which the client drains.
    """
    with producer._accumulator._tp_lock(batch.topic_partition):
        _take_out(producer, batch)
    _fail(producer, batch, error)


def take_back(producer: Any, batch: Any, error: BaseException) -> None:
    """Fail a batch, unless it was drained or has failed already."""
    queue = producer._accumulator._batches[batch.topic_partition]
    with producer._accumulator._tp_lock(batch.topic_partition):
        if batch.drained is not None or batch not in queue:
            return
        _take_out(producer, batch)
    _fail(producer, batch, error)


def _take_out(producer: Any, batch: Any) -> None:
    """Take a batch from the client's queue, whose lock the caller holds."""
    with suppress(Exception):  # a record that cannot be encoded; nothing is sent
        batch.records.close()
    with suppress(ValueError):
        producer._accumulator._batches[batch.topic_partition].remove(batch)


def _fail(producer: Any, batch: Any, error: BaseException) -> None:
    producer._accumulator.deallocate(batch)
    with suppress(IllegalStateError):  # it was answered in this very moment
        batch.abort(error)


def stop(producer: Any, timeout: float) -> None:
    """Stop a producer's thread; what it still holds is given up.

    ``close(timeout)`` alone raises before it stops anything if a record is pending, and
    a thread that waits for a connection does not look up for ``request_timeout_ms``.
    """
    producer._sender.force_close()
    if is_sender_thread(producer):
        return
    if not _ends(producer, timeout):
        error = IllegalStateError("Producer is closed forcefully.")
        for batch in _claim(producer._accumulator._incomplete):
            give_up(producer, batch, error)


def _ends(producer: Any, timeout: float) -> bool:
    """Wait for a producer's thread while it gives up one batch after another."""
    unfinished = producer._accumulator._incomplete
    while producer._sender.is_alive():
        before = len(unfinished.all())
        producer._sender.join(timeout)
        if len(unfinished.all()) >= before:
            return not producer._sender.is_alive()
    return True


def _claim(incomplete: Any) -> list[Any]:
    """Take all batches at once, lest the client's thread wakes and aborts them, too."""
    with incomplete._lock:
        batches = list(incomplete._incomplete)
        incomplete._incomplete.clear()
    return batches


def take_identity(producer: Any, identity: ProducerIdAndEpoch, timeout: float) -> bool:
    """Give a new producer an id of its predecessor's, before it sends anything.

    Args:
        producer: An idempotent producer.
        identity: The id, with an epoch that was never used.
        timeout: Seconds that it has to get an id of its own first.
    """
    end = time.monotonic() + timeout
    while not is_ready(producer):
        if time.monotonic() >= end:
            return False
        time.sleep(_POLL_S)
    producer._transaction_manager.set_producer_id_and_epoch(identity)
    return True


def detach_serializers(producer: Any) -> None:
    """Keep a dead producer's close() from closing what its successor uses."""
    producer.config = {
        **producer.config,
        "key_serializer": None,
        "value_serializer": None,
    }


def disown(producer: Any) -> None:
    """In a forked child: keep the parent's producer from being closed by exit or GC."""
    producer._closed = True
    producer._unregister_cleanup()
