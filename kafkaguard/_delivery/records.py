"""Records that have failed at least once, and their state.

Records that never fail have no object of these classes, so they cost nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from kafkaguard._delivery.table import RECORDS, RecordState

if TYPE_CHECKING:
    from collections.abc import Hashable

    from kafkaguard._delivery.facts import Batch, Place, Rank, Raw, Refusal
    from kafkaguard._delivery.table import RecordEvent
    from kafkaguard._errors import KafkaGuardError
    from kafkaguard._retries.machine import Machine

Ending = Literal["delivered", "failed", "in_doubt", "dead_lettered", "dropped"]


@dataclass(slots=True, eq=False)
class RecordOutcome:
    """The final outcome of a record.

    Attributes:
        ending: The outcome in one word.
        error: Why the record was not delivered; None if it was.
        offset: Its offset, if its client gave it up and a late answer reported it.
        seen: The application has checked the error, so no report raises it. A shell
            sets it without a lock.
    """

    ending: Ending
    error: KafkaGuardError | None = None
    offset: int | None = None
    seen: bool = False


class Record:
    """A record that has failed at least once, or a dead letter.

    Args:
        token: The client's token of the record; the new one after it was sent again.
        batch: The batch in which it failed first; None if it was in no batch.
        index: Its index in that batch.
        place: Its topic and partition.
        due: When it must have its outcome, in monotonic seconds.
        raw: Its bytes; None: they are not available, so it is never sent again.
        origin: For a dead letter, the record that was refused.

    Attributes:
        first_due: The first value of ``due``, which the policy may extend.
        first_token: The token that the application's future has.
        state: Its state.
        error: Why it failed the last time.
        outcome: Its final outcome, or None.
        doubt: The error of an attempt that may have been written. It is the final error
            even if a later attempt was certainly not written.
        resend_count: How often it was sent again and answered.
        client_failures: How often only its client was to blame.
        retry: The policy's attempts; None if the policy made none.
        is_suspect: It was refused again and may be to blame, so the next batch has
            fewer records.
        is_alone: It was sent alone, so an answer is about this record.
        singles: How often it was handed over alone while other batches of its topic
            were open, so that an answer might not be about it.
        refusal: Why it failed in a transaction; it is judged again when the topic's
            size limit is known.
        reason: The reason for the dead letter's headers, if the error does not say it.
        letter_error: Why its dead letter was not delivered.
        shell: The shell's own data: future, callbacks. The machine never reads it.
    """

    __slots__ = (
        "batch",
        "client_failures",
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
        "refusal",
        "resend_count",
        "retry",
        "shell",
        "singles",
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
        self.outcome: RecordOutcome | None = None
        self.doubt: KafkaGuardError | None = None
        self.resend_count = self.singles = self.client_failures = 0
        self.retry: Machine | None = None
        self.is_suspect = self.is_alone = False
        self.refusal: Refusal | None = None
        self.reason: str | None = None
        self.letter_error: KafkaGuardError | None = None
        self.shell: Any = None

    def happens(self, event: RecordEvent) -> None:
        """Change to the next state."""
        self.state = RECORDS.after(self.state, event)

    @property
    def is_letter(self) -> bool:
        """Whether it is a dead letter; dead letters are in no report."""
        return self.origin is not None

    @property
    def key(self) -> bytes | None:
        """Its key; also None if its bytes are not available."""
        return None if self.raw is None else self.raw.key

    @property
    def rank(self) -> Rank:
        """Its position among the records of its partition when they were first sent."""
        return (() if self.batch is None else self.batch.position), self.index

    def __repr__(self) -> str:
        """Show its state, never its bytes."""
        kind = "letter" if self.is_letter else "record"
        return f"<{kind} {self.token} for {self.place.topic}: {self.state}>"


@dataclass(frozen=True, slots=True)
class Work:
    """Everything without an outcome at one moment: :meth:`DeliveryMachine.open_work`.

    Attributes:
        batches: Batches without an outcome.
        records: Records that have failed and are not settled.
    """

    batches: tuple[Batch, ...] = ()
    records: tuple[Record, ...] = ()
