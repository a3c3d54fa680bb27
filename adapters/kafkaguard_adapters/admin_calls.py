"""Calls of guarded admin clients: each error names its request and has a verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkaguard._errors import KafkaGuardError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkaguard_adapters.client_errors import ClientErrors

#: Kafka's request for each method of the clients.
REQUESTS: Final[Mapping[str, str]] = {
    "alter_configs": "AlterConfigs",
    "alter_consumer_group_offsets": "OffsetCommit",
    "alter_group_offsets": "OffsetCommit",
    "alter_partition_reassignments": "AlterPartitionReassignments",
    "alter_replica_log_dirs": "AlterReplicaLogDirs",
    "alter_user_scram_credentials": "AlterUserScramCredentials",
    "create_acls": "CreateAcls",
    "create_partitions": "CreatePartitions",
    "create_topics": "CreateTopics",
    "delete_acls": "DeleteAcls",
    "delete_consumer_groups": "DeleteGroups",
    "delete_group_offsets": "OffsetDelete",
    "delete_groups": "DeleteGroups",
    "delete_records": "DeleteRecords",
    "delete_topics": "DeleteTopics",
    "describe_acls": "DescribeAcls",
    "describe_cluster": "DescribeCluster",
    "describe_configs": "DescribeConfigs",
    "describe_consumer_groups": "DescribeGroups",
    "describe_groups": "DescribeGroups",
    "describe_log_dirs": "DescribeLogDirs",
    "describe_metadata_quorum": "DescribeQuorum",
    "describe_producers": "DescribeProducers",
    "describe_topic_partitions": "DescribeTopicPartitions",
    "describe_topics": "Metadata",
    "describe_transactions": "DescribeTransactions",
    "describe_user_scram_credentials": "DescribeUserScramCredentials",
    "elect_leaders": "ElectLeaders",
    "incremental_alter_configs": "IncrementalAlterConfigs",
    "list_config_resources": "ListConfigResources",
    "list_consumer_group_offsets": "OffsetFetch",
    "list_consumer_groups": "ListGroups",
    "list_group_offsets": "OffsetFetch",
    "list_groups": "ListGroups",
    "list_offsets": "ListOffsets",
    "list_partition_offsets": "ListOffsets",
    "list_partition_reassignments": "ListPartitionReassignments",
    "list_topics": "Metadata",
    "list_transactions": "ListTransactions",
    "reset_group_offsets": "OffsetCommit",
    "update_features": "UpdateFeatures",
}


def admin_error(errors: ClientErrors, error: Any, api: str | None) -> KafkaGuardError:
    """Make the error for an exception of an admin client's call.

    An admin client is not a member of the group, so the advice "poll first" does not
    apply.
    """
    if isinstance(error, KafkaGuardError):
        return error
    return errors.translate(error, api=api, context={"phase": "admin"})
