"""Base classes of all errors, and verdicts: what to do about an error.

An error has a verdict, and a verdict names the class of the error.
"""

from __future__ import annotations

import copyreg
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from kafkaguard._common import classifier
from kafkaguard._errors.rights import missing_right

if TYPE_CHECKING:
    from collections.abc import Callable

Written = Literal["no", "maybe", "yes"]


class Action(StrEnum):
    """The right next step.

    The order is that of severity: of several failures at once, the last one decides.
    """

    IGNORE = "IGNORE"
    """Not a failure."""
    RETRY = "RETRY"
    """The same request again, after backoff."""
    REFRESH = "REFRESH"
    """The same request again, with metadata or coordinator refreshed."""
    WAIT = "WAIT"
    """Not accepted: wait as told, then the same; costs no attempt."""
    REJOIN = "REJOIN"
    """The group has moved on: read again, then only for partitions still owned."""
    ABORT = "ABORT"
    """Abort the transaction, then go on."""
    REJECT = "REJECT"
    """This record or request can never succeed; its neighbours may."""
    IN_DOUBT = "IN_DOUBT"
    """It may have been written; sending it again may write it twice."""
    CONFIGURE = "CONFIGURE"
    """Stop and tell a human: configuration, authentication, authorization."""
    RECREATE = "RECREATE"
    """This client object is dead: build a new one."""
    FENCED = "FENCED"
    """Another instance owns this id: stop, and never fence back."""

    @property
    def severity(self) -> int:
        """The rank by severity, from 0 (``IGNORE``) to 10 (``FENCED``)."""
        return _SEVERITY[self]


_SEVERITY = {action: rank for rank, action in enumerate(Action)}


#: Actions after which the same request may be sent again.
RETRIABLE_ACTIONS = frozenset({Action.RETRY, Action.REFRESH, Action.WAIT})


@dataclass(frozen=True, slots=True)
class RuleInfo:
    """The rule that decided.

    Attributes:
        id: A stable name for logs, metrics and overrides.
        sentence: What to do and why, in one sentence.
        source: The KIP, Kafka class or public report that it rests on.
        scenario: What produces the answer, and what a wrong decision costs.
    """

    id: str
    sentence: str
    source: str
    scenario: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to do about an answer. Interned: equal verdicts are the same object.

    Attributes:
        action: The right next step.
        retriable: The same request may be sent again by a retry loop (RETRY, REFRESH,
            WAIT).
        written: Whether the cluster holds what was sent: ``"no"``, ``"maybe"`` or
            ``"yes"``.
        error_class: The class of :mod:`kafkaguard.errors` for this answer.
        rule: The rule that decided.
    """

    action: Action
    retriable: bool
    written: Written
    error_class: type[KafkaGuardError]
    rule: RuleInfo


__all__ = [
    "AbortableError",
    "FatalError",
    "KafkaGuardError",
    "RetriableError",
    "UnrecognisedCodeError",
]


class MadeAtRunTime(type):
    """The metaclass of classes made at run time, so that they can be pickled.

    Such a class remembers its ``recipe``: the function and the arguments that make it
    (again, in another process).
    """

    recipe: tuple[Callable[..., type], tuple[Any, ...]]


def _recipe(cls: MadeAtRunTime) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    return cls.recipe


copyreg.pickle(MadeAtRunTime, _recipe)


def _restore(
    cls: type[KafkaGuardError], args: tuple[Any, ...], state: dict[str, Any]
) -> KafkaGuardError:
    """Build an error without ``__init__``: a client's may need other arguments."""
    error = cls.__new__(cls, *args)
    error.__dict__.update(state)
    return error


