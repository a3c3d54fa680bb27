"""A record that failed at its first attempt, and its state.

Only such records have one of these, so the others cost nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from kafkaguard._delivery.table import RecordState

if TYPE_CHECKING:
    from collections.abc import Hashable

    from kafkaguard._delivery.facts import Batch, Order, Place, Raw
    from kafkaguard._retries.machine import Machine
    from kafkaguard.errors import KafkaGuardError

Ending = Literal["delivered", "failed", "in_doubt", "dead_lettered", "dropped"]


@dataclass(slots=True, eq=False)
class Outcome:
    """What became of a record.

    Attributes:
        ending: In a word.
        error: Why it was not delivered; None: it was.
        offset: Where it is, if its client gave it up and was told later.
        seen: The application has looked at the error. A shell sets it, without any
            lock; then no report raises it.
    """

    ending: Ending
    error: KafkaGuardError | None = None
    offset: int | None = None
    seen: bool = False


class Record:
    """A record that has failed at least once, or a dead letter.

    Args:
        token: What the client knows it by; after it was sent again, the new one.
        batch: The batch that it failed in first; None: it was in none.
        index: Its place in that.
        place: Where it goes.
        due: When it must have its outcome, in monotonic seconds.
        raw: Its bytes; None: they are not available, so it is never sent again.
        origin: Of a dead letter, the record that it is about.

    Attributes:
        first_due: ``due`` at first; the policy may give it more time.
        first_token: The token that the application's future has.
        state: Where it stands.
        error: Why it failed the last time.
        outcome: What became of it; None: that is open.
        doubt: The error of an attempt that may have been written; it has the last word
            over a later one that was not.
        resent: How often it was sent again and answered.
        attempts: Those of the policy; None: it was not sent again by its word.
        is_suspect: It was refused again and may be to blame: it is sent with fewer.
        is_alone: It was sent alone, so an answer is about itself.
        reason: Why it is refused, in a word, where its error does not say it.
        letter_error: Why its dead letter was not delivered.
        shell: For the shell: its future, its callbacks. The machine never looks at it.
    """

    __slots__ = (
        "attempts",
        "batch",
        "doubt",
        "due",
        "error",
        "first_due",
        "first_token",
        "index",
        "is_alone",
        "is_suspect",
        "letter_error",
        "origin",
        "outcome",
        "place",
        "raw",
        "reason",
        "resent",
        "shell",
        "state",
        "token",
    )

    def __init__(
        self,
        token: Hashable,
        batch: Batch | None,
        index: int,
        place: Place,
        due: float,
        raw: Raw | None,
        origin: Record | None = None,
    ) -> None:
        self.token = self.first_token = token
        self.batch = batch
        self.index = index
        self.place = place
        self.due = self.first_due = due
        self.raw = raw
        self.origin = origin
        self.state = RecordState.JUDGED
        self.error: KafkaGuardError | None = None
        self.outcome: Outcome | None = None
        self.doubt: KafkaGuardError | None = None
        self.resent = 0
        self.attempts: Machine | None = None
        self.is_suspect = self.is_alone = False
        self.reason: str | None = None
        self.letter_error: KafkaGuardError | None = None
        self.shell: Any = None

    @property
    def is_letter(self) -> bool:
        """Whether it is a dead letter, which is in no report."""
        return self.origin is not None

    @property
    def key(self) -> bytes | None:
        """Its key; also None where its bytes is not available."""
        return None if self.raw is None else self.raw.key

    @property
    def order(self) -> Order:
        """Where it stands among those of its place, as they were sent at first."""
        return (() if self.batch is None else self.batch.position), self.index

    def __repr__(self) -> str:
        """Show where it stands, never its bytes."""
        kind = "letter" if self.is_letter else "record"
        return f"<{kind} {self.token} for {self.place.topic}: {self.state}>"


@dataclass(frozen=True, slots=True)
class Work:
    """What was on its way at one moment: :meth:`DeliveryMachine.open_work`.

    Attributes:
        batches: Batches without an outcome.
        records: Records that have failed and are not settled.
    """

    batches: tuple[Batch, ...] = ()
    records: tuple[Record, ...] = ()
