"""A commit that the caller waits for: what is repeated, and the final error.

A broker answers a commit partition by partition, and keeps what it accepted. So only
the partitions that were refused are tried again, while they are still owned. A group
that has moved on is never answered with the same commit (REJOIN).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from kafkaguard._consuming.events import CommitFailedEvent
from kafkaguard._retries.backoff import draw_wait
from kafkaguard._retries.machine import CallContext
from kafkaguard._verdicts.verdict import RETRIABLE_ACTIONS, Action

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from kafkaguard._cluster.reports import TopicPartition
    from kafkaguard._consuming.machine import Policy
    from kafkaguard._retries.machine import Ruling
    from kafkaguard.errors import KafkaGuardError

Kind = Literal["sync", "async", "auto"]

OFFSET_COMMIT: Final = "OffsetCommit"
#: Seconds: no wait is shorter.
FLOOR_S: Final = 0.1
_MAY_PASS: Final = frozenset({Action.CONFIGURE, Action.REJECT, Action.IN_DOUBT})
#: What these say is true of all partitions.
_ABOUT_THE_GROUP: Final = frozenset({Action.REJOIN, Action.RECREATE, Action.FENCED})
_SEVERITY = {action: rank for rank, action in enumerate(Action)}


@dataclass(frozen=True, slots=True)
class Again:
    """Commit these partitions once more.

    Attributes:
        places: Which.
        wait: Seconds to wait before.
        is_alone: Each in a commit of its own.
    """

    places: frozenset[TopicPartition]
    wait: float
    is_alone: bool = False


class OneForAll(dict["TopicPartition", "KafkaGuardError"]):
    """One error for a whole commit: the client does not say which partitions it is of.

    Some of them may be committed.
    """


def failed_event(
    policy: Policy,
    errors: Mapping[TopicPartition, KafkaGuardError],
    *,
    kind: Kind,
    client: str,
) -> CommitFailedEvent:
    """Make the event of a commit that failed.

    Args:
        policy: The policy in force.
        errors: What was refused, at least one.
        kind: Who made the commit.
        client: The client library.
    """
    error = max(errors.values(), key=lambda each: _SEVERITY[each.verdict.action])
    return CommitFailedEvent(
        policy=policy.name,
        policy_id=policy.policy_id,
        context=CallContext(api=OFFSET_COMMIT, topic=error.topic, client=client),
        errors=dict(errors),
        error=error,
        action=error.verdict.action,
        kind=kind,
    )


def may_pass(errors: Mapping[TopicPartition, KafkaGuardError]) -> bool:
    """Return whether a consumer may read on after a commit of its own that failed.

    It is told, and the next one may succeed. What the client retries or rejoins for
    is its own to see, and one that is fenced must stop.
    """
    return {each.verdict.action for each in errors.values()} <= _MAY_PASS


class CommitRun:
    """Decides about one commit.

    Args:
        policy: How long to wait between attempts.
        random: Returns random numbers from 0 to below 1.
        places: What is to be committed.
        until: When the caller wants it to end, on the clock of ``now``.
        client: The client library.
    """

    def __init__(
        self,
        policy: Policy,
        random: Callable[[], float],
        places: Iterable[TopicPartition],
        until: float,
        *,
        client: str,
    ) -> None:
        self._policy = policy
        self._random = random
        self._until = until
        self._client = client
        self._tries = 0
        self._wait = 0.0
        #: What is to be committed.
        self.places = self._open = frozenset(places)
        #: Why partitions are not committed, so far.
        self.errors: dict[TopicPartition, KafkaGuardError] = {}

    def answered(
        self,
        errors: Mapping[TopicPartition, KafkaGuardError],
        owned: Collection[TopicPartition] | None,
        now: float,
    ) -> Again | None:
        """Record an answer.

        Args:
            errors: What was refused; all else that was asked is committed.
            owned: What the consumer is assigned; None: it takes no part in a group's
                assignment, so all are its own.
            now: The time.

        Returns:
            What to do again; None: it is over, and ``errors`` is the outcome.
        """
        if isinstance(errors, OneForAll) and self._is_unclear(errors):
            self.errors.update(errors)
            return Again(self._open, 0.0, is_alone=True)
        self._tries += 1
        for place in self._open - errors.keys():
            self.errors.pop(place, None)
        self.errors.update(errors)
        again = {
            place: ruling
            for place, error in errors.items()
            if (ruling := self._ruling(error)).action in RETRIABLE_ACTIONS
            and (owned is None or place in owned)
        }
        if not again:
            return None
        self._wait = max(FLOOR_S, *(self._draw(each) for each in again.values()))
        if now + self._wait >= self._until:
            return None
        self._open = frozenset(again)
        return Again(self._open, self._wait)

    def _is_unclear(self, errors: Mapping[TopicPartition, KafkaGuardError]) -> bool:
        """Return whether asking for each partition alone can say more."""
        actions = {self._ruling(error).action for error in errors.values()}
        return len(errors) > 1 and not actions & _ABOUT_THE_GROUP

    def event(self) -> CommitFailedEvent:
        """Return the event that the commit failed."""
        return failed_event(self._policy, self.errors, kind="sync", client=self._client)

    def _ruling(self, error: KafkaGuardError) -> Ruling:
        context = CallContext(api=OFFSET_COMMIT, topic=error.topic, client=self._client)
        return self._policy.ruling(error.verdict, context, error)

    def _draw(self, ruling: Ruling) -> float:
        return draw_wait(ruling.backoff, self._tries, self._wait, self._random)
