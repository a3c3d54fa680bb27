"""The private names of kafka-python's consumer that the guard uses, and a check."""

# ruff: noqa: SLF001 - this module is for the use of private attributes

from __future__ import annotations

from typing import Any

from kafkaguard_adapters import inside_names

USED = {
    "consumer": ("_coordinator", "_fetcher", "_subscription", "config"),
    "fetcher": ("_manager", "config"),
    "fetch": ("drain", "_deserialize"),
    "subscription": (
        "all_consumed_offsets",
        "assignment",
        "is_fetchable",
        "partitions_auto_assigned",
        "paused_partitions",
        "rebalance_listener",
        "subscription",
    ),
    "coordinator": (
        "_join_task",
        "_net",
        "config",
        "group_instance_id",
        "request_rejoin",
    ),
    "cluster": ("leader_for_partition", "unauthorized_topics"),
}
#: Methods that the guard replaces in an object, or a class that it builds, and the
#: names of their arguments.
REPLACED = {
    ("fetcher", "fetch_records"): ("max_records", "update_offsets", "timeout_ms"),
    ("fetcher", "_parse_fetched_data"): ("completed_fetch",),
    ("fetch", "__init__"): (
        "self",
        "fetch_offset",
        "tp",
        "records",
        "key_deserializer",
        "value_deserializer",
        "check_crcs",
        "isolation_level",
        "aborted_transactions",
        "metric_aggregator",
        "on_drain",
    ),
    ("fetcher", "_fetchable_partitions"): (),
    ("fetcher", "_handle_fetch_error"): ("node_id", "exception"),
    ("fetcher", "_handle_list_offsets_response"): ("response",),
    ("subscription", "assign_from_subscribed"): ("assignments",),
    ("subscription", "partitions_needing_reset"): (),
    ("subscription", "pause"): ("partition",),
    ("subscription", "resume"): ("partition",),
    ("subscription", "unsubscribe"): (),
    ("subscription", "next_offset_reset_retry_time"): (),
    ("coordinator", "_handle_heartbeat_response"): ("response", "send_time"),
    ("coordinator", "poll"): ("timeout_ms",),
    ("coordinator", "_handle_offset_commit_response"): (
        "offsets",
        "send_time",
        "response",
    ),
}


def missing(consumer: Any) -> list[str]:
    """List the private names that the guard uses and that a consumer does not have."""
    try:
        owners = {
            "consumer": consumer,
            "fetcher": consumer._fetcher,
            "fetch": consumer._fetcher.PartitionRecords,
            "subscription": consumer._subscription,
            "coordinator": consumer._coordinator,
            "cluster": consumer._fetcher._manager.cluster,
        }
    except AttributeError as error:
        return [str(error)]
    return inside_names.missing(owners, USED, REPLACED)
