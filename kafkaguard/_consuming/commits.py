"""A commit that the caller waits for: which partitions are retried, and the error.

A broker answers a commit for each partition separately, and keeps the offsets that it
accepted. So only refused partitions are retried, while the consumer still owns them.
After a rebalance (REJOIN) the same commit is never repeated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from kafkaguard._consuming.events import CommitFailedEvent
from kafkaguard._errors.base import RETRIABLE_ACTIONS, Action
from kafkaguard._retries.backoff import draw_wait
from kafkaguard._retries.machine import CallContext

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from kafkaguard._cluster.reports import TopicPartition
    from kafkaguard._consuming.machine import Policy
    from kafkaguard._errors import KafkaGuardError
    from kafkaguard._retries.machine import Ruling

Kind = Literal["sync", "async", "auto"]

OFFSET_COMMIT: Final = "OffsetCommit"
#: The shortest wait, in seconds.
FLOOR_S: Final = 0.1
_ONLY_REPORTED: Final = frozenset({Action.CONFIGURE, Action.REJECT, Action.IN_DOUBT})
#: An error with one of these actions is about all partitions.
_ABOUT_THE_GROUP: Final = frozenset({Action.REJOIN, Action.RECREATE, Action.FENCED})


@dataclass(frozen=True, slots=True)
class Again:
    """Commit these partitions once more.

    Attributes:
        places: The partitions.
        wait: Seconds to wait before the commit.
        is_alone: Whether each partition has a commit of its own.
    """

    places: frozenset[TopicPartition]
    wait: float
    is_alone: bool = False


class OneForAll(dict["TopicPartition", "KafkaGuardError"]):
    """One error for a whole commit: the client does not say which partitions failed.

    Some of them may be committed.
    """


def failed_event(
    policy: Policy,
    errors: Mapping[TopicPartition, KafkaGuardError],
    *,
    kind: Kind,
    client: str,
) -> CommitFailedEvent | None:
    """Make the event of a commit that failed.

    Args:
        policy: The policy in force.
        errors: The error of each refused partition.
        kind: How the commit was made.
        client: The client library.

    Returns:
        The event. None: no partition failed; an error that is only a notice, such as
        librdkafka's "nothing to commit", is no failure.
    """
    failed = {
        place: error
        for place, error in errors.items()
        if error.verdict.action is not Action.IGNORE
    }
    if not failed:
        return None
    error = max(failed.values(), key=lambda each: each.verdict.action.severity)
    return CommitFailedEvent(
        policy=policy.name,
        policy_id=policy.policy_id,
        context=CallContext(api=OFFSET_COMMIT, topic=error.topic, client=client),
        errors=failed,
        error=error,
        action=error.verdict.action,
        kind=kind,
    )


def may_continue(errors: Mapping[TopicPartition, KafkaGuardError]) -> bool:
    """Return whether a consumer may continue after its automatic commit failed.

    If so, the failure is only reported, because the next commit may succeed. If not,
    the client must see the error: it retries, rejoins the group, or must stop because
    it is fenced.
    """
    return {each.verdict.action for each in errors.values()} <= _ONLY_REPORTED


class CommitRun:
    """Decides about one commit.

    Args:
        policy: How long to wait between attempts.
        random: Returns random numbers from 0 to below 1.
        places: The partitions to commit.
        until: When the caller wants the commit to end, on the clock of ``now``.
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
        #: The partitions to commit.
        self.places = self._open = frozenset(places)
        #: The error of each partition that is not committed yet.
        self.errors: dict[TopicPartition, KafkaGuardError] = {}

    def answered(
        self,
        errors: Mapping[TopicPartition, KafkaGuardError],
        owned: Collection[TopicPartition] | None,
        now: float,
    ) -> Again | None:
        """Record an answer.

        Args:
            errors: The refused partitions; all others in the request are committed.
            owned: The consumer's assignment; None: it takes no part in a group's
                assignment, so it owns all partitions.
            now: The time.

        Returns:
            What to commit again. None: the commit is over, and ``errors`` has its
            outcome.
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
        """Return whether a commit of each partition alone can tell which one failed."""
        actions = {self._ruling(error).action for error in errors.values()}
        return len(errors) > 1 and not actions & _ABOUT_THE_GROUP

    def event(self) -> CommitFailedEvent | None:
        """Make the event for the commit; None: it did not fail."""
        return failed_event(self._policy, self.errors, kind="sync", client=self._client)

    def _ruling(self, error: KafkaGuardError) -> Ruling:
        context = CallContext(api=OFFSET_COMMIT, topic=error.topic, client=self._client)
        return self._policy.ruling(error.verdict, context, error)

    def _draw(self, ruling: Ruling) -> float:
        return draw_wait(ruling.backoff, self._tries, self._wait, self._random)
