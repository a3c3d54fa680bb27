"""The error for a setting, an option or a column that cannot be meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaguard.errors import ClientConfigurationError
from kafkaguard_adapters.confluent.errors import make

if TYPE_CHECKING:
    from kafkaguard.errors import KafkaGuardError


def refuse(message: str, *, topic: str | None = None) -> KafkaGuardError:
    """Make it; the text says what to write instead."""
    return make(ClientConfigurationError, message, topic=topic)
