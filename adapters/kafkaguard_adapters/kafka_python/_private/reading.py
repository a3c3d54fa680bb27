"""Read access to private state of kafka-python's producer (3.x).

The decision whether a record may be sent again needs facts that the public interface
does not show: which records were in the same batch, whether the batch was sent, and
whether the producer is dead. The bytes of a record are read from its batch, because the
application may have changed its own objects after ``send``.
"""

# ruff: noqa: SLF001 - this module is for the use of private attributes

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka import KafkaProducer
from kafka.errors import (
    IncompatibleBrokerVersion,
    KafkaError,
    KafkaTimeoutError,
    TransactionalIdAuthorizationFailedError,
    for_code,
)
from kafka.producer.future import RecordMetadata
from kafka.producer.transaction_manager import ProducerIdAndEpoch, TransactionState
from kafka.record import MemoryRecords, MemoryRecordsBuilder

from kafkaguard._delivery.facts import Raw

if TYPE_CHECKING:
    from kafkaguard_adapters.producing.epochs import Epochs

#: The first broker version with which an idempotent producer may raise its own epoch
#: (KIP-360).
_KIP_360 = (2, 5)


class SendArguments(NamedTuple):
    """The arguments of ``send``."""

    topic: str
    value: Any
    key: Any
    headers: Any
    partition: int | None
    timestamp_ms: int | None


def has_own_send(producer: Any) -> bool:
    """Return whether the producer's class or instance has a ``send`` of its own.

    The comparison is ``!=`` because instrumentation replaces the method in the class by
    an object that is new at each look-up and equal to the original method. The
    instance's ``__dict__`` is not read: after that, CPython looks up attributes more
    slowly, and a send looks up thirty.
    """
    own: bool = producer.send != KafkaProducer.send.__get__(producer)
    return own


def unfinished(producer: Any) -> list[Any]:
    """List the batches that have no outcome yet, in any order."""
    batches: list[Any] = producer._accumulator._incomplete.all()
    return batches


def records_of(batch: Any) -> list[Raw] | None:
    """Read the records of a batch; None while the batch can still get records."""
    if not batch.records._closed:
        return None
    return [
        Raw(r.key, r.value, list(r.headers), r.timestamp)
        for part in MemoryRecords(batch.records.buffer())
        for r in part
    ]


def size_alone(producer: Any, raw: Raw) -> int:
    """Return the size in bytes of a batch with this record only, compressed."""
    config = producer._accumulator.config
    builder = MemoryRecordsBuilder(
        config["message_version"], config["compression_attrs"], config["batch_size"]
    )
    headers = [(name, value or b"") for name, value in raw.headers]
    builder.append(raw.timestamp_ms, raw.key, raw.value, headers)
    builder.close()
    return len(builder.buffer())


def serialized(producer: Any, record: SendArguments) -> Raw:
    """Return the bytes of a record that was never in a batch.

    Raises:
        Exception: A serialiser raised an exception.
        TypeError: A serialiser did not return bytes.
    """
    topic, headers = record.topic, record.headers or []

    def data(kind: str, given: Any) -> bytes | None:
        serialized = producer._serialize(producer.config[kind], topic, headers, given)
        return None if serialized is None else memoryview(serialized).tobytes()

    key = data("key_serializer", record.key)
    value = data("value_serializer", record.value)
    return Raw(key, value, list(headers), record.timestamp_ms)


def was_sent(batch: Any) -> bool:
    """Return whether a batch may have reached a broker; True if this is not known."""
    return batch.drained is not None


def drained_at(batch: Any) -> float | None:
    """Return when the client began its last attempt to send a batch; None: never."""
    at: float | None = batch.drained
    return at


def was_held_back(producer: Any, batch: Any) -> bool:
    """Return whether the client took a batch to send it, and makes no request.

    An idempotent one makes none if a batch that it sends again has no time left, also
    of what else it took then. This is known only until it makes its next request.
    """
    sender = producer._sender
    is_taken = batch.drained > sender.requests_made_at
    is_over = batch.in_retry() or not sender.is_sending
    return bool(is_taken and is_over and is_idempotent(producer))


