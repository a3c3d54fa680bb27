"""Topics of a test cluster: done when every broker knows, not when one accepted."""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kafkaguard.testing._errors import ClusterError
from kafkaguard.testing._wire import metadata, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_SETTLE_TIMEOUT_S = 20.0


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
        "configs": {key: _text(value) for key, value in config.items()},
    }
    with admin(addresses) as client:
        client.create_topics({name: options})
    _settle(addresses, name, partitions)
    return name


def delete_topic(addresses: Sequence[str], name: str) -> None:
    """Delete a topic and wait until no broker knows it any more."""
    with admin(addresses) as client:
        client.delete_topics([name])
    _settle(addresses, name, 0)


def alter_topic(
    addresses: Sequence[str], name: str, config: Mapping[str, object]
) -> None:
    """Change settings of a topic and wait until every broker uses them."""
    wanted = {key: _text(value) for key, value in config.items()}
    with admin(addresses) as client:
        from kafka.admin import ConfigResource, ConfigResourceType

        resource = ConfigResource(ConfigResourceType.TOPIC, name, wanted)
        client.alter_configs([resource], incremental=True)


def _settle(addresses: Sequence[str], name: str, partitions: int) -> None:
    def settled() -> bool:
        return all(_led(address, name) == partitions for address in addresses)

    if not wait_for(settled, _SETTLE_TIMEOUT_S):
        raise ClusterError(
            f"not every broker sees topic {name} with {partitions} led partitions "
            f"after {_SETTLE_TIMEOUT_S:g} s; see the brokers' logs"
        )


def _led(address: str, name: str) -> int:
    """Count the partitions that a broker knows and that have a leader."""
    try:
        (topic,) = metadata(address, [name]).topics
    except OSError:
        return -1
    return sum(each.error_code == 0 for each in topic.partitions)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
