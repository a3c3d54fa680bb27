"""The private names of kafka-python (3.x) that the guard uses, and their check.

If private names of kafka-python change, the guard must not stop working silently. So
``guard()`` checks that the names exist, and that the methods which the guard replaces
have the known arguments.
"""

# ruff: noqa: SLF001 - this module is for the use of private attributes

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkaguard_adapters import inside_names

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Names of attributes, by the object's class in kafka-python.
USED = {
    "KafkaProducer": (
        "_accumulator",
        "_closed",
        "_metadata",
        "_sender",
        "_serialize",
        "_transaction_manager",
        "_unregister_cleanup",
        "_wait_on_metadata",
        "config",
    ),
    "RecordAccumulator": (
        "_appends_in_progress",
        "_batches",
        "_flushes_in_progress",
        "_incomplete",
        "_tp_lock",
        "append",
        "begin_flush",
        "close",
        "config",
        "deallocate",
        "muted",
    ),
    "IncompleteProducerBatches": ("_incomplete", "_lock", "add", "all"),
    "Sender": (
        "_can_split",
        "_client",
        "_complete_batch",
        "_create_produce_requests",
        "_dispatch_error",
        "_is_retention_based_unknown_producer_id",
        "_record_exceptions_fn",
        "_send_producer_data",
        "force_close",
        "is_alive",
        "join",
        "wakeup",
    ),
    "KafkaNetClient": ("await_ready", "connected"),
    "ClusterMetadata": (
        "_future",
        "_last_successful_refresh_ms",
        "_lock",
        "brokers",
        "partitions_for_topic",
        "request_update",
        "unauthorized_topics",
    ),
    "ProducerBatch": (
        "_record_futures",
        "abort",
        "attempts",
        "created",
        "drained",
        "final_state",
        "has_sequence",
        "in_retry",
        "last_attempt",
        "produce_future",
        "producer_epoch",
        "producer_id",
        "records",
        "topic_partition",
    ),
    "MemoryRecordsBuilder": ("_closed", "append", "buffer", "close"),
    "FutureRecordMetadata": ("_produce_future", "args"),
    "FutureProduceResult": ("topic_partition",),
    "TransactionManager": (
        "_current_state",
        "_enqueue_request",
        "_lock",
        "_lookup_coordinator",
        "_pending_requests",
        "_pending_txn_offset_commits",
        "_transition_to",
        "begin_abort",
        "begin_commit",
        "bump_producer_id_and_epoch",
        "clear_in_flight_transactional_request_correlation_id",
        "has_error",
        "has_fatal_error",
        "has_producer_id",
        "is_aborting",
        "is_bumping_epoch",
        "is_transactional",
        "last_error",
        "producer_id_and_epoch",
        "reset_producer_id",
        "send_offsets_to_transaction",
        "set_producer_id_and_epoch",
        "transaction_timeout_ms",
        "transition_to_fatal_error",
    ),
    "InitProducerIdHandler": (
        "_is_epoch_bump",
        "fail",
        "fatal_error",
        "on_complete",
        "producer_epoch",
        "producer_id",
        "reenqueue",
        "request",
        "result",
        "transactional_id",
    ),
}
#: Methods that the guard replaces in an object, and the names of their arguments.
REPLACED = {
    ("IncompleteProducerBatches", "add"): ("batch",),
    ("RecordAccumulator", "append"): (
        "tp",
        "timestamp_ms",
        "key",
        "value",
        "headers",
        "now",
        "abort_on_new_batch",
    ),
    ("Sender", "_can_split"): ("batch", "error"),
    ("Sender", "_complete_batch"): ("batch", "partition_response"),
    ("Sender", "_create_produce_requests"): ("collated",),
    ("Sender", "_dispatch_error"): ("batch", "exception", "partition_response"),
    ("Sender", "_is_retention_based_unknown_producer_id"): (
        "batch",
        "error_cls",
        "log_start_offset",
    ),
    ("Sender", "_send_producer_data"): ("now",),
    ("ClusterMetadata", "request_update"): (),
    ("KafkaNetClient", "await_ready"): ("node_id", "timeout_ms"),
    ("TransactionManager", "_enqueue_request"): ("request_handler",),
    ("TransactionManager", "bump_producer_id_and_epoch"): (),
    ("InitProducerIdHandler", "on_complete"): ("correlation_id", "response_or_exc"),
}


def missing(producer: Any) -> list[str]:
    """List the private names that the guard uses and that a producer does not have.

    Objects that this producer does not have are not checked: if it is not idempotent,
    it has no transaction manager.
    """
    return inside_names.missing_in_producer(
        __package__, lambda: _objects(producer), USED, REPLACED
    )


def _objects(producer: Any) -> Iterator[tuple[str, Any]]:
    """Yield an object of each class; a sample for classes that only ``send`` makes."""
    from kafka import TopicPartition
    from kafka.producer.producer_batch import ProducerBatch
    from kafka.producer.transaction_manager import InitProducerIdHandler
    from kafka.record import MemoryRecordsBuilder

    records = MemoryRecordsBuilder(2, 0, 1024)
    batch = ProducerBatch(TopicPartition("sample", 0), records)
    yield "KafkaProducer", producer
    yield "RecordAccumulator", producer._accumulator
    yield "IncompleteProducerBatches", producer._accumulator._incomplete
    yield "Sender", producer._sender
    yield "KafkaNetClient", producer._sender._client
    yield "ClusterMetadata", producer._metadata
    yield "ProducerBatch", batch
    yield "MemoryRecordsBuilder", records
    yield "FutureRecordMetadata", batch.try_append(None, b"", b"", [])
    yield "FutureProduceResult", batch.produce_future
    manager = producer._transaction_manager
    if manager is not None:
        yield "TransactionManager", manager
        yield "InitProducerIdHandler", InitProducerIdHandler(manager, 0)
