"""Read access to private state of kafka-python's producer (3.x).

Its public interface does not tell what decides what may be sent again: which records
shared a batch, whether that batch ever left for the broker, and whether the producer is
dead. The bytes of a record are read from its batch, since the objects that the
application handed over may have changed since.
"""

# ruff: noqa: SLF001 - looking inside is what this module is for

from __future__ import annotations

import re
import threading
from typing import Any, NamedTuple

from kafka import KafkaProducer
from kafka.errors import KafkaError, KafkaTimeoutError, for_code
from kafka.producer.future import RecordMetadata
from kafka.producer.transaction_manager import ProducerIdAndEpoch, TransactionState
from kafka.record import MemoryRecords, MemoryRecordsBuilder

from kafkaguard._delivery.facts import Raw

#: From which brokers on an idempotent producer may raise its epoch by itself (KIP-360).
_KIP_360 = (2, 5)
_LAST_EPOCH = 32767


class SendArguments(NamedTuple):
    """What ``send`` was given."""

    topic: str
    value: Any
    key: Any
    headers: Any
    partition: int | None
    timestamp_ms: int | None


def has_own_send(producer: Any) -> bool:
    """Return whether it has a ``send`` of its own, by its class or set on itself.

    Instrumentation puts an object into the class that is new at each look-up and equal
    to what it stands for. The instance's ``__dict__`` is left alone: CPython looks an
    attribute up more slowly once it was asked for, and a send looks up thirty.
    """
    own: bool = producer.send != KafkaProducer.send.__get__(producer)
    return own


def unfinished(producer: Any) -> list[Any]:
    """List the batches that have no outcome yet, in no order."""
    batches: list[Any] = producer._accumulator._incomplete.all()
    return batches


def records_of(batch: Any) -> list[Raw] | None:
    """Read the records of a batch; None while it is still open for more."""
    if not batch.records._closed:
        return None
    return [
        Raw(r.key, r.value, list(r.headers), r.timestamp)
        for part in MemoryRecords(batch.records.buffer())
        for r in part
    ]


def size_alone(producer: Any, raw: Raw) -> int:
    """Return the bytes of a batch with this record only, after compression."""
    config = producer._accumulator.config
    builder = MemoryRecordsBuilder(
        config["message_version"], config["compression_attrs"], config["batch_size"]
    )
    headers = [(name, value or b"") for name, value in raw.headers]
    builder.append(raw.timestamp_ms, raw.key, raw.value, headers)
    builder.close()
    return len(builder.buffer())


def serialized(producer: Any, record: SendArguments) -> Raw:
    """Return the bytes of a record that never came into a batch.

    Raises:
        Exception: Whatever a serialiser raises.
        TypeError: What it returns are no bytes.
    """
    topic, headers = record.topic, record.headers or []

    def data(kind: str, given: Any) -> bytes | None:
        made = producer._serialize(producer.config[kind], topic, headers, given)
        return None if made is None else memoryview(made).tobytes()

    key = data("key_serializer", record.key)
    value = data("value_serializer", record.value)
    return Raw(key, value, list(headers), record.timestamp_ms)


def was_sent(batch: Any) -> bool:
    """Return whether a batch may have reached a broker; in doubt, it may have."""
    return batch.drained is not None


def is_first_try(batch: Any) -> bool:
    """Return whether the client has not sent a batch again by itself."""
    return not batch.in_retry()


def was_given_up(result: Any) -> bool:
    """Return whether the producer gave a batch up, without an answer about it."""
    return result.value is not None and result.value[0] == -1


def result_of(inner: Any) -> Any:
    """Return the client's future of the whole batch that a record is in."""
    return inner._produce_future


def records_in(batch: Any) -> list[Any]:
    """Return the client's futures of the records in a batch; it may still grow."""
    futures: list[Any] = batch._record_futures
    return futures


def index_of(inner: Any) -> int:
    """Return a record's place in its batch."""
    place: int = inner.args[0]
    return place


def key_is_null(inner: Any) -> bool:
    """Return whether a record has no key, after serialisers."""
    return bool(inner.args[3] == -1)


def metadata_of(inner: Any) -> RecordMetadata:
    """Return where a record was written, also before its own callbacks have run."""
    base_offset, appended, _ = inner._produce_future.value
    offset = base_offset if base_offset == -1 else base_offset + index_of(inner)
    return metadata_at(inner, offset, None if appended == -1 else appended)


def metadata_at(inner: Any, offset: int, appended: int | None = None) -> RecordMetadata:
    """Return the metadata of a record that is at an offset.

    Args:
        inner: The client's future of it.
        offset: Where it is.
        appended: When the broker has appended it, in milliseconds since 1970.
    """
    _, created, *rest = inner.args
    place = inner._produce_future.topic_partition
    timestamp = created if appended is None else appended
    return RecordMetadata(*place, place, offset, timestamp, *rest)


def is_part(batch: Any) -> bool:
    """Return whether a new batch was made of the records of one that was too large."""
    return bool(batch.created != batch.last_attempt)


