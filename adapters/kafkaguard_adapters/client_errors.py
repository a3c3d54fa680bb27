"""Errors that are instances of kafkaguard's class and of the client's class."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from kafkaguard._errors import (
    ClientStateError,
    KafkaGuardError,
    RecordPurgedError,
    SerializationFailedError,
    dual,
    for_code,
)
from kafkaguard._errors.base import Action, RuleInfo, Verdict
from kafkaguard._errors.made import module_of
from kafkaguard._verdicts.classification import classify
from kafkaguard._verdicts.signals import signal_of

if TYPE_CHECKING:
    from collections.abc import Mapping


#: FENCED_INSTANCE_ID.
_FENCED = 82
#: The verdict for a client of the parent process that is used in a forked child.
OF_PARENT = Verdict(
    Action.RECREATE,
    retriable=False,
    written="no",
    error_class=ClientStateError,
    rule=RuleInfo(
        "client-of-the-parent",
        "the client belongs to the parent process: build one in this process",
        "POSIX fork(2): the child has none of the parent's threads",
        "A client is built, then the process forks, as multiprocessing and servers do.",
    ),
)


class ClientErrors(ABC):
    """Makes the errors of one client. Each one has kafkaguard's and the client's class.

    Attributes:
        client: The name of the client library.
        base: The base class of the client's errors.
        conditions: The client's classes for conditions that have no code (a timeout, a
            closed client, calls in a wrong order), by kafkaguard's classes.
        given_up: The client's code for a record that it gave up without an answer, or
            the condition.
    """

    client: str
    given_up: ClassVar[int | type[KafkaGuardError]] = RecordPurgedError
    base: ClassVar[type[BaseException]]
    conditions: ClassVar[Mapping[type[KafkaGuardError], type[BaseException]]] = {}

    @abstractmethod
    def class_for(self, code: int) -> type[BaseException]:
        """Return the client's class for an error code."""

    def make(
        self,
        error: int | type[KafkaGuardError],
        message: str | None = None,
        *,
        theirs: type[BaseException] | None = None,
        **place: Any,
    ) -> KafkaGuardError:
        """Make an error.

        Args:
            error: An error code, or one of kafkaguard's classes. For a class without a
                code, the client's class is found by ``code=`` or by the condition.
            message: A description of what happened, for people.
            theirs: The client's class, if neither a code nor a condition determines it.
            place: ``code``, ``api``, ``topic``, ``partition``, ``broker_message`` ...
        """
        ours = for_code(error) if isinstance(error, int) else error
        code = place.setdefault("code", ours.code)
        if theirs is None:
            theirs = self._class_of(ours) if code is None else self.class_for(code)
        return self._combine(
            ours,
            theirs,
            self._args(code, message),
            message,
            attributes=self._attributes(theirs, code),
            **place,
        )

    def translate(
        self,
        original: Any,
        *,
        message: str | None = None,
        context: dict[str, Any] | None = None,
        verdict: Verdict | None = None,
        **place: Any,
    ) -> KafkaGuardError:
        """Convert a client's exception to an error of both classes.

        Args:
            original: The client's exception or error.
            message: A description of what happened, for people. Default: the text of
                the original.
            context: Further arguments of :func:`kafkaguard.classify`.
            verdict: The verdict, if it is already known.
            place: ``api``, ``topic``, ``partition`` ...

        Returns:
            The error. If the original is an exception, it is the ``__cause__``.
        """
        context = {"api": place.get("api"), "client": self.client, **(context or {})}
        verdict = verdict or classify(original, **context)
        signal = signal_of(original)
        key = None if signal is None else signal.key
        is_exception = isinstance(original, BaseException)
        error = self._combine(
            verdict.error_class,
            _find_importable(type(original)) if is_exception else self.base,
            original.args if is_exception else (original,),
            message,
            attributes=dict(vars(original)) if is_exception else {},
            code=key if isinstance(key, int) else None,
            verdict=verdict,
            original=original if is_exception else None,
            **place,
        )
        if is_exception:
            error.__cause__ = original
        return error

    def translate_read(self, original: Any, **place: Any) -> KafkaGuardError:
        """Convert an exception of a consumer's call.

        A call that does not name its request has only read, so nothing is in doubt.

        Args:
            original: The client's exception or error.
            place: As for :meth:`translate`.
        """
        context = {"api": place.get("api", "Fetch")}
        return self.translate(original, context=context, **place)

    def undecoded(
        self,
        original: BaseException,
        part: Literal["key", "value"],
        *,
        offset: int,
        key: bytes | None,
        value: bytes | None,
        headers: Any,
        **place: Any,
    ) -> KafkaGuardError:
        """Make the error of a record whose key or value the application cannot decode.

        Args:
            original: The exception of the deserializer. If its class can be a parent,
                the error is also an instance of it.
            part: The part that could not be decoded.
            offset: The record's offset.
            key: The bytes of its key.
            value: The bytes of its value.
            headers: Its headers.
            place: ``topic`` and ``partition``.

        Returns:
            A :class:`SerializationFailedError` without the record's content in its
            text. ``original`` is the ``__cause__``.
        """
        message = (
            f"the {part} of the record at offset {offset} cannot be deserialized "
            f"({type(original).__name__}). The next poll reads on behind this record; "
            "seek to its offset to read it again"
        )
        signal = signal_of(original)
        code = signal.key if signal and isinstance(signal.key, int) else None
        ours: type[KafkaGuardError] = SerializationFailedError
        if code is not None and issubclass(for_code(code), ours):
            ours = for_code(code)
        wrapper = ours(message)
        wrapper.__cause__ = original
        place |= {
            "code": ours.code,
            "api": "Fetch",
            "verdict": classify(wrapper, api="Fetch", client=self.client),
            "original": original,
        }
        args = self._args(ours.code, message)
        try:
            error = self._combine(
                ours,
                _find_importable(type(original)),
                args,
                message,
                attributes=dict(vars(original)),
                **place,
            )
        except Exception:  # noqa: BLE001 - an exception's class may allow no subclass
            error = self._combine(
                ours, self.base, args, message, attributes={}, **place
            )
        error.__dict__.update(offset=offset, key=key, value=value, headers=headers)
        error.__cause__ = original
        return error

    def fenced(self, setting: str, instance: str | None) -> KafkaGuardError:
        """Make the error of a static member whose place another member has taken.

        Args:
            setting: The client's name of ``group.instance.id``.
            instance: Its value; None: not known.
        """
        named = setting if instance is None else f"{setting} {instance!r}"
        return self.make(
            _FENCED,
            f"another member joined the group with the {named} of this "
            "consumer. This consumer reads and commits nothing more: close it. Each "
            f"consumer of a group needs a {setting} of its own",
        )

    def _class_of(self, ours: type[KafkaGuardError]) -> type[BaseException]:
        classes = (self.conditions[c] for c in ours.__mro__ if c in self.conditions)
        return next(classes, self.base)

    def _args(self, code: int | None, message: str | None) -> tuple[Any, ...]:  # noqa: ARG002 - for clients whose exceptions carry the code in an object
        """Return ``args`` as the client would set them."""
        return () if message is None else (message,)

    def _attributes(self, theirs: type[BaseException], code: int | None) -> Any:
        """Return the attributes that the client would set."""
        lost = getattr(theirs, "errno", code) != code
        return {"errno": code} if lost else {}

    def _combine(
        self,
        ours: type[KafkaGuardError],
        theirs: type[BaseException],
        args: tuple[Any, ...],
        message: str | None,
        *,
        attributes: dict[str, Any],
        **place: Any,
    ) -> KafkaGuardError:
        """Make an error of both classes.

        The client's ``__init__`` does not run, because each class expects other
        arguments.
        """
        cls = dual(ours, theirs)
        error = cls.__new__(cls, *args)
        error.__dict__.update(attributes)
        KafkaGuardError.__init__(error, message, client=self.client, **place)
        error.args = args
        return error


def recast(error: KafkaGuardError, theirs: type[BaseException]) -> KafkaGuardError:
    """Make the same error with the class that the client raises here."""
    cls = dual(error.verdict.error_class, theirs)
    copy = cls.__new__(cls, *error.args)
    copy.args = error.args
    copy.__dict__.update(error.__dict__)
    return copy


def _find_importable(cls: type[BaseException]) -> type[BaseException]:
    """Return the nearest class that another process can import.

    kafka-python makes a new class for each unknown code.
    """
    for parent in cls.__mro__:
        try:
            module = importlib.import_module(module_of(parent))
        except ImportError:
            continue
        if vars(module).get(parent.__name__) is parent:
            return parent  # type: ignore[no-any-return]  # vars() has no types
    return Exception
