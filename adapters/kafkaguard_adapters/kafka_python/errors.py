"""Errors that are instances of kafkaguard's class and of kafka-python's class.

They keep the attributes that users of kafka-python use: ``errno``, ``retriable``,
``invalid_metadata``, ``description`` and ``args``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka import errors as kafka_errors

from kafkaguard._delivery.judging import NO_PRODUCER_ID, ends_all
from kafkaguard.errors import (
    ClientClosedError,
    ClientConfigurationError,
    ClientStateError,
    ClientTimeoutError,
    for_code,
)
from kafkaguard_adapters.client_errors import ClientErrors
from kafkaguard_adapters.kafka_python._private import reading

if TYPE_CHECKING:
    from kafkaguard.errors import KafkaGuardError


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
        known: type[BaseException] = kafka_errors.kafka_errors.get(
            code, kafka_errors.UnknownError
        )
        return known

    def translate(self, original: Any, **known: Any) -> KafkaGuardError:
        """Convert an exception of kafka-python to an error of both classes."""
        error = super().translate(original, **known)
        if error.summary is None and original.args in ((), (None,)):
            # Else the text would be "MessageSizeTooLargeError: None".
            error.summary = _sentence(original)
            error.original_text = None
        if error.code is not None and getattr(error, "errno", error.code) != error.code:
            error.__dict__["errno"] = error.code
        return error


errors = KafkaPythonErrors()


def reason_of(error: BaseException, producer: Any) -> BaseException:
    """Return why a producer has died or given up a batch, as far as kafka-python knows.

    A broker's answer may be hidden in a text. If the brokers gave the producer no id,
    the result is a ``ClientConfigurationError``, because no new producer gets one. If
    it had an id, and was refused a new epoch, a new producer may get one.
    """
    refusal = reading.refusal_of_id(error)
    if refusal is None or ends_all(refusal) or reading.has_id(producer):
        return reading.unwrapped(error)
    made = errors.make(
        ClientConfigurationError,
        f"the brokers gave the producer no id (InitProducerId: {_name(refusal)}): set "
        "enable_idempotence=False, or use brokers that give one; nothing was sent",
        verdict=NO_PRODUCER_ID,
    )
    made.__cause__ = error
    return made


def _name(refusal: BaseException) -> str:
    """Return the name and the code of a broker's answer."""
    if isinstance(refusal, kafka_errors.IncompatibleBrokerVersion):
        return "not offered"
    code = getattr(refusal, "errno", -1)
    return f"{for_code(code).name} ({code})"


def _sentence(original: BaseException) -> str:
    """Return a text for an exception of kafka-python that has none."""
    if isinstance(original, kafka_errors.BrokerResponseError):
        return "the broker refused it and gave no further reason"
    return f"kafka-python gave up ({type(original).__name__})"
