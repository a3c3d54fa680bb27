"""The private names of aiokafka's consumer that the guard uses, and their check."""

# ruff: noqa: SLF001 - this module exists to use private attributes

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from aiokafka.consumer.fetcher import PartitionRecords

from kafkaguard_adapters import inside_names

USED = {
    "consumer": (
        "_client",
        "_client_rack",
        "_coordinator",
        "_enable_auto_commit",
        "_group_id",
        "_rebalance_timeout_ms",
        "_session_timeout_ms",
        "_subscription",
    ),
    "client": ("_conns", "cluster", "force_metadata_update", "send"),
    "cluster": ("unauthorized_topics",),
    "fetcher": (
        "_client",
        "_closed",
        "_fetch_task",
        "_fetch_waiters",
        "_key_deserializer",
        "_records",
        "_set_error",
        "_value_deserializer",
        "_wait_consume_future",
    ),
    "records": ("_consumer_record", "_unpack_records"),
    # Variables of these two, which the traceback of an exception has.
    "decoding": ("key", "record"),
    "unpacking": ("next_batch",),
    "subscription": (
        "_listener",
        "assigned_partitions",
        "partitions_auto_assigned",
        "subscription",
        "topics",
    ),
}
#: Methods that are replaced in an object, and the names of their parameters.
REPLACED = {
    ("coordinator", "check_errors"): (),
    ("fetcher", "_get_actions_per_node"): ("assignment",),
    ("fetcher", "_create_fetch_waiter"): (),
    ("fetcher", "_notify"): ("future",),
    ("fetcher", "close"): (),
    ("subscription", "abort_waiters"): ("exc",),
    ("subscription", "assign_from_subscribed"): ("assignment",),
    ("subscription", "pause"): ("tp",),
    ("subscription", "resume"): ("tp",),
    ("subscription", "unsubscribe"): (),
    ("subscription", "wait_for_assignment"): (),
}
#: What a read calls when it needs the consumer's own event loop.
NEEDS_LOOP = (
    ("fetcher", "_create_fetch_waiter"),
    ("fetcher", "_notify"),
    ("subscription", "wait_for_assignment"),
)
USED_IN_GROUP = {
    "coordinator": (
        "_closing",
        "_enable_auto_commit",
        "_group_instance_id",
        "generation",
        "member_id",
    ),
}
REPLACED_IN_GROUP = {
    ("coordinator", "_do_commit_offsets"): ("assignment", "offsets"),
    ("coordinator", "_send_req"): ("request",),
}


def is_started(consumer: Any) -> bool:
    """Return whether a consumer was started; True if it cannot be known."""
    return getattr(consumer, "_fetcher", consumer) is not None


def _variables(function: Any) -> Any:
    return SimpleNamespace(**dict.fromkeys(function.__code__.co_varnames))


def missing(consumer: Any) -> list[str]:
    """List the private names that the guard uses and that a started consumer lacks."""
    try:
        owners = {
            "consumer": consumer,
            "client": consumer._client,
            "cluster": consumer._client.cluster,
            "fetcher": consumer._fetcher,
            "coordinator": consumer._coordinator,
            "records": PartitionRecords,
            "decoding": _variables(PartitionRecords._consumer_record),
            "unpacking": _variables(PartitionRecords._unpack_records),
            "subscription": consumer._subscription,
        }
        used, replaced = USED, REPLACED
        if consumer._group_id:
            used, replaced = used | USED_IN_GROUP, replaced | REPLACED_IN_GROUP
    except AttributeError as error:
        return [str(error)]
    return inside_names.missing(owners, used, replaced)
