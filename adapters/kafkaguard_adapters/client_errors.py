"""Errors that are both kafkaguard's and a client's: what all adapters share."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from kafkaguard._verdicts.classification import classify
from kafkaguard._verdicts.signals import signal_of
from kafkaguard.errors import KafkaGuardError, dual, for_code
from kafkaguard.errors._made import module_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaguard._cluster.reports import Make
    from kafkaguard._verdicts.verdict import Verdict


def combine(
    ours: type[KafkaGuardError],
    theirs: type[BaseException],
    args: tuple[Any, ...],
    message: str | None = None,
    *,
    attributes: dict[str, Any] | None = None,
    **place: Any,
) -> KafkaGuardError:
    """Make an error of both classes.

    The client's ``__init__`` does not run (each has its own idea of arguments), so
    ``args`` and ``attributes`` are what its users find on the exception.
    """
    cls = dual(ours, theirs)
    error = cls.__new__(cls, *args)
    error.__dict__.update(attributes or {})
    KafkaGuardError.__init__(error, message, **place)
    error.args = args
    return error


def maker(
    base: type[BaseException],
    class_for: Callable[[int], type[BaseException]],
    client: str,
) -> Make:
    """Return the ``make`` of a client whose classes carry the code as ``errno``.

    It takes a code, or one of our classes (one without a code of its own needs
    ``code=`` to find the client's), what happened, for people, and the place: ``api``,
    ``topic``, ``partition``, ``broker_message`` ...

    Args:
        base: The client's class of all errors.
        class_for: Finds its class for a code.
        client: The library.
    """

    def make(
        error: int | type[KafkaGuardError], message: str | None = None, **place: Any
    ) -> KafkaGuardError:
        ours = for_code(error) if isinstance(error, int) else error
        code = place.setdefault("code", ours.code)
        theirs = base if code is None else class_for(code)
        lost = getattr(theirs, "errno", code) != code
        return combine(
            ours,
            theirs,
            () if message is None else (message,),
            message,
            attributes={"errno": code} if lost else None,
            client=client,
            **place,
        )

    return make


def recast(error: KafkaGuardError, theirs: type[BaseException]) -> KafkaGuardError:
    """Make the same error of another class of the client's."""
    cls = dual(error.verdict.error_class, theirs)
    copy = cls.__new__(cls, *error.args)
    copy.args = error.args
    copy.__dict__.update(error.__dict__)
    return copy


def translate(
    original: Any,
    theirs: type[BaseException] | None = None,
    *,
    message: str | None = None,
    context: dict[str, Any] | None = None,
    verdict: Verdict | None = None,
    **place: Any,
) -> KafkaGuardError:
    """Turn a client's exception into one that is ours as well.

    Args:
        original: What the client raised or reported.
        theirs: The client's class to keep. Default: the original's own.
        message: What happened, for people. Default: the original's text.
        context: Further arguments of :func:`kafkaguard.classify`.
        verdict: The verdict, where it is known already.
        place: Where it happened: topic, partition, api, client ...

    Returns:
        An error with the original as its ``__cause__``, where that is an exception.
    """
    context = dict(context or {})
    context.setdefault("api", place.get("api"))
    context.setdefault("client", place.get("client"))
    verdict = verdict or classify(original, **context)
    signal = signal_of(original)
    code = signal.key if signal is not None and isinstance(signal.key, int) else None
    is_exception = isinstance(original, BaseException)
    error = combine(
        verdict.error_class,
        theirs or importable(type(original)),
        original.args if is_exception else (original,),
        message,
        attributes=dict(vars(original)) if is_exception else None,
        code=code,
        verdict=verdict,
        original=original if is_exception else None,
        **place,
    )
    if is_exception:
        error.__cause__ = original
    return error


def importable(cls: type[BaseException]) -> type[BaseException]:
    """Return the nearest class that another process can import.

    kafka-python makes a class on the spot for each code that it does not know.
    """
    for parent in cls.__mro__:
        try:
            module = importlib.import_module(module_of(parent))
        except ImportError:
            continue
        if vars(module).get(parent.__name__) is parent:
            found: type[BaseException] = parent
            return found
    return Exception
