"""Names of attributes: the same in metrics, spans and lines of the log."""

from __future__ import annotations

from typing import Final

#: What OpenTelemetry's conventions have a name for; all else is kafkaguard's own.
_CONVENTIONS: Final = {
    "topic": "messaging.destination.name",
    "partition": "messaging.destination.partition.id",
    "offset": "messaging.kafka.offset",
    "group": "messaging.consumer.group.name",
    "error": "error.type",
}


def attribute(name: str) -> str:
    """Return the full name of an attribute, such as ``messaging.destination.name``."""
    return _CONVENTIONS.get(name, f"kafkaguard.{name}")
