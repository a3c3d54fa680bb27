"""Create and change topics, and wait until all brokers know the change."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

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
        return _led(address, name) == partitions

    def is_led(_: str) -> bool:
        return sum(_leads(each, name, partitions) for each in addresses) == partitions

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
        return _led(address, name) == 0

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

    wanted = _texts(config)
    changes = [(key, _SET, value) for key, value in wanted.items()]
    topic = (ConfigResourceType.TOPIC, name, changes)
    request = IncrementalAlterConfigsRequest(resources=[topic], validate_only=False)
    change(addresses, request, IncrementalAlterConfigsResponse, 1, "responses")

    def has_changed(address: str) -> bool:
        return _settings(address, name, list(wanted)) == wanted

    wait_for_all(addresses, has_changed, f"the new settings of topic {name}")


def _led(address: str, name: str) -> int:
    """Count the partitions with a leader that a broker knows."""
    (topic,) = metadata(address, [name]).topics
    return sum(each.error_code == 0 for each in topic.partitions)


def _leads(address: str, name: str, partitions: int) -> int:
    """Count the partitions that a broker leads; it learns this after the metadata."""
    from kafka.protocol.consumer import ListOffsetsRequest, ListOffsetsResponse

    wanted = ListOffsetsRequest.ListOffsetsTopic(
        name=name,
        partitions=[
            ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition(
                partition_index=each, current_leader_epoch=-1, timestamp=_LATEST
            )
            for each in range(partitions)
        ],
    )
    request = ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=[wanted])
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
