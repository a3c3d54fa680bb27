"""Facts that a shell reports to the delivery machine. No decisions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from kafkaguard._errors import KafkaGuardError

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

#: A topic's largest batch in bytes; an error: the topic does not exist; None: unknown.
SizeAnswer = int | KafkaGuardError | None
Header = tuple[str, bytes | None]
#: The end of an attempt that may have written a batch: a code, or no answer.
Earlier = int | Literal["lost"]
#: The rank of a record in its partition: position of the batch, index in it.
Rank = tuple[tuple[int, ...], int]


class Place(NamedTuple):
    """Topic and partition; ``partition`` is None until the client reports it."""

    topic: str
    partition: int | None = None


class HandOverStoppedError(Exception):
    """The reply for a record that was not handed over, as the machine asked for."""

    def __init__(self) -> None:
        super().__init__("a batch of its topic failed meanwhile")


class Raw(NamedTuple):
    """A record's bytes, after serialisers.

    Attributes:
        key: The key, or None without a key.
        value: The value, or None for a delete marker.
        headers: Names and values; a value may be null.
        timestamp_ms: Milliseconds since 1970, or None if the client sets it.
    """

    key: bytes | None
    value: bytes | None
    headers: Sequence[Header] = ()
    timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Traits:
    """What a client can do and can report.

    Attributes:
        client: The name of the library in errors.
        delivery_timeout: Seconds that the client gives a record.
        timeout_setting: The name of that setting.
        largest_request: The largest record in bytes that the client accepts, or None if
            unknown.
        compresses: The client compresses batches, so only the client knows a record's
            size in the topic, by :meth:`ProducerShell.size_alone`.
        transactional: It has a ``transactional.id``: no record is sent again, and a
            successor is built only by the application's next transaction.
        hears_late: It receives answers to batches that it has given up, so these wait
            for :class:`AskAnswers`.
        replaceable: A successor can be built.
        takes_back: Batches that wait behind a failed batch can be taken back from it.
        unwritable_times: Timestamps in milliseconds that the client would not write as
            they are, though the application asked for them.
        fails_batches: It can fail a batch whose time is over. Otherwise a record that
            was sent again is in doubt when its time is over, while the client still has
            it.
        repeats: It has repeated a request itself, as often as the policy says, when it
            reports that a partition refuses it for now.
        margin: Seconds after ``delivery_timeout`` within which the client itself fails
            an expired record.
    """

    client: str
    delivery_timeout: float
    timeout_setting: str
    largest_request: int | None = None
    compresses: bool = False
    transactional: bool = False
    hears_late: bool = False
    replaceable: bool = True
    takes_back: bool = False
    unwritable_times: frozenset[int] = frozenset()
    fails_batches: bool = True
    repeats: bool = False
    margin: float = 0.0


class Batch:
    """Records that a client sends together; the base class of each shell's batches.

    A client without visible batches has windows instead: all records of a topic between
    two polls. A shell reports each batch twice: ``began``, and its end.

    Args:
        place: Where its records go.
        position: Its rank in ``place``: a number that grows with each successor, a
            number that grows with each batch, and, for a part of a split batch, its
            first index there.
        due: When its records must have an outcome, in monotonic seconds.
        parent: The batch that was split into this one and others, or None.

    Attributes:
        ranks: The first ranks of records that were sent again, by their index.
        unsettled: How many of its records have failed and are not settled.
        unwritten: Indexes of its records that failed and were certainly not written.
        ended: Its end, or None while it is open.
        parts: The batches that it was split into.
        next_check: The time of the next check whether it has an outcome.
        is_capped: ``next_check`` is the deadline of one record in it that was sent
            again, so others may have time left when the batch is failed then.
        counted: How many of its records were counted as delivered while it was open.
        doubtful_from: How many were delivered before the client may have written the
            others again; None: it has not. A shell sets it.
        counted_twice: How many of those that followed were counted.
        base_offset: The offset of its first record, if known; a shell sets it before it
            reports ``accepted``.
    """

    __slots__ = (
        "base_offset",
        "counted",
        "counted_twice",
        "doubtful_from",
        "due",
        "ended",
        "is_capped",
        "next_check",
        "parent",
        "parts",
        "place",
        "position",
        "ranks",
        "unsettled",
        "unwritten",
    )

    def __init__(
        self,
        place: Place,
        position: tuple[int, ...],
        due: float,
        parent: Batch | None = None,
    ) -> None:
        self.place = place
        self.position = position
        self.due = due
        self.parent = parent
        self.ranks: dict[int, Rank] = {}
        self.unsettled = 0
        self.unwritten: set[int] = set()
        self.ended: Literal["accepted", "failed", "split"] | None = None
        self.parts: list[Batch] = []
        self.next_check = due
        self.is_capped = False
        self.counted = self.counted_twice = 0
        self.doubtful_from: int | None = None
        self.base_offset: int | None = None

    def where(self, index: int) -> tuple[int | None, int | None]:
        """Return partition and offset of an accepted record, or None if unknown.

        Args:
            index: The record's.
        """
        offset = None if self.base_offset is None else self.base_offset + index
        return self.place.partition, offset

    @property
    def waits(self) -> bool:
        """Whether it waits, in a working client, for a leader or a connection.

        Called when the batch is overdue. Most clients have failed it by then: False.
        """
        return False

    @property
    def count(self) -> int:
        """The number of its records, which may still grow."""
        raise NotImplementedError

    @property
    def is_lone(self) -> bool:
        """Whether its only record was certainly alone in the request's batch."""
        return self.count == 1

    def may_hold(self, index: int) -> bool:
        """Return whether one of its records was or may have been written."""
        return self.ended != "split" and index not in self.unwritten

    def tokens(self) -> Sequence[Hashable]:
        """Return the client's tokens of the records, in order.

        Called only while records that were sent again have no outcome.
        """
        raise NotImplementedError

    def keys(self) -> Sequence[bytes | None] | None:
        """Return the records' keys, in order, or None if they are unknown.

        Called only after a failure, also for a batch that was accepted long ago.
        """
        raise NotImplementedError

    def raws(self) -> Sequence[Raw] | None:
        """Return the records' bytes, in order, or None if they are unknown.

        Called only after the batch has failed.
        """
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Refusal:
    """The failure of a record, as the client reports it.

    Attributes:
        token: The client's token of the record.
        index: Its index in its batch.
        cause: The client's own exception or error object; an error of kafkaguard if
            the shell has found out more about a record that was never sent.
        blame: ``"record"``: the answer names this record, or the client refused it.
            ``"mate"``: the answer names other records of the batch. ``"batch"``: the
            answer is about the whole batch. ``"client"``: there is no answer, because
            the client gave up. ``"unknown"``: the client does not distinguish these.
        sent: ``"never"``; ``"maybe"``: sent, without an answer; ``"answered"``.
        first_try: Whether the batch was sent once only; None if unknown.
        was_unanswered: An earlier attempt of the client had no answer, or one that does
            not exclude that it was written. So the record may have been written,
            whatever the last answer is.
        earlier: The end of that attempt: the code of its answer, or ``"lost"`` if it
            had none; None: the client does not tell.
        expired: It failed because its time was over.
        null_key: Whether the record has no key, after serialisers; None if unknown.
        partition: The partition that the client chose, if the batch does not have it.
        is_topic_absent: Whether a broker says that it knows no such topic.
    """

    token: Hashable
    index: int
    cause: Any
    blame: Literal["record", "mate", "batch", "client", "unknown"]
    sent: Literal["never", "maybe", "answered"]
    first_try: bool | None = None
    was_unanswered: bool = False
    earlier: Earlier | None = None
    expired: bool = False
    null_key: bool | None = None
    partition: int | None = None
    is_topic_absent: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """A late answer to a batch that the client had given up.

    Attributes:
        base_offset: The offset of the batch's first record; None if the batch was not
            written, or the offset is unknown.
        refusals: The refusals of the batch's failed records.
    """

    base_offset: int | None = None
    refusals: Sequence[Refusal] = ()
