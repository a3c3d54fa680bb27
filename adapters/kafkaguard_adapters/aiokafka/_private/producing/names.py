"""The private names of aiokafka's producer that the guard uses, and their check.

If aiokafka changes its private attributes, the guard must not stop working silently. So
the names are checked when a producer is wrapped, and the replaced methods must have the
parameters that they have today.
"""

# ruff: noqa: SLF001 - this module exists to use private attributes

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from kafkaguard_adapters import inside_names

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The names that are used, by aiokafka's class.
USED = {
    "AIOKafkaProducer": (
        "_closed",
        "_key_serializer",
        "_loop",
        "_max_request_size",
        "_message_accumulator",
        "_request_timeout_ms",
        "_sender",
        "_txn_manager",
        "_value_serializer",
        "client",
    ),
    "MessageAccumulator": (
        "_batch_size",
        "_batches",
        "_closed",
        "_compression_type",
        "_exception",
        "_linger_time",
        "_pending_batches",
        "_waiter_future",
    ),
    "MessageBatch": (
        "_builder",
        "_ctime",
        "_drain_waiter",
        "_linger_time",
        "_msg_futures",
        "future",
        "get_data_buffer",
        "record_count",
        "retry_count",
        "tp",
    ),
    "BatchBuilder": ("_buffer", "_closed"),
    "Sender": ("_acks", "_retry_backoff", "sender_task"),
    "AIOKafkaClient": (
        "_conns",
        "_md_update_fut",
        "close",
        "cluster",
        "ready",
    ),
    "ClusterMetadata": ("_last_successful_refresh_ms",),
    "ProduceRequest": ("_topics",),
    "TransactionManager": (
        "_pending_txn_offsets",
        "_pid_and_epoch",
        "_sequence_numbers",
        "_transaction_waiter",
        "_txn_consumer_group",
        "_txn_partitions",
        "aborting_transaction",
        "committing_transaction",
        "is_in_transaction",
        "state",
        "transaction_timeout_ms",
        "transactional_id",
        "wait_for_transaction_end",
    ),
    "Future": ("_log_traceback",),
}
#: Methods that are replaced in an object, and the names of their parameters.
REPLACED = {
    ("AIOKafkaProducer", "_serialize"): ("key", "value", "headers"),
    ("MessageAccumulator", "_append_batch"): ("builder", "tp"),
    ("MessageAccumulator", "add_batch"): ("builder", "tp", "timeout"),
    ("MessageAccumulator", "add_message"): (
        "tp",
        "key",
        "value",
        "timeout",
        "timestamp_ms",
        "headers",
    ),
    ("MessageAccumulator", "reenqueue"): ("batch",),
    ("BatchBuilder", "append"): ("timestamp", "key", "value", "headers"),
    ("BatchBuilder", "_serialize"): ("key", "value"),
    ("MessageBatch", "done"): (
        "base_offset",
        "timestamp",
        "log_start_offset",
        "_record_metadata_class",
    ),
    ("MessageBatch", "done_noack"): (),
    ("MessageBatch", "failure"): ("exception",),
    ("MessageBatch", "wait_drain"): ("timeout",),
    ("Sender", "_send_produce_req"): ("node_id", "batches"),
    ("AIOKafkaClient", "_wait_on_metadata"): ("topic",),
    ("AIOKafkaClient", "add_topic"): ("topic",),
    ("AIOKafkaClient", "force_metadata_update"): (),
    ("AIOKafkaClient", "send"): ("node_id", "request", "group"),
    ("TransactionManager", "error_transaction"): ("exc",),
}


def missing(producer: Any) -> list[str]:
    """List the private names that the guard uses and that a producer lacks.

    Names that this producer does not need are not listed: a producer that is not
    idempotent has no transaction manager. Without a running event loop, the names of a
    batch are not checked.
    """
    return inside_names.missing_in_producer(
        __package__, lambda: _objects(producer), USED, REPLACED
    )


def _objects(producer: Any) -> Iterator[tuple[str, Any]]:
    """Yield an object of each class; a sample if only a send would create one."""
    from aiokafka.producer.message_accumulator import MessageBatch
    from aiokafka.protocol.produce import ProduceRequest

    from aiokafka import TopicPartition

    accumulator = producer._message_accumulator
    builder = accumulator.create_builder()
    yield "AIOKafkaProducer", producer
    yield "MessageAccumulator", accumulator
    yield "BatchBuilder", builder
    yield "Sender", producer._sender
    yield "AIOKafkaClient", producer.client
    yield "ClusterMetadata", producer.client.cluster
    yield "ProduceRequest", ProduceRequest(None, 1, 1, [])
    if producer._txn_manager is not None:
        yield "TransactionManager", producer._txn_manager
    if asyncio._get_running_loop() is not None:
        batch = MessageBatch(TopicPartition("sample", 0), builder, 1.0, 0.0)
        yield "MessageBatch", batch
        yield "Future", batch.future
