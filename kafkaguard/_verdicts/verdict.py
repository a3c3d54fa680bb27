"""Verdicts: what to do about an error, and the rule that decided."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

from kafkaguard._common.arguments import known_flag

if TYPE_CHECKING:
    from kafkaguard.errors import KafkaGuardError

Written = Literal["no", "maybe", "yes"]
Phase = Literal[
    "enqueue", "single", "background", "commit", "abort", "repeated", "admin"
]


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
        """The rank in that order; 0 for ``IGNORE``."""
        return _SEVERITY[self]


_SEVERITY = {action: rank for rank, action in enumerate(Action)}


#: Actions after which the same request may be sent again.
RETRIABLE_ACTIONS = frozenset({Action.RETRY, Action.REFRESH, Action.WAIT})


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """What is known about a topic; None is "not known".

    Args:
        compacted: ``cleanup.policy`` contains ``compact``.
        tiered: ``remote.storage.enable`` is true.
    """

    compacted: bool | None = None
    tiered: bool | None = None

    def __post_init__(self) -> None:
        """Check the types.

        Raises:
            TypeError: A fact is not True, False or None.
        """
        known_flag("TopicFacts(): compacted", self.compacted)
        known_flag("TopicFacts(): tiered", self.tiered)


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
