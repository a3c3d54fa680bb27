"""Commands of the delivery machine, which a driver executes.

``command_table.py`` has a row for each: when it has its turn, what executes it, and
what answers. A command marked *reply* may take long; the driver reports its result by
calling the named method.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from kafkaguard._delivery.facts import Batch
    from kafkaguard._delivery.records import Record
    from kafkaguard._retries.events import Event


@dataclass(frozen=True, slots=True)
class Attach:
    """Let the application's future of a record that has failed wait for the guard.

    The record may have its outcome already.
    """

    record: Record


@dataclass(frozen=True, slots=True)
class HoldSends:
    """Hold new sends of a topic. *Reply*: ``held``, once no send of it is running.

    :attr:`DeliveryMachine.holds` has the held topics, and each send checks it.
    """

    topic: str


@dataclass(frozen=True, slots=True)
class Shut:
    """Let the dead client accept no more records; all sends are held meanwhile."""


@dataclass(frozen=True, slots=True)
class FreeSends:
    """Wake the sends that wait: :attr:`DeliveryMachine.holds` has changed."""

    topic: str | None


@dataclass(frozen=True, slots=True)
class SendNow:
    """Let the client send its buffered records without lingering."""


@dataclass(frozen=True, slots=True)
class Send:
    """Give records to the client in this order, despite the hold.

    They are records to send again, or dead letters. Each is for ``record.place``, whose
    partition may be None. *Reply*: ``sent``, with a token or an exception for each.
    """

    topic: str
    records: tuple[Record, ...]


@dataclass(frozen=True, slots=True)
class TakeBack:
    """Let the client fail the batches behind a failed batch that were never sent.

    They are batches of the same topic and partition. The client reports them as
    ``failed``; otherwise they would overtake the records that are sent again.
    """

    behind: Batch

    @property
    def topic(self) -> str:
        """The topic of the batches."""
        return self.behind.place.topic


@dataclass(frozen=True, slots=True)
class FailBatches:
    """Let the client fail batches whose time is over; it reports them as ``failed``."""

    batches: tuple[Batch, ...]


@dataclass(frozen=True, slots=True)
class HearOut:
    """Wait for the answers to what the dead client has sent.

    *Reply*: ``heard_out``, when all have arrived or at ``until`` (monotonic seconds).
    """

    until: float


@dataclass(frozen=True, slots=True)
class Stop:
    """Stop the dead client; it reports its remaining batches as ``failed``.

    *Reply*: ``stopped``, once no send is running that began before the hold; the record
        of such a send would reach the successor before older records. Then no batch of
        the client is open.
    """


@dataclass(frozen=True, slots=True)
class AskAnswers:
    """Ask for late answers to batches that were given up. *Reply*: ``answered``."""

    batches: tuple[Batch, ...]


@dataclass(frozen=True, slots=True)
class Replace:
    """Build a successor and use it.

    *Reply*: ``replaced`` or ``not_replaced``.

    Attributes:
        locking_out: A batch of this or an earlier dead client that can still be
            written, or None. The successor prevents that if possible: it uses the
            batch's producer id with a newer epoch (KIP-360).
    """

    locking_out: Batch | None


@dataclass(frozen=True, slots=True)
class AskSizeLimit:
    """Ask for a topic's ``max.message.bytes``, or whether the topic is missing.

    *Reply*: ``size_limit``.
    """

    topic: str


@dataclass(frozen=True, slots=True)
class Settle:
    """Complete the future of a record and run its callbacks: its outcome is final."""

    record: Record


@dataclass(frozen=True, slots=True)
class ForgetFacts:
    """Look up the facts about a topic again, because the known ones are wrong."""

    topic: str


@dataclass(frozen=True, slots=True)
class Tell:
    """Call the hook of ``guard(on_event=...)`` with an event."""

    event: Event


@dataclass(frozen=True, slots=True)
class Warn:
    """Write a warning to the log.

    Attributes:
        event: The name of what happened.
        text: The line.
        topic: The topic that it is about.
    """

    event: str
    text: str
    topic: str | None = None


Command: TypeAlias = (
    Attach
    | HoldSends
    | Shut
    | FreeSends
    | SendNow
    | Send
    | TakeBack
    | FailBatches
    | HearOut
    | Stop
    | AskAnswers
    | Replace
    | AskSizeLimit
    | Settle
    | ForgetFacts
    | Tell
    | Warn
)
