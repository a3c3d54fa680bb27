"""kafka-python's exceptions and ours, together.

What kafka-python's users reach for stays: ``errno``, ``retriable``,
``invalid_metadata``, ``description`` and ``args``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka import errors as kafka_errors

from kafkaguard_adapters import client_errors

if TYPE_CHECKING:
    from kafkaguard.errors import KafkaGuardError

CLIENT = "kafka-python"


def class_for(code: int) -> type[BaseException]:
    """Return kafka-python's class for an error code.

    A code that it does not know gives its ``UnknownError``: it would make a new class
    on each call, which no other process can import.
    """
    known: type[BaseException] = kafka_errors.kafka_errors.get(
        code, kafka_errors.UnknownError
    )
    return known


#: Makes an error that is both ours and the client's, as ``client_errors.maker`` says.
make = client_errors.maker(kafka_errors.KafkaError, class_for, CLIENT)


def translate(original: BaseException, **known: Any) -> KafkaGuardError:
    """Turn an exception of kafka-python into one that is ours as well.

    Args:
        original: What kafka-python raised.
        known: ``api``, ``topic``, ``partition`` ..., ``context`` for further arguments
            of :func:`kafkaguard.classify`, or a ready ``verdict``.
    """
    error = client_errors.translate(original, client=CLIENT, **known)
    if error.summary is None and original.args in ((), (None,)):
        # Its text would be "MessageSizeTooLargeError: None".
        error.summary = _sentence(original)
        error.original_text = None
    if error.code is not None and getattr(error, "errno", error.code) != error.code:
        error.__dict__["errno"] = error.code
    return error


def add_words(error: KafkaGuardError, words: str) -> None:
    """Add to what an error says."""
    said = error.summary or (None if error.broker_message else error.original_text)
    error.summary = f"{said}; {words}" if said else words


def _sentence(original: BaseException) -> str:
    """Say what kafka-python left out of an exception without a text."""
    if isinstance(original, kafka_errors.BrokerResponseError):
        return "the broker refused it and gave no further reason"
    return f"kafka-python gave up ({type(original).__name__})"
