"""Which access right a request needs: the operation, and the kind of resource."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

#: By error code: the kind of resource, and the requests by the operation that they
#: need on it (KafkaApis of Kafka 4.4).
_RIGHTS: Final[Mapping[int, tuple[str, Mapping[str, frozenset[str]]]]] = {
    29: (
        "the topic",
        {
            "Alter": frozenset({"CreatePartitions"}),
            "AlterConfigs": frozenset({"AlterConfigs", "IncrementalAlterConfigs"}),
            "Create": frozenset({"CreateTopics"}),
            "Delete": frozenset({"DeleteRecords", "DeleteTopics"}),
            "Describe": frozenset(
                {
                    "ConsumerGroupDescribe",
                    "ConsumerGroupHeartbeat",
                    "DescribeTopicPartitions",
                    "ListOffsets",
                    "Metadata",
                    "OffsetFetch",
                    "OffsetForLeaderEpoch",
                }
            ),
            "DescribeConfigs": frozenset({"DescribeConfigs"}),
            "Read": frozenset(
                {"DescribeProducers", "Fetch", "OffsetCommit", "TxnOffsetCommit"}
                | {"OffsetDelete"}
            ),
            "Write": frozenset({"AddPartitionsToTxn", "Produce"}),
        },
    ),
    30: (
        "the group",
        {
            "Delete": frozenset({"DeleteGroups", "OffsetDelete"}),
            "Describe": frozenset(
                {
                    "ConsumerGroupDescribe",
                    "DescribeGroups",
                    "FindCoordinator",
                    "OffsetFetch",
                }
            ),
            "Read": frozenset(
                {
                    "AddOffsetsToTxn",
                    "ConsumerGroupHeartbeat",
                    "Heartbeat",
                    "JoinGroup",
                    "LeaveGroup",
                    "OffsetCommit",
                    "SyncGroup",
                    "TxnOffsetCommit",
                }
            ),
        },
    ),
    53: (
        "the transactional id",
        {
            "Describe": frozenset({"DescribeTransactions", "FindCoordinator"}),
            "Write": frozenset(
                {
                    "AddOffsetsToTxn",
                    "AddPartitionsToTxn",
                    "EndTxn",
                    "InitProducerId",
                    "Produce",
                    "TxnOffsetCommit",
                }
            ),
        },
    ),
}


def missing_right(code: int | None, api: str | None, topic: str | None) -> str | None:
    """Say which right a refused request needs; None: not known, or another refusal.

    Args:
        code: The error code.
        api: The request that was refused; None: not known.
        topic: The topic of the request, if it has one.
    """
    if code is None or code not in _RIGHTS:
        return None
    resource, operations = _RIGHTS[code]
    for operation, apis in operations.items():
        if api in apis:
            name = f" {topic}" if topic and resource == "the topic" else ""
            return f"{api} needs {operation} on {resource}{name}"
    return None
