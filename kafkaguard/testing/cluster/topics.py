"""Change topics and ACLs, and wait until all brokers know the change."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final

from kafkaguard.testing.cluster.errors import ClusterError
from kafkaguard.testing.cluster.requests import ask, change, metadata, wait_for_all

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


_TIMEOUT_MS = 20_000
_LATEST = -1  # the timestamp that means the end of the log
_SET = 0  # the config_operation that replaces a value


def create_topic(
    addresses: Sequence[str],
    name: str | None,
    partitions: int,
    replication_factor: int,
    config: Mapping[str, object],
) -> str:
    """Create a topic, and wait until all brokers see leaders of all its partitions."""
    from kafka.protocol.admin import CreateTopicsRequest, CreateTopicsResponse

    name = name or f"topic-{uuid.uuid4().hex[:12]}"
    topic = CreateTopicsRequest.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        configs=[*_texts(config).items()],
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=_TIMEOUT_MS)
    change(addresses, request, CreateTopicsResponse, 7, "topics")

    def has_leaders(address: str) -> bool:
        return _count_with_leader(address, name) == partitions

    def is_led(_: str) -> bool:
        return (
            sum(_count_led(each, name, partitions) for each in addresses) == partitions
        )

    wait_for_all(addresses, has_leaders, f"{partitions} leaders of topic {name}")
    wait_for_all(addresses[:1], is_led, f"the start of {partitions} leaders of {name}")
    return name


def delete_topic(addresses: Sequence[str], name: str) -> None:
    """Delete a topic, and wait until no broker knows it any more."""
    from kafka.protocol.admin import DeleteTopicsRequest, DeleteTopicsResponse

    topic = DeleteTopicsRequest.DeleteTopicState(name=name)
    request = DeleteTopicsRequest(topics=[topic], timeout_ms=_TIMEOUT_MS)
    change(addresses, request, DeleteTopicsResponse, 6, "responses")

    def is_gone(address: str) -> bool:
        return _count_with_leader(address, name) == 0

    wait_for_all(addresses, is_gone, f"the end of topic {name}")


def alter_topic(
    addresses: Sequence[str], name: str, config: Mapping[str, object]
) -> None:
    """Change settings of a topic, and wait until all brokers have them."""
    from kafka.admin import ConfigResourceType
    from kafka.protocol.admin import (
        IncrementalAlterConfigsRequest,
        IncrementalAlterConfigsResponse,
    )

    texts = _texts(config)
    changes = [(key, _SET, value) for key, value in texts.items()]
    topic = (ConfigResourceType.TOPIC, name, changes)
    request = IncrementalAlterConfigsRequest(resources=[topic], validate_only=False)
    change(addresses, request, IncrementalAlterConfigsResponse, 1, "responses")

    def has_changed(address: str) -> bool:
        return _settings(address, name, list(texts)) == texts

    wait_for_all(addresses, has_changed, f"the new settings of topic {name}")


def _count_with_leader(address: str, name: str) -> int:
    """Count the partitions with a leader that a broker knows."""
    (topic,) = metadata(address, [name]).topics
    return sum(each.error_code == 0 for each in topic.partitions)


def _count_led(address: str, name: str, partitions: int) -> int:
    """Count the partitions that a broker leads; it learns this after the metadata."""
    from kafka.protocol.consumer import ListOffsetsRequest, ListOffsetsResponse

    query = ListOffsetsRequest.ListOffsetsTopic(
        name=name,
        partitions=[
            ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition(
                partition_index=each, current_leader_epoch=-1, timestamp=_LATEST
            )
            for each in range(partitions)
        ],
    )
    request = ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=[query])
    (topic,) = ask(address, request, ListOffsetsResponse, version=7).topics
    return sum(each.error_code == 0 for each in topic.partitions)


def _settings(address: str, name: str, keys: Sequence[str]) -> dict[str, str]:
    from kafka.admin import ConfigResourceType
    from kafka.protocol.admin import DescribeConfigsRequest, DescribeConfigsResponse

    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=ConfigResourceType.TOPIC,
        resource_name=name,
        configuration_keys=keys,
    )
    request = DescribeConfigsRequest(resources=[resource])
    (result,) = ask(address, request, DescribeConfigsResponse, version=4).results
    return {each.name: each.value for each in result.configs}


def _texts(config: Mapping[str, object]) -> dict[str, str]:
    return {
        key: str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in config.items()
    }


_LITERAL: Final = 3  # the resource_pattern_type that matches a name literally
_ANY_HOST: Final = "*"


def grant(
    addresses: Sequence[str], user: str, operation: str, resource: str, name: str
) -> None:
    """Allow a user an operation, and wait until all brokers know it.

    Args:
        addresses: The addresses of the running brokers.
        user: The user's name.
        operation: Kafka's name of the operation.
        resource: Kafka's name of the kind of resource.
        name: The resource's name.

    Raises:
        kafka.errors.BrokerResponseError: The controller refused.
        ClusterError: There is no such operation or resource, or not all brokers knew
            the grant in time.
    """
    from kafka.admin import ACLOperation, ACLPermissionType, ResourceType
    from kafka.protocol.admin import (
        CreateAclsRequest,
        CreateAclsResponse,
        DescribeAclsRequest,
        DescribeAclsResponse,
    )

    try:
        operation_code = ACLOperation[operation.upper()]
        resource_code = ResourceType[resource.upper()]
    except KeyError as error:
        raise ClusterError(f"Kafka's access control knows no {error}") from error
    shared = {
        "operation": operation_code,
        "permission_type": ACLPermissionType.ALLOW,
    }
    creation = CreateAclsRequest.AclCreation(
        resource_type=resource_code,
        resource_name=name,
        resource_pattern_type=_LITERAL,
        principal=f"User:{user}",
        host=_ANY_HOST,
        **shared,
    )
    query = DescribeAclsRequest(
        resource_type_filter=resource_code,
        resource_name_filter=name,
        pattern_type_filter=_LITERAL,
        principal_filter=f"User:{user}",
        host_filter=_ANY_HOST,
        **shared,
    )

    def has_grant(address: str) -> bool:
        return bool(ask(address, query, DescribeAclsResponse, version=3).resources)

    request = CreateAclsRequest(creations=[creation])
    change(addresses, request, CreateAclsResponse, 3, "results")
    description = f"{user}'s right to {operation} {resource} {name}"
    wait_for_all(addresses, has_grant, description)
