"""Errors that are both kafkaguard's and aiokafka's, and codes that aiokafka lacks.

aiokafka turns every code that is not in its public table into ``UnknownError`` with -1,
so the code is lost. :func:`complete_table` adds the missing codes. What users of
aiokafka read from an error stays available: ``errno``, ``retriable``, ``message``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from aiokafka import errors as aiokafka_errors
from kafkaguard._errors import (
    ClientClosedError,
    ClientStateError,
    ClientTimeoutError,
    RetriableError,
)
from kafkaguard._errors.base import Action, RuleInfo, Verdict
from kafkaguard._errors.generated import BY_CODE
from kafkaguard_adapters.client_errors import ClientErrors

if TYPE_CHECKING:
    from kafkaguard._errors import KafkaGuardError


#: The verdict for a call of a client that was not started.
NOT_STARTED = Verdict(
    Action.CONFIGURE,
    retriable=False,
    written="no",
    error_class=ClientStateError,
    rule=RuleInfo(
        "client-not-started",
        "start the client, then make the same call",
        "aiokafka: start() comes before any other call",
        "A call before start(), or after a start() that failed.",
    ),
)
#: The same for a client that is closed until it is started again.
START_FAILED = replace(NOT_STARTED, error_class=ClientClosedError)
#: The verdict for a consumer whose task for its group has ended.
GROUP_ENDED = Verdict(
    Action.RECREATE,
    retriable=False,
    written="no",
    error_class=ClientStateError,
    rule=RuleInfo(
        "client-left-its-group",
        "the consumer has given up its group for good: stop it, and build a new one",
        "aiokafka: GroupCoordinator._coordination_routine",
        "The coordinator answers a heartbeat with a code that aiokafka does not "
        "expect, such as 14 or -1: it sends no more, and each later read fails, too.",
    ),
)
#: The verdict for a call from another event loop than the client's.
_OTHER_LOOP = replace(
    NOT_STARTED,
    rule=RuleInfo(
        "client-of-another-loop",
        "make the call in the client's own event loop, or build a client in this one",
        "aiokafka: a client belongs to the event loop in which it was built",
        "A client is built in one asyncio.run(), and used in another.",
    ),
)


class IllegalCallError(aiokafka_errors.IllegalOperation, aiokafka_errors.KafkaError):  # type: ignore[misc]  # aiokafka has no types
    """A transactional call that does not fit: aiokafka raises no ``KafkaError``."""


def _missing_classes() -> dict[int, type[BaseException]]:
    """Return a class like aiokafka's for each code that aiokafka does not know."""
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
# Unpickling in another process looks up these classes by name.
globals().update({cls.__name__: cls for cls in _MISSING.values()})


def complete_table() -> None:
    """Add the missing codes to ``aiokafka.errors.kafka_errors``.

    From then on aiokafka raises them with their numbers. Codes that aiokafka has keep
    their classes. A second call changes nothing.
    """
    for code, cls in _MISSING.items():
        aiokafka_errors.kafka_errors.setdefault(code, cls)


class AIOKafkaErrors(ClientErrors):
    """Errors that are also aiokafka's, with classes for the codes that it lacks."""

    client = "aiokafka"
    base = aiokafka_errors.KafkaError
    conditions: ClassVar = {ClientTimeoutError: aiokafka_errors.KafkaTimeoutError}

    def class_for(self, code: int) -> type[BaseException]:
        """Return aiokafka's class for an error code, or the added class."""
        if code in _MISSING:
            return _MISSING[code]
        their_class: type[BaseException] = aiokafka_errors.for_code(code)
        return their_class

    def class_named(self, name: str) -> type[BaseException] | None:
        """Return aiokafka's class of this name, or the added one, if it has a code."""
        known: list[type[BaseException]] = [*aiokafka_errors.kafka_errors.values()]
        return next((each for each in known if each.__name__ == name), None)


errors = AIOKafkaErrors()


def wrong_loop(kind: str) -> KafkaGuardError:
    """Return the error of a call from another event loop than the client's.

    Args:
        kind: What kind of client it is, such as ``"producer"``.
    """
    return errors.make(
        ClientStateError,
        f"the {kind} belongs to another event loop than the one that runs; nothing was "
        "done",
        theirs=aiokafka_errors.IllegalStateError,
        verdict=_OTHER_LOOP,
    )
