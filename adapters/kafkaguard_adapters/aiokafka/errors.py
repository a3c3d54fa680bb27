"""Errors that are both kafkaguard's and aiokafka's, and codes that aiokafka lacks.

aiokafka shows every code that is not in its public table as ``UnknownError`` with -1,
so the code is lost before anyone can look at it. :func:`complete_table` adds what is
missing. What aiokafka's users reach for stays: ``errno``, ``retriable``, ``message``.
"""

from __future__ import annotations

from typing import ClassVar

from aiokafka import errors as aiokafka_errors
from kafkaguard.errors import BY_CODE, ClientTimeoutError, RetriableError
from kafkaguard_adapters.client_errors import ClientErrors


def _missing_classes() -> dict[int, type[BaseException]]:
    """Make the classes that aiokafka would have if it knew all of Kafka's codes."""
    base = aiokafka_errors.BrokerResponseError
    return {
        code: type(
            ours.__name__,
            (base,),
            {
                "__module__": __name__,
                "__doc__": ours.__doc__,
                "errno": code,
                "message": ours.name,
                "description": ours.name,
                "retriable": issubclass(ours, RetriableError),
            },
        )
        for code, ours in BY_CODE.items()
        if code not in aiokafka_errors.kafka_errors
    }


_MISSING = _missing_classes()
# Other processes find them under their names when they unpickle.
globals().update({cls.__name__: cls for cls in _MISSING.values()})


def complete_table() -> None:
    """Add the missing codes to ``aiokafka.errors.kafka_errors``.

    From then on aiokafka raises them with their numbers. Codes that it has keep their
    classes. Doing it twice changes nothing.
    """
    for code, cls in _MISSING.items():
        aiokafka_errors.kafka_errors.setdefault(code, cls)


class AIOKafkaErrors(ClientErrors):
    """Errors that are also aiokafka's, with the classes that it lacks."""

    client = "aiokafka"
    base = aiokafka_errors.KafkaError
    conditions: ClassVar = {ClientTimeoutError: aiokafka_errors.KafkaTimeoutError}

    def class_for(self, code: int) -> type[BaseException]:
        """Return aiokafka's class for an error code, or the one that fills the gap."""
        if code in _MISSING:
            return _MISSING[code]
        known: type[BaseException] = aiokafka_errors.for_code(code)
        return known


errors = AIOKafkaErrors()
