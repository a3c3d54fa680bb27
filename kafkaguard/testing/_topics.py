"""Topics of a test cluster: done when every broker knows, not when one accepted."""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kafkaguard.testing._wire import ask, metadata, wait_for_all

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


@contextmanager
def admin(addresses: Sequence[str]) -> Iterator[Any]:
    """Open kafka-python's admin client for the time of one change."""
    from kafka import KafkaAdminClient

    client = KafkaAdminClient(bootstrap_servers=list(addresses))
    try:
        yield client
    finally:
        client.close()


def create_topic(
    addresses: Sequence[str],
    name: str | None,
    partitions: int,
    replication_factor: int,
    config: Mapping[str, object],
) -> str:
    """Create a topic and wait until every broker sees leaders of all its partitions."""
    name = name or f"topic-{uuid.uuid4().hex[:12]}"
    options = {
        "num_partitions": partitions,
        "replication_factor": replication_factor,
        "configs": _texts(config),
    }
    with admin(addresses) as client:
        client.create_topics({name: options})

    def has_leaders(address: str) -> bool:
        return _led(address, name) == partitions

    wait_for_all(addresses, has_leaders, f"{partitions} leaders of topic {name}")
    return name


def delete_topic(addresses: Sequence[str], name: str) -> None:
    """Delete a topic and wait until no broker knows it any more."""
    with admin(addresses) as client:
        client.delete_topics([name])

    def is_gone(address: str) -> bool:
        return _led(address, name) == 0

    wait_for_all(addresses, is_gone, f"the end of topic {name}")


def alter_topic(
    addresses: Sequence[str], name: str, config: Mapping[str, object]
) -> None:
    """Change settings of a topic and wait until every broker has them."""
    from kafka.admin import ConfigResource, ConfigResourceType

    wanted = _texts(config)
    with admin(addresses) as client:
        resource = ConfigResource(ConfigResourceType.TOPIC, name, wanted)
        client.alter_configs([resource], incremental=True)

    def has_changed(address: str) -> bool:
        return _settings(address, name, list(wanted)) == wanted

    wait_for_all(addresses, has_changed, f"the new settings of topic {name}")


def _led(address: str, name: str) -> int:
    """Count the partitions that a broker knows and that have a leader."""
    (topic,) = metadata(address, [name]).topics
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
