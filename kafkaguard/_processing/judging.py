"""What an exception of a handler means. Pure, and the only place that decides it.

A Kafka error means what its verdict says. Any other exception is judged by its class:
the most specific name in ``wait_on``, ``reject_on`` or ``retry_on`` wins, then the
defaults. If a deserialiser failed, its own exception may have a name there: a schema
registry that is down makes no dead letters.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkaguard._errors import (
    KafkaGuardError,
    SerializationFailedError,
    UnrelatedError,
)
from kafkaguard._errors.base import Action, RuleInfo, Verdict
from kafkaguard._processing.class_names import named_class, path_of
from kafkaguard._processing.exceptions import BatchError, Unavailable
from kafkaguard._retries.machine import CallContext
from kafkaguard._verdicts.classification import classify

if TYPE_CHECKING:
    from kafkaguard._processing.policy import Policy
    from kafkaguard._retries.machine import Ruling


class Decision(Enum):
    """What becomes of a record whose handler raised."""

    DONE = "the exception is no failure"
    RETRY = "handle it again, as often as the policy says"
    REJECT = "set it aside"
    WAIT = "a dependency is down: handle it again when it is back"
    END = "the run ends"


class Judgement(NamedTuple):
    """The meaning of an exception.

    Attributes:
        decision: What becomes of the record.
        verdict: The verdict, for the retry machine.
        ruling: What the policy says: attempts, waits, ``on_reject``.
        after: Seconds until the next try, if the handler said so.
    """

    decision: Decision
    verdict: Verdict
    ruling: Ruling
    after: float | None = None


#: Rejected by default: the same record fails in the same way again.
_REJECTED: Final = frozenset(
    {
        "builtins.TypeError",
        "builtins.AttributeError",
        "pydantic_core._pydantic_core.ValidationError",
    }
)
_FAILED: Final = Verdict(
    Action.RETRY,
    retriable=True,
    written="no",
    error_class=UnrelatedError,
    rule=RuleInfo(
        "handler-failed",
        "the record is handled again, as often as the policy's handler block says",
        "the handler's exception",
        "A handler raised an exception that did not come from Kafka.",
    ),
)
_BY_ACTION: Final = {
    Action.IGNORE: Decision.DONE,
    Action.REJECT: Decision.REJECT,
    Action.CONFIGURE: Decision.END,
    Action.FENCED: Decision.END,
    Action.WAIT: Decision.WAIT,
}


class Judge:
    """Judges the exceptions of handlers under one policy.

    Args:
        policy: The policy.
        client: The client library.
    """

    def __init__(self, policy: Policy, client: str) -> None:
        self._policy = policy
        self._client = client
        settings = policy.handler
        self._names = {
            **dict.fromkeys(settings.retry_on, Decision.RETRY),
            **dict.fromkeys(settings.reject_on, Decision.REJECT),
            **dict.fromkeys(settings.wait_on, Decision.WAIT),
        }
        self._plain = self._for_handlers(policy.first_ruling)
        self._memo: dict[type, Decision | None] = {}

    def judge(self, error: BaseException, topic: str) -> Judgement:
        """Return what an exception means for a record of a topic."""
        if isinstance(error, Unavailable):
            return Judgement(Decision.WAIT, _FAILED, self._plain, error.after)
        if not isinstance(error, Exception):
            return Judgement(Decision.END, _FAILED, self._plain)
        is_ours = isinstance(error, BatchError) or not is_of_kafka(error)
        if is_ours or isinstance(error, SerializationFailedError):
            said = self._by_class(type(error if is_ours else error.__cause__))
            if is_ours or said in (Decision.WAIT, Decision.RETRY):
                return Judgement(said or Decision.RETRY, _FAILED, self._plain)
        verdict = (
            error.given_verdict if isinstance(error, KafkaGuardError) else None
        ) or classify(error, client=self._client)
        context = CallContext(topic=topic, client=self._client)
        ruling = self._policy.ruling(verdict, context, error)
        decision = _BY_ACTION.get(ruling.action, Decision.RETRY)
        if decision is not Decision.RETRY:
            return Judgement(decision, verdict, ruling)
        return Judgement(decision, _FAILED, self._for_handlers(ruling))

    def _for_handlers(self, ruling: Ruling) -> Ruling:
        """Replace the limits of a call by those of a handler; a retry has no cost."""
        settings = self._policy.handler
        age = settings.max_age
        return replace(
            ruling,
            action=Action.RETRY,
            max_attempts=settings.max_attempts,
            deadline=float("inf") if age is None else age,
            cost=0.0,
        )

    def _by_class(self, cls: type) -> Decision | None:
        """Return what the names say of a class; None: nothing, and it may pass."""
        if cls not in self._memo:
            self._memo[cls] = self._find(cls)
        return self._memo[cls]

    def _find(self, cls: type) -> Decision | None:
        named = {named_class(name): each for name, each in self._names.items()}
        for parent in cls.__mro__:
            path = path_of(parent)
            for name in (path, parent.__name__):
                if name in self._names:
                    return self._names[name]
            if parent in named:
                return named[parent]
            if path in _REJECTED:
                return Decision.REJECT
        return None


_KAFKA: Final = frozenset(
    {"kafkaguard", "kafka", "aiokafka", "confluent_kafka", "cimpl"}
)


def is_of_kafka(error: BaseException) -> bool:
    """Return whether an exception is of kafkaguard's or of a Kafka client's class."""
    return any(
        parent.__module__.partition(".")[0] in _KAFKA for parent in type(error).__mro__
    )
