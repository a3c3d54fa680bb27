"""What the parts of the processing machine share: one run of it."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from kafkaguard._delivery.letter_count import LetterCount
from kafkaguard._delivery.table import Table
from kafkaguard._processing.report import Counts
from kafkaguard._processing.work import Tell
from kafkaguard._retries.machine import CallContext

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkaguard._cluster.reports import TopicPartition
    from kafkaguard._processing.policy import Policy
    from kafkaguard._processing.rounds import Rounds
    from kafkaguard._processing.slots import Slot
    from kafkaguard._processing.work import Command
    from kafkaguard._retries.events import Event


class RunState(StrEnum):
    """Where a run stands."""

    RUNNING = "RUNNING"
    ENDING = "ENDING"
    """Nothing new begins; what runs gets ``drain_timeout``."""
    COMMITTING = "COMMITTING"
    """The last commit has no answer yet."""
    ENDED = "ENDED"


class RunEvent(StrEnum):
    """What happens to a run."""

    STOP = "STOP"
    DRAINED = "DRAINED"
    COMMITTED = "COMMITTED"


RUNS: Final[Table[RunState, RunEvent]] = Table(
    "run",
    {
        (RunState.RUNNING, RunEvent.STOP): RunState.ENDING,
        (RunState.ENDING, RunEvent.DRAINED): RunState.COMMITTING,
        (RunState.COMMITTING, RunEvent.COMMITTED): RunState.ENDED,
    },
)


class Run:
    """The state of a run that more than one part of the machine uses.

    Args:
        policy: How to retry, what to do with rejected records, all bounds.
        batch: The most records of a batch; None: the handler gets single records.
        offset_of: Returns a record's offset.
        key_of: Returns a record's key as bytes; None: it has none.
        random: Returns random numbers from 0 to below 1.
        client: The client library.
        rounds: What is done in transactions; None: nothing is.

    Attributes:
        state: Where the run stands.
        slots: The partitions that are assigned.
        commands: What the driver has not taken yet.
        counts: What was done, by topic.
        letter_count: How many dead letters there are beside other outcomes.
    """

    def __init__(
        self,
        policy: Policy,
        *,
        batch: int | None,
        offset_of: Callable[[Any], int],
        key_of: Callable[[Any], bytes | None],
        random: Callable[[], float],
        client: str,
        rounds: Rounds | None,
    ) -> None:
        self.policy = policy
        self.settings = policy.handler
        self.batch = batch
        self.offset_of = offset_of
        self.key_of = key_of
        self.random = random
        self.client = client
        self.rounds = rounds
        self.state = RunState.RUNNING
        self.slots: dict[TopicPartition, Slot] = {}
        self.commands: list[Command] = []
        self.counts = Counts(by_round=rounds is not None)
        self.letter_count = LetterCount()

    @property
    def is_running(self) -> bool:
        """Whether new records may begin."""
        return self.state is RunState.RUNNING

    def happens(self, event: RunEvent) -> None:
        """Change to the next state."""
        self.state = RUNS.after(self.state, event)

    def mark_done(self, slot: Slot, seqs: Sequence[int]) -> None:
        """Record that the handler has returned for some records."""
        if seqs:
            slot.mark(seqs)
            self.letter_count.count_delivered(len(seqs))
            self.counts.add(slot.place.topic, "processed", len(seqs))

    def tell(self, event: Event) -> None:
        """Call ``on_event`` with an event."""
        self.commands.append(Tell(event))

    def about(
        self, slot: Slot, seq: int, error: BaseException | None
    ) -> dict[str, Any]:
        """Return the facts of an event about a record."""
        offset = self.offset_of(slot.record(seq))
        name = "" if error is None else name_of(error)
        return self.event(slot.place, offset, name, slot.attempts(seq))

    def event(
        self, place: TopicPartition, offset: int, error: str, attempts: int
    ) -> dict[str, Any]:
        """Return the facts of an event about what is at an offset."""
        return {
            "policy": self.policy.name,
            "policy_id": self.policy.policy_id,
            "context": CallContext(topic=place.topic, client=self.client),
            "topic": place.topic,
            "partition": place.partition,
            "offset": offset,
            "attempts": attempts,
            "error": error,
        }


def name_of(error: BaseException) -> str:
    """Return the name of an exception's class."""
    return type(error).__qualname__