def is_first_try(batch: Any) -> bool:
    """Return whether the client has sent a batch once at most, without a retry."""
    return not batch.in_retry()


def was_given_up(result: Any) -> bool:
    """Return whether the producer gave up a batch without an answer to it."""
    return result.value is not None and result.value[0] == -1


def result_of(inner: Any) -> Any:
    """Return the client's future of the batch that contains a record."""
    return inner._produce_future


def records_in(batch: Any) -> list[Any]:
    """Return the client's futures of a batch's records; the list may still grow."""
    futures: list[Any] = batch._record_futures
    return futures


def index_of(inner: Any) -> int:
    """Return a record's index in its batch."""
    place: int = inner.args[0]
    return place


def key_is_null(inner: Any) -> bool:
    """Return whether a record has no key, after serialisers."""
    return bool(inner.args[3] == -1)


def metadata_of(inner: Any) -> RecordMetadata:
    """Return the metadata of a written record, also before its callbacks have run."""
    base_offset, appended, _ = inner._produce_future.value
    offset = base_offset if base_offset == -1 else base_offset + index_of(inner)
    return metadata_at(inner, offset, None if appended == -1 else appended)


def metadata_at(inner: Any, offset: int, appended: int | None = None) -> RecordMetadata:
    """Return the metadata of a record at an offset.

    Args:
        inner: The client's future of the record.
        offset: The record's offset.
        appended: When the broker appended the record, in milliseconds since 1970.
            Default: the timestamp of the record itself.
    """
    _, created, *rest = inner.args
    place = inner._produce_future.topic_partition
    timestamp = created if appended is None else appended
    return RecordMetadata(*place, place, offset, timestamp, *rest)


def is_part(batch: Any) -> bool:
    """Return whether a batch was made by splitting a batch that was too large."""
    return bool(batch.created != batch.last_attempt)


def cause_of_death(producer: Any) -> BaseException | None:
    """Return why a producer can deliver nothing any more; None if it can."""
    manager = producer._transaction_manager
    if manager is None:
        return None
    if manager.has_fatal_error():
        cause: BaseException = manager.last_error or KafkaError("no cause given")
        return cause
    if manager._current_state == TransactionState.READY and not (
        manager.has_producer_id()
    ):
        # kafka-python drops its producer id when a batch expires that it had retried.
        # It requests a new id only in its first state, so it never gets one.
        lost: BaseException = KafkaTimeoutError("the producer has lost its id")
        return lost
    return None


def refusal_of_id(error: BaseException) -> BaseException | None:
    """Return why the brokers gave a producer no id; None: this is another error.

    Args:
        error: The error with which a producer has died, or has given up a batch.
    """
    # The former: the brokers do not offer InitProducerId.
    shown = (IncompatibleBrokerVersion, TransactionalIdAuthorizationFailedError)
    is_answer = isinstance(error, shown) or "InitProducerIdResponse" in str(error)
    return unwrapped(error) if is_answer else None


def has_id(producer: Any) -> bool:
    """Return whether an idempotent producer has got an id, and has not given it up."""
    return bool(producer._transaction_manager.has_producer_id())


def breaks_sequence(producer: Any, batch: Any) -> bool:
    """Return whether a failed batch leaves a gap in an idempotent producer's sequence.

    Such a producer then loses its id, or fails later batches with
    OUT_OF_ORDER_SEQUENCE_NUMBER. Java's client raises its epoch instead.
    """
    manager = producer._transaction_manager
    return (
        manager is not None
        and not manager.is_transactional()
        and manager._current_state == TransactionState.READY
        and bool(batch.has_sequence)
    )


def next_identity(
    producer: Any, batch: Any, epochs: Epochs
) -> ProducerIdAndEpoch | None:
    """Return the id and epoch with which a successor fences a batch in flight.

    A partition leader refuses an older epoch of an id once it has seen a newer one.
    None if that is not possible.
    """
    if not batch.has_sequence or producer.config["api_version"] < _KIP_360:
        return None
    current = producer._transaction_manager.producer_id_and_epoch
    known = batch.producer_epoch
    if current.producer_id == batch.producer_id:  # the producer may have a newer epoch
        known = max(known, current.epoch)
    epoch = epochs.take(batch.producer_id, known)
    return None if epoch is None else ProducerIdAndEpoch(batch.producer_id, epoch)


