"""confluent-kafka's exceptions and ours, together.

What its users reach for stays: ``e.args[0]`` is a ``KafkaError`` with ``code()``,
``name()``, ``str()`` and the flags.
"""

from __future__ import annotations

from typing import Any

from confluent_kafka import KafkaError, KafkaException

from kafkaguard.errors import KafkaGuardError, for_code
from kafkaguard_adapters import client_errors

CLIENT = "confluent-kafka"


def class_for(code: int) -> type[BaseException]:  # noqa: ARG001 - as its siblings
    """Return confluent-kafka's class for an error code: it has only one."""
    exception: type[BaseException] = KafkaException
    return exception


def make(
    error: int | type[KafkaGuardError], message: str | None = None, **place: Any
) -> KafkaGuardError:
    """Make an error that is both ours and a ``KafkaException``.

    Args:
        error: A code, or one of our classes. A class without a code of its own
            carries librdkafka's ``_FAIL`` unless ``code=`` says more.
        message: What happened, for people.
        place: ``code``, ``api``, ``topic``, ``partition``, ``broker_message`` ...
    """
    ours = for_code(error) if isinstance(error, int) else error
    code = place.setdefault("code", ours.code)
    inner = KafkaError(KafkaError._FAIL if code is None else code, message)  # noqa: SLF001 - a documented constant
    return client_errors.combine(
        ours, KafkaException, (inner,), message, client=CLIENT, **place
    )


def translate(original: Any, **known: Any) -> KafkaGuardError:
    """Turn a KafkaException, or a bare ``KafkaError``, into one that is ours as well.

    Args:
        original: What was raised, or what a delivery report or ``error_cb`` handed
            over. A bare KafkaError is no exception; it becomes a KafkaException.
        known: ``api``, ``topic``, ``partition`` ..., ``context`` for further arguments
            of :func:`kafkaguard.classify`, or a ready ``verdict``.
    """
    theirs = None if isinstance(original, BaseException) else KafkaException
    inner = original.args[0] if theirs is None and original.args else original
    if isinstance(inner, KafkaError):
        known.setdefault("broker_message", inner.str())
    return client_errors.translate(original, theirs, client=CLIENT, **known)
