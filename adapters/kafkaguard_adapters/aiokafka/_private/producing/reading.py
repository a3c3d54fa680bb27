"""Read access to private state of aiokafka's producer."""

# ruff: noqa: SLF001 - this module exists to use private attributes

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from aiokafka.producer.transaction_manager import PidAndEpoch
from aiokafka.record.default_records import (
    DefaultRecordBatch,
    DefaultRecordBatchBuilder,
)

from aiokafka import AIOKafkaProducer
from kafkaguard._delivery.facts import Raw

if TYPE_CHECKING:
    import asyncio

    from kafkaguard_adapters.producing.epochs import Epochs

#: The arguments of aiokafka's ``send`` that the guard knows.
_OF_SEND = (
    "self",
    "topic",
    "value",
    "key",
    "partition",
    "timestamp_ms",
    "headers",
)
#: More than any batch has.
_LARGEST_BYTES = (1 << 31) - 1


def is_guarded(producer: Any) -> bool:
    """Return whether a guard already tracks the batches of a producer."""
    accumulator = producer._message_accumulator
    return getattr(accumulator._append_batch, "__self__", None) is not accumulator


def has_own_send(producer: Any) -> bool:
    """Return whether a producer's ``send`` may take other arguments than aiokafka's."""
    is_theirs = getattr(producer.send, "__func__", None) is AIOKafkaProducer.send
    known = inspect.signature(AIOKafkaProducer.send).parameters
    return not (is_theirs and tuple(known) == _OF_SEND)


def loop_of(producer: Any) -> asyncio.AbstractEventLoop:
    """Return the event loop that a producer belongs to."""
    loop: asyncio.AbstractEventLoop = producer._loop
    return loop


def is_idempotent(producer: Any) -> bool:
    """Return whether a producer is idempotent: it numbers its batches."""
    return producer._txn_manager is not None


def has_connection(producer: Any) -> bool:
    """Return whether a producer has a connection to any broker."""
    return any(each.connected() for each in producer.client._conns.values())


def has_metadata_since(producer: Any, start: float) -> bool:
    """Return whether a broker has answered a metadata request since ``start``.

    Args:
        producer: The client.
        start: A time of ``time.time()``, in seconds: aiokafka's own clock for this.
    """
    refreshed: float = producer.client.cluster._last_successful_refresh_ms / 1000
    return refreshed >= start


def transactional_id(producer: Any) -> str | None:
    """Return the ``transactional.id`` of a producer; None: it has none."""
    manager = producer._txn_manager
    return None if manager is None else manager.transactional_id


def delivery_timeout(producer: Any) -> float:
    """Return the seconds after which a batch without a sequence number expires."""
    seconds: float = producer._request_timeout_ms / 1000
    return seconds


def largest_request(producer: Any) -> int:
    """Return the most bytes of a record that ``send`` accepts, by its own estimate."""
    size: int = producer._max_request_size
    return size


def compresses(producer: Any) -> bool:
    """Return whether batches are compressed."""
    return bool(producer._message_accumulator._compression_type)


def was_started(producer: Any) -> bool:
    """Return whether a producer was started: it has a sender task."""
    return producer._sender.sender_task is not None


def sender_task(producer: Any) -> asyncio.Task[None] | None:
    """Return the task that sends batches; None: the producer was not started."""
    task: asyncio.Task[None] | None = producer._sender.sender_task
    return task


def why_ended(task: asyncio.Task[None]) -> BaseException | None:
    """Return the exception that ended a sender; None: it was cancelled."""
    return None if task.cancelled() else task.exception()


def is_numbered(batch: Any) -> bool:
    """Return whether a batch of an idempotent producer has its sequence number."""
    return bool(batch.retry_count)


def builder_of(batch: Any) -> Any:
    """Return the builder of a batch."""
    return batch._builder


def unfinished(producer: Any) -> list[Any]:
    """List the batches without an outcome: those in flight first, then the others."""
    accumulator = producer._message_accumulator
    waiting = [b for line in accumulator._batches.values() for b in line]
    return [*accumulator._pending_batches, *waiting]


def futures_of(batch: Any) -> list[Any]:
    """Return the future of each record of a batch, in order; None: it has none."""
    futures = batch._msg_futures
    count = batch.record_count
    if len(futures) == count:
        return [future for future, _ in futures]
    by_index = {metadata.offset: future for future, metadata in futures}
    return [by_index.get(index) for index in range(count)]


def records_of(batch: Any) -> list[Raw] | None:
    """Return each record's bytes; None while records can be added to the batch."""
    if batch._builder._buffer is None:
        return None
    return _decoded(batch._builder._buffer)


def final_records_of(batch: Any) -> list[Raw]:
    """Close a batch for new records, and return each record's bytes."""
    return _decoded(batch.get_data_buffer())


def _decoded(buffer: Any) -> list[Raw]:
    return [
        Raw(r.key, r.value, r.headers, r.timestamp) for r in DefaultRecordBatch(buffer)
    ]


def size_alone(producer: Any, raw: Raw) -> int:
    """Return the bytes of a batch with this record only, compressed."""
    builder = DefaultRecordBatchBuilder(
        2,
        producer._message_accumulator._compression_type,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=0,
        batch_size=_LARGEST_BYTES,
    )
    builder.append(0, raw.timestamp_ms, raw.key, raw.value, list(raw.headers))
    return len(builder.build())


def next_identity(batch_of: Any, epochs: Epochs) -> PidAndEpoch | None:
    """Return a producer id and epoch that fence the requests of old producers.

    Args:
        batch_of: The producer that has left a batch in flight.
        epochs: The epochs that successors have taken.
    """
    if batch_of._txn_manager is None:
        return None
    pid, epoch = batch_of._txn_manager._pid_and_epoch
    newer = epochs.take(pid, epoch)
    return None if newer is None else PidAndEpoch(pid, newer)


def settings_of(producer: Any) -> dict[str, Any] | None:
    """Read the settings; None: the producer's class has its own ``__init__``."""
    if type(producer).__init__ is not AIOKafkaProducer.__init__:
        return None
    client, accumulator = producer.client, producer._message_accumulator
    manager = producer._txn_manager
    settings = {name: getattr(client, f"_{name}") for name in _OF_CLIENT}
    settings |= {name: getattr(producer, f"_{name}") for name in _OF_PRODUCER}
    settings |= {
        "acks": producer._sender._acks,
        "retry_backoff_ms": round(producer._sender._retry_backoff * 1000),
        "max_batch_size": accumulator._batch_size,
        "linger_ms": accumulator._linger_time * 1000,
        "enable_idempotence": manager is not None,
    }
    if manager is not None and manager.transactional_id is not None:
        settings["transactional_id"] = manager.transactional_id
        settings["transaction_timeout_ms"] = manager.transaction_timeout_ms
    return settings


_OF_CLIENT = (
    "bootstrap_servers",
    "client_id",
    "metadata_max_age_ms",
    "security_protocol",
    "ssl_context",
    "connections_max_idle_ms",
    "sasl_mechanism",
    "sasl_plain_password",
    "sasl_plain_username",
    "sasl_kerberos_service_name",
    "sasl_kerberos_domain_name",
    "sasl_oauth_token_provider",
)
_OF_PRODUCER = (
    "compression_type",
    "key_serializer",
    "max_request_size",
    "partitioner",
    "request_timeout_ms",
    "value_serializer",
)