def is_ready(producer: Any) -> bool:
    """Return whether an idempotent producer has its id and may send."""
    manager = producer._transaction_manager
    ready = manager._current_state == TransactionState.READY
    return ready and bool(manager.has_producer_id())


def is_answered(producer: Any, topic_partition: Any) -> bool:
    """Return whether an idempotent producer has no request in flight for a partition.

    It has at most one, and it processes the answer even if it has given up the batch.
    """
    return topic_partition not in producer._accumulator.muted


def is_idempotent(producer: Any) -> bool:
    """Return whether a producer is idempotent or transactional."""
    return producer._transaction_manager is not None


def is_bumping(producer: Any) -> bool:
    """Return whether a producer is requesting a newer epoch of its id."""
    return bool(producer._transaction_manager.is_bumping_epoch())


def transaction_error(producer: Any) -> BaseException | None:
    """Return the error of a transactional producer's transaction; None if none."""
    manager = producer._transaction_manager
    if manager is None or not manager.has_error() or manager.last_error is None:
        return None
    return unwrapped(manager.last_error)


def transaction_state(producer: Any) -> str:
    """Return the client's name of a transactional producer's state."""
    name: str = producer._transaction_manager._current_state.name
    return name


def is_fatal(producer: Any) -> bool:
    """Return whether a transactional producer refuses all further calls."""
    return bool(producer._transaction_manager.has_fatal_error())


def was_lost(result: Any) -> bool:
    """Return whether a transactional request was sent and its answer was lost."""
    return bool(getattr(result, "was_lost", False))


def identity(producer: Any) -> ProducerIdAndEpoch | None:
    """Return the id and epoch that a successor shows to the coordinator.

    By these the coordinator distinguishes the successor from an old instance. None if
    the producer has no id yet, or if the brokers cannot compare it.
    """
    identity: ProducerIdAndEpoch = producer._transaction_manager.producer_id_and_epoch
    if producer.config["api_version"] < _KIP_360 or not identity.is_valid:
        return None
    return identity


def is_closed(producer: Any) -> bool:
    """Return whether a producer was closed."""
    return bool(producer._closed)


def is_guarded(producer: Any) -> bool:
    """Return whether a guard already tracks the batches of a producer."""
    incomplete = producer._accumulator._incomplete
    return getattr(incomplete.add, "__self__", None) is not incomplete


def unwrapped(error: BaseException) -> BaseException:
    """Return the broker's error that kafka-python has hidden in a text.

    kafka-python turns a refused InitProducerId into a plain ``KafkaError("... [Error
    31] ...")``. Other errors are returned unchanged.
    """
    match = re.search(r"\[Error (-?\d+)\]", str(error))
    if type(error) is not KafkaError or match is None:
        return error
    inner: BaseException = for_code(int(match[1]))(str(error))
    return inner


def has_connection(producer: Any) -> bool:
    """Return whether the producer has a connection to any broker."""
    client = producer._sender._client
    return any(client.connected(b.node_id) for b in producer._metadata.brokers())


def has_metadata_since(producer: Any, start: float) -> bool:
    """Return whether a broker has answered a metadata request since ``start``.

    Args:
        producer: The client.
        start: A time of ``time.monotonic()``, in seconds.
    """
    refreshed: float = producer._metadata._last_successful_refresh_ms / 1000
    return refreshed >= start


def partitions_of(producer: Any, topic: str) -> set[int]:
    """Return the partitions of a topic that the producer knows."""
    return producer._metadata.partitions_for_topic(topic) or set()


def is_denied(producer: Any, topic: str) -> bool:
    """Return whether the brokers have said that this user may not see a topic."""
    return topic in producer._metadata.unauthorized_topics


def is_sender_thread(producer: Any) -> bool:
    """Return whether the caller is the producer's own background thread."""
    return threading.current_thread() is producer._sender
