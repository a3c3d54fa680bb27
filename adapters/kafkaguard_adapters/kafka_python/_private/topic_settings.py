"""Settings of topics, asked on a connection of our own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka import KafkaAdminClient
from kafka.protocol.admin import DescribeConfigsRequest

from kafkaguard.errors import for_code

if TYPE_CHECKING:
    from collections.abc import Callable

_TOPIC = 2
_LOOK_UP_TIMEOUT_MS = 10_000


def ask_with(
    settings: Callable[[], dict[str, Any]],
) -> Callable[[str, list[str]], dict[str, str | None]]:
    """Return a function that asks the cluster for settings of a topic, by name.

    Args:
        settings: Returns the settings of the producer, which say how to connect.
    """

    def ask(topic: str, names: list[str]) -> dict[str, str | None]:
        known = KafkaAdminClient.DEFAULT_CONFIG.keys() - {"metric_reporters"}
        mine = {name: v for name, v in settings().items() if name in known}
        for bound in ("bootstrap_timeout_ms", "request_timeout_ms"):
            mine[bound] = min(
                mine.get(bound) or _LOOK_UP_TIMEOUT_MS, _LOOK_UP_TIMEOUT_MS
            )
        admin = KafkaAdminClient(**mine)
        try:
            return _describe(admin, topic, names)
        finally:
            admin.close()

    return ask


def _describe(admin: Any, topic: str, names: list[str]) -> dict[str, str | None]:
    """Ask, with the error code that describe_configs() drops."""
    request = DescribeConfigsRequest(resources=[(_TOPIC, topic, names)])
    manager = admin._manager  # noqa: SLF001 - see above
    (result,) = manager.run(manager.send, request).results
    if result.error_code:
        raise for_code(result.error_code)(
            result.error_message, api="DescribeConfigs", topic=topic
        )
    return {entry.name: entry.value for entry in result.configs}
