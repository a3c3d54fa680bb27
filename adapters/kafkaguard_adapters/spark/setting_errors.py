"""The error for a setting, an option or a column that cannot be used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaguard._errors import ClientConfigurationError
from kafkaguard_adapters.confluent.errors import errors

if TYPE_CHECKING:
    from kafkaguard._errors import KafkaGuardError


def setting_error(
    message: str, *, topic: str | None = None, setting: str | None = None
) -> KafkaGuardError:
    """Make the error; its text says what to write instead.

    Args:
        message: What is wrong, and what to write.
        topic: The topic concerned.
        setting: The setting to correct: an argument of ``write``, ``kafka.<name>`` for
            a client setting, or ``column <name>``.
    """
    error = errors.make(ClientConfigurationError, message, topic=topic)
    vars(error)["setting"] = setting
    return error


def setting_of(error: KafkaGuardError) -> str | None:
    """Return the setting that an error is about, or None if unknown."""
    setting: str | None = vars(error).get("setting")
    return setting
