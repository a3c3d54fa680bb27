"""Errors that are both kafkaguard's and confluent-kafka's.

What users of confluent-kafka read from an error stays available: ``e.args[0]`` is a
``KafkaError`` with ``code()``, ``name()``, ``str()`` and the flags.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from confluent_kafka import KafkaError, KafkaException

from kafkaguard._errors import ClientClosedError, ClientQueueFullError
from kafkaguard_adapters.client_errors import ClientErrors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkaguard._errors import KafkaGuardError


class ClosedClientError(KafkaException, RuntimeError):  # type: ignore[misc]  # confluent-kafka has no types
    """The client is closed, for which confluent-kafka raises a RuntimeError."""


class QueueFullError(KafkaException, BufferError):  # type: ignore[misc]  # confluent-kafka has no types
    """The queue is full, for which confluent-kafka raises a BufferError."""


class ConfluentErrors(ClientErrors):
    """Errors that are also a ``KafkaException``, the only class of confluent-kafka.

    An error without a code has librdkafka's ``_FAIL`` as its code.
    """

    client = "confluent-kafka"
    base = KafkaException
    given_up = KafkaError._PURGE_INFLIGHT  # noqa: SLF001 - a documented constant
    conditions: ClassVar[Mapping[type[KafkaGuardError], type[BaseException]]] = {
        ClientClosedError: ClosedClientError,
        ClientQueueFullError: QueueFullError,
    }

    def class_for(self, code: int) -> type[BaseException]:  # noqa: ARG002 - see above
        """Return confluent-kafka's class for an error code."""
        their_class: type[BaseException] = KafkaException
        return their_class

    def translate(self, original: Any, **details: Any) -> KafkaGuardError:
        """Turn a KafkaException, or a bare ``KafkaError``, into a ``KafkaGuardError``.

        Args:
            original: The exception, or the ``KafkaError`` of a delivery report or of
                ``error_cb``, which becomes a KafkaException as well.
            details: As for any client.
        """
        inner = inner_error(original)
        if inner is not None:
            details.setdefault("broker_message", inner.str())
        return super().translate(original, **details)

    def _args(self, code: int | None, message: str | None) -> tuple[Any, ...]:
        return (KafkaError(KafkaError._FAIL if code is None else code, message),)  # noqa: SLF001 - a documented constant


def inner_error(original: Any) -> KafkaError | None:
    """Return the ``KafkaError`` of an exception, or a bare one; None: it has none."""
    is_raised = isinstance(original, BaseException) and original.args
    inner = original.args[0] if is_raised else original
    return inner if isinstance(inner, KafkaError) else None


errors = ConfluentErrors()