class KafkaGuardError(Exception):
    """An error of a broker, or a condition that a client reports.

    The class is Kafka's classification of the code. What to do is in :attr:`verdict`,
    which also depends on the request.

    Args:
        message: What happened, for people. Default: nothing beyond code and place.
        code: The error code. Default: the class's own.
        api: The request that was answered, by its Kafka name (``"Produce"``).
        topic: The topic concerned.
        partition: The partition concerned.
        broker: The id of the broker that answered.
        client: The client library (``"kafka-python"``, ``"confluent-kafka"``,
            ``"aiokafka"``).
        broker_message: The broker's own text.
        original: The client's exception. Its type and text are kept as strings, because
            pickling drops ``__cause__``.
        verdict: What to do. Default: classified from the other arguments on first use.
    """

    code: int | None = None
    name: str = "UNCLASSIFIED"
    #: ``"broker"`` for a code that came (or would come) over the wire, ``"client"``
    #: for a condition that the client library found by itself.
    origin: ClassVar[str] = "broker"
    #: The next call of the application, in addition to the verdict; None: see there.
    advice: str | None = None
    #: Whether it is the outcome of a record that a guarded producer had taken. A retry
    #: around the call does not send that record again.
    is_outcome: bool = False

    def __init_subclass__(
        cls, *, code: int | None = None, name: str | None = None
    ) -> None:
        """Set a code and its name; a class without them has those of its parent."""
        super().__init_subclass__()
        if code is not None:
            cls.code = code
        if name is not None:
            cls.name = name

    def __init__(  # noqa: PLR0913 - one for each attribute
        self,
        message: str | None = None,
        *,
        code: int | None = None,
        api: str | None = None,
        topic: str | None = None,
        partition: int | None = None,
        broker: int | None = None,
        client: str | None = None,
        broker_message: str | None = None,
        original: BaseException | None = None,
        verdict: Verdict | None = None,
    ) -> None:
        # Not super(): in a pair with a client's class that would be the client's.
        Exception.__init__(self, *(() if message is None else (message,)))
        self.summary = message
        if code is not None:
            self.code = code
        self.api = api
        self.topic = topic
        self.partition = partition
        self.broker = broker
        self.client = client
        self.broker_message = broker_message
        self.original_type = None if original is None else _qualified(type(original))
        self.original_text = None if original is None else str(original)
        self._verdict = verdict

    # kafka-python's errors compare by value and so lose their hash.
    __eq__ = Exception.__eq__
    __hash__ = Exception.__hash__

    @property
    def verdict(self) -> Verdict:
        """What to do about it (never None)."""
        verdict: Verdict = self.given_verdict or classifier.classify(self)
        return verdict

    @property
    def given_verdict(self) -> Verdict | None:
        """The verdict of the guard that raised it, which knew more facts; or None."""
        return self._verdict

    @property
    def place(self) -> str:
        """Where it happened, for people: ``Produce, topic flights, partition 3``."""
        parts = [
            self.api,
            self.topic is not None and f"topic {self.topic}",
            self.partition is not None and f"partition {self.partition}",
            self.broker is not None and f"broker {self.broker}",
            self.client,
        ]
        return ", ".join(str(part) for part in parts if part)

    def __str__(self) -> str:
        """Return in one line what happened, where, and what to do next."""
        head = self.name if self.code is None else f"{self.name} ({self.code})"
        place = f" [{self.place}]" if self.place else ""
        texts = [t for t in (self.summary, self.broker_message) if t]
        if not texts and self.original_text:
            texts = [self.original_text]
        right = missing_right(self.code, self.api, self.topic)
        texts += [each for each in (right, self.advice) if each]
        text = "".join(f": {part}" for part in dict.fromkeys(texts))
        verdict = self.verdict
        return f"{head}{place}{text} -> {verdict.action}: {verdict.rule.sentence}"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle, copy and deepcopy keep everything but ``__cause__``."""
        return _restore, (type(self), self.args, self.__dict__)


def _qualified(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


class RetriableError(KafkaGuardError):
    """The same request may succeed later, by Kafka's own table.

    Whether *this* request should be repeated is in the verdict.
    """


class FatalError(KafkaGuardError):
    """Kafka's own table does not list the error as retriable.

    Whether *this* request should be repeated is in the verdict: MEMBER_ID_REQUIRED is
    fatal here, and its verdict is RETRY.
    """


class AbortableError(FatalError):
    """The transaction must be aborted, then work can go on (KIP-1050)."""


class UnrecognisedCodeError(FatalError):
    """A code that Kafka 4.4 does not have; its number is kept."""

    name = "UNRECOGNISED"
