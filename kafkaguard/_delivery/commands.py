"""What the delivery machine has its driver do.

A driver carries commands out in their order, without its lock. Those marked *reply*
may take long; what came of them is told to the machine by the call that is named. One
such command for a topic, and one for the client, is out at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from kafkaguard._delivery.facts import Batch
    from kafkaguard._delivery.records import Record
    from kafkaguard._retries.events import Event


@dataclass(frozen=True, slots=True)
class HoldSends:
    """Let new sends of a topic wait; None: of every topic, the client is replaced.

    :attr:`DeliveryMachine.holds` says at every moment what is held, and is what a send
    looks at. *Reply*, for a topic: ``held``, once no send of it is under way. None
    needs no reply; have the client take in nothing more (``shell.shut``).
    """

    topic: str | None


@dataclass(frozen=True, slots=True)
class FreeSends:
    """Wake the sends that wait: :attr:`DeliveryMachine.holds` has changed."""

    topic: str | None


@dataclass(frozen=True, slots=True)
class SendNow:
    """Have the client send what it has taken in without lingering."""


@dataclass(frozen=True, slots=True)
class Send:
    """Hand records over, in this order, past the hold: again, or a dead letter.

    Each goes to ``record.place``, whose partition may be None. *Reply*: ``sent``, with
    a token or an exception for each.
    """

    topic: str
    records: tuple[Record, ...]


@dataclass(frozen=True, slots=True)
class TakeBack:
    """Have the client fail what waits behind a failed batch, and was never sent.

    It comes back as ``failed``: else it would overtake what is sent again. Batches that
    wait are those of the same place.
    """

    behind: Batch


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Have the client fail batches whose time is over; they come back as ``failed``."""

    batches: tuple[Batch, ...]


@dataclass(frozen=True, slots=True)
class HearOut:
    """Wait for the answers to what the dead client has sent.

    *Reply*: ``heard_out``, when all are there or ``until`` (monotonic seconds).
    """

    until: float


@dataclass(frozen=True, slots=True)
class Stop:
    """End the dead client; what it still holds comes back as ``failed``.

    *Reply*: ``stopped``, once no send is under way that has looked before the hold: it
    would come to the successor before older records. None of its batches is open then.
    """


@dataclass(frozen=True, slots=True)
class AskAnswers:
    """Say what was heard of batches after they were given up. *Reply*: ``answered``."""

    batches: tuple[Batch, ...]


@dataclass(frozen=True, slots=True)
class Replace:
    """Build a successor and put it in use.

    *Reply*: ``replaced`` or ``not_replaced``.

    Attributes:
        locking_out: A batch of this dead client, or of one before it, that may be
            written yet. The successor shuts it out, where it can: by the batch's
            producer id, with an epoch newer than the batch's and the dead client's.
            None: there is none.
    """

    locking_out: Batch | None


@dataclass(frozen=True, slots=True)
class AskLimit:
    """Ask for a topic's ``max.message.bytes``. *Reply*: ``limit``."""

    topic: str


@dataclass(frozen=True, slots=True)
class Settle:
    """A record has its outcome, ``record.outcome``: wake who waits, run callbacks."""

    record: Record


@dataclass(frozen=True, slots=True)
class ForgetFacts:
    """What is known of a topic is wrong: look it up again."""

    topic: str


@dataclass(frozen=True, slots=True)
class Tell:
    """Hand an event to the hooks of ``guard(on_event=...)``."""

    event: Event


@dataclass(frozen=True, slots=True)
class Warn:
    """Write a warning to the log."""

    text: str


Command: TypeAlias = (
    HoldSends
    | FreeSends
    | SendNow
    | Send
    | TakeBack
    | GiveUp
    | HearOut
    | Stop
    | AskAnswers
    | Replace
    | AskLimit
    | Settle
    | ForgetFacts
    | Tell
    | Warn
)