def cause_of_death(producer: Any) -> BaseException | None:
    """Return why a producer delivers nothing from now on; None while it lives."""
    manager = producer._transaction_manager
    if manager is None:
        return None
    if manager.has_fatal_error():
        return unwrapped(manager.last_error or KafkaError("no cause given"))
    if manager._current_state == TransactionState.READY and not (
        manager.has_producer_id()
    ):
        # It drops its id when a batch that it had repeated expires, and asks for
        # another one only in its very first state.
        lost: BaseException = KafkaTimeoutError("it has lost its producer id")
        return lost
    return None


def breaks_sequence(producer: Any, batch: Any) -> bool:
    """Return whether a failed batch leaves a hole in an idempotent producer's numbers.

    Such a producer is about to be without an id, or to fail innocent batches with
    OUT_OF_ORDER_SEQUENCE_NUMBER. Java's client raises its epoch instead.
    """
    manager = producer._transaction_manager
    return (
        manager is not None
        and not manager.is_transactional()
        and manager._current_state == TransactionState.READY
        and bool(batch.has_sequence)
    )


def next_identity(producer: Any, batch: Any) -> ProducerIdAndEpoch | None:
    """Return the id with which a successor locks out what a producer left on its way.

    A partition leader refuses an older epoch of an id once it has seen a newer one.
    None where that is not possible.
    """
    if not batch.has_sequence or batch.producer_epoch >= _LAST_EPOCH:
        return None
    if producer.config["api_version"] < _KIP_360:
        return None
    mine = producer._transaction_manager.producer_id_and_epoch
    epoch = batch.producer_epoch
    if mine.producer_id == batch.producer_id:  # it has taken that over itself
        epoch = max(epoch, mine.epoch)
    return ProducerIdAndEpoch(batch.producer_id, epoch + 1)


def is_ready(producer: Any) -> bool:
    """Return whether an idempotent producer has its id and may send."""
    manager = producer._transaction_manager
    ready = manager._current_state == TransactionState.READY
    return ready and bool(manager.has_producer_id())


def acked(producer: Any) -> dict[Any, int]:
    """Return the last offset that was confirmed to an idempotent producer, by place."""
    manager = producer._transaction_manager
    return {} if manager is None else dict(manager._last_acked_offset)


def is_answered(producer: Any, topic_partition: Any) -> bool:
    """Return whether no request of an idempotent producer is out for a partition.

    It has one at most, and hears the answer also for a batch that it has given up.
    """
    return topic_partition not in producer._accumulator.muted


def is_idempotent(producer: Any) -> bool:
    """Return whether a producer numbers its batches."""
    return producer._transaction_manager is not None


def numbered(batch: Any) -> tuple[int, int, int] | None:
    """Return an idempotent batch's id, epoch and first number."""
    if not batch.has_sequence:
        return None
    return batch.producer_id, batch.producer_epoch, batch.base_sequence


def follower(batch: Any) -> tuple[tuple[int, int, int] | None, int]:
    """Return id, epoch and first number of the batch that comes next, and the size."""
    number = numbered(batch)
    if number is None:
        return None, 0
    size: int = batch.record_count
    return (number[0], number[1], number[2] + size), size


def is_bumping(producer: Any) -> bool:
    """Return whether a producer is asking for a newer epoch of its id."""
    return bool(producer._transaction_manager.is_bumping_epoch())


def transaction_error(producer: Any) -> BaseException | None:
    """Return why a transactional producer cannot go on; None if it can."""
    manager = producer._transaction_manager
    if manager is None or not manager.has_error() or manager.last_error is None:
        return None
    return unwrapped(manager.last_error)


def is_in_transaction(producer: Any) -> bool:
    """Return whether a transaction has begun that was neither committed nor aborted."""
    manager = producer._transaction_manager
    return manager is not None and manager._current_state in (
        TransactionState.IN_TRANSACTION,
        TransactionState.ABORTABLE_ERROR,
    )


def transaction_state(producer: Any) -> str:
    """Return the client's name for where a transactional producer stands."""
    name: str = producer._transaction_manager._current_state.name
    return name


def is_fatal(producer: Any) -> bool:
    """Return whether a transactional producer refuses everything from now on."""
    return bool(producer._transaction_manager.has_fatal_error())


def was_lost(result: Any) -> bool:
    """Return whether a transactional request was sent and the answer did not come."""
    return bool(getattr(result, "was_lost", False))


def identity(producer: Any) -> ProducerIdAndEpoch | None:
    """Return the id and epoch by which a successor can be told from a stale instance.

    None where there is none yet, or the brokers cannot compare it.
    """
    found: ProducerIdAndEpoch = producer._transaction_manager.producer_id_and_epoch
    if producer.config["api_version"] < _KIP_360 or not found.is_valid:
        return None
    return found


def is_closed(producer: Any) -> bool:
    """Return whether a producer was closed."""
    return bool(producer._closed)


def is_told(producer: Any) -> bool:
    """Return whether somebody is told of the batches of a producer."""
    incomplete = producer._accumulator._incomplete
    return getattr(incomplete.add, "__self__", None) is not incomplete


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
    """Return whether the producer has a connection to any broker."""
    client = producer._sender._client
    return any(client.connected(b.node_id) for b in producer._metadata.brokers())


def is_denied(producer: Any, topic: str) -> bool:
    """Return whether the brokers have said that this user may not see a topic."""
    return topic in producer._metadata.unauthorized_topics


def is_sender_thread(producer: Any) -> bool:
    """Return whether the caller is the producer's own background thread."""
    return threading.current_thread() is producer._sender
