"""The only place that looks inside kafka-python's producer (3.x).

Its public interface does not tell three things that decide what may be sent again:
which records shared a batch, whether that batch ever left for the broker, and whether
the producer is dead. The bytes of a record are read from its batch, since the objects
that the application handed over may have changed since.
"""

# ruff: noqa: SLF001 - looking inside is what this module is for

from __future__ import annotations

import re
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka.errors import KafkaError, for_code
from kafka.record import MemoryRecords

if TYPE_CHECKING:
    from collections.abc import Iterator


class RawRecord(NamedTuple):
    """A record as it stands in its batch: after serialisers and partitioner."""

    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]]


def batch_of(producer: Any, result: Any) -> Any:
    """Find the batch that a produce future belongs to; None if it is done already."""
    accumulator = producer._accumulator
    queue = accumulator._batches.get(result.topic_partition)
    try:
        newest = queue[-1]
    except (IndexError, TypeError):
        pass
    else:
        if newest.produce_future is result:
            return newest
    unfinished = accumulator._incomplete.all()
    return next((b for b in unfinished if b.produce_future is result), None)


def records_of(batch: Any) -> list[RawRecord] | None:
    """Read the records of a batch; None while it is still open for more."""
    if batch is None or not batch.records._closed:
        return None
    return [
        RawRecord(r.timestamp, r.key, r.value, list(r.headers))
        for part in MemoryRecords(batch.records.buffer())
        for r in part
    ]


def was_sent(batch: Any) -> bool:
    """Tell whether a batch may have reached a broker; in doubt, it may have."""
    return batch is None or batch.drained is not None


def was_given_up(result: Any) -> bool:
    """Tell whether the producer gave a batch up, without an answer about it."""
    return result.value is not None and result.value[0] == -1


def is_split(result: Any) -> bool:
    """Tell whether a batch was split: its records have new futures."""
    return result._latch.is_set() and not result.is_done


def cause_of_death(producer: Any) -> BaseException | None:
    """Return why a producer fails every send from now on; None while it lives."""
    manager = producer._transaction_manager
    if manager is None or not manager.has_fatal_error():
        return None
    return unwrapped(manager.last_error or KafkaError("no cause given"))


def unwrapped(error: BaseException) -> BaseException:
    """Return the broker's error that kafka-python has hidden in a text.

    A refused InitProducerId ends as a bare ``KafkaError("... [Error 31] ...")``.
    """
    found = re.search(r"\[Error (-?\d+)\]", str(error))
    if type(error) is not KafkaError or found is None:
        return error
    inner: BaseException = for_code(int(found[1]))(str(error))
    return inner


def has_connection(producer: Any) -> bool:
    """Tell whether the producer has a connection to any broker."""
    client = producer._sender._client
    return any(client.connected(b.node_id) for b in producer._metadata.brokers())


def is_sender_thread(producer: Any) -> bool:
    """Tell whether the caller is the producer's own background thread."""
    return threading.current_thread() is producer._sender


def append(producer: Any, topic_partition: Any, record: RawRecord) -> Any:
    """Hand over bytes for a given partition, past serialisers and partitioner."""
    future, *_ = producer._accumulator.append(
        topic_partition, record.timestamp, record.key, record.value, record.headers
    )
    producer._sender.wakeup()
    return future


@contextmanager
def flushing(producer: Any) -> Iterator[None]:
    """Send everything at once, whatever ``linger_ms`` says, for the time of a wait."""
    producer._accumulator.begin_flush()
    producer._sender.wakeup()
    try:
        yield
    finally:
        producer._accumulator._flushes_in_progress.decrement()


def stop(producer: Any, timeout: float) -> None:
    """Stop a producer's thread; what it still holds is given up.

    ``close(timeout)`` alone raises before it stops anything if a record is pending.
    """
    producer._sender.force_close()
    if not is_sender_thread(producer):
        producer._sender.join(timeout)


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
