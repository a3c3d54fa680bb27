"""Errors that are instances of kafkaguard's class and of kafka-python's class.

They keep the attributes that users of kafka-python use: ``errno``, ``retriable``,
``invalid_metadata``, ``description`` and ``args``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka import errors as kafka_errors

from kafkaguard._errors import (
    ClientClosedError,
    ClientStateError,
    ClientTimeoutError,
)
from kafkaguard_adapters.client_errors import ClientErrors

if TYPE_CHECKING:
    from kafkaguard._errors import KafkaGuardError


class KafkaPythonErrors(ClientErrors):
    """Makes errors that also have kafka-python's class."""

    client = "kafka-python"
    base = kafka_errors.KafkaError
    conditions = {  # noqa: RUF012 - a constant
        ClientTimeoutError: kafka_errors.KafkaTimeoutError,
        ClientClosedError: kafka_errors.IllegalStateError,
        ClientStateError: kafka_errors.IllegalStateError,
    }

    def class_for(self, code: int) -> type[BaseException]:
        """Return kafka-python's class for an error code.

        For a code that kafka-python does not know, this is ``UnknownError``.
        kafka-python itself would make a new class at each call, which no other process
        can import.
        """
        their_class: type[BaseException] = kafka_errors.kafka_errors.get(
            code, kafka_errors.UnknownError
        )
        return their_class

    def translate(self, original: Any, **details: Any) -> KafkaGuardError:
        """Convert an exception of kafka-python to an error of both classes."""
        error = super().translate(original, **details)
        if error.summary is None and original.args in ((), (None,)):
            # Else the text would be "MessageSizeTooLargeError: None".
            error.summary = _sentence(original)
            error.original_text = None
        if error.code is not None and getattr(error, "errno", error.code) != error.code:
            error.__dict__["errno"] = error.code
        return error


errors = KafkaPythonErrors()


def _sentence(original: BaseException) -> str:
    """Return a text for an exception of kafka-python that has none."""
    if isinstance(original, kafka_errors.BrokerResponseError):
        return "the broker refused it and gave no further reason"
    return f"kafka-python gave up ({type(original).__name__})"
