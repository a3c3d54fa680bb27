"""The error for a setting, an option or a column that cannot be used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaguard.errors import ClientConfigurationError
from kafkaguard_adapters.confluent.errors import errors

if TYPE_CHECKING:
    from kafkaguard.errors import KafkaGuardError


_SETTING = "setting"


def refuse(
    message: str, *, topic: str | None = None, setting: str | None = None
) -> KafkaGuardError:
    """Make it; the text says what to write instead.

    Args:
        message: What is wrong, and what would be right.
        topic: The topic concerned.
        setting: What has to be mended: an argument of ``write``, ``kafka.<name>`` for
            one of the client's, or ``column <name>``.
    """
    error = errors.make(ClientConfigurationError, message, topic=topic)
    vars(error)[_SETTING] = setting
    return error


def setting_of(error: KafkaGuardError) -> str | None:
    """Return the setting that a refusal is about; None: not known."""
    found: str | None = vars(error).get(_SETTING)
    return found
