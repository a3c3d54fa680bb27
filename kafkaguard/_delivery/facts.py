"""What a shell tells the delivery machine: batches, refusals, answers. No judgement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

Header = tuple[str, bytes | None]
#: Where a record stands among those of its place: the batch's position, its index.
Order = tuple[tuple[int, ...], int]


class Place(NamedTuple):
    """Where records go; ``partition`` is None until the client tells it."""

    topic: str
    partition: int | None = None


class Raw(NamedTuple):
    """A record's bytes, after serialisers.

    Attributes:
        key: The key; None: it has none.
        value: The value; None: a delete marker.
        headers: Names and values; a value may be null.
        timestamp_ms: Milliseconds since 1970; None: the client sets it.
    """

    key: bytes | None
    value: bytes | None
    headers: Sequence[Header] = ()
    timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Traits:
    """What a client can do and tell at all.

    Attributes:
        client: The library, as errors name it.
        delivery_timeout: Seconds that the client gives a record.
        timeout_setting: What that setting is called.
        largest_request: The most bytes of a record that the client takes; None: no
            such bound is known.
        compresses: The client compresses batches, so a record's size in the topic is
            known only to :meth:`ProducerShell.size_alone`.
        idempotent: It numbers its batches.
        transactional: It has a ``transactional.id``: nothing is sent again, and no
            successor is built but by the application's next transaction.
        hears_late: It hears answers for batches that it has given up already, so these
            wait for :class:`AskAnswers`.
        replaceable: A successor can be built.
        takes_back: What waits behind a failed batch can be taken from it again.
        margin: Seconds beyond ``delivery_timeout`` in which it keeps that by itself.
    """

    client: str
    delivery_timeout: float
    timeout_setting: str
    largest_request: int | None = None
    compresses: bool = False
    idempotent: bool = True
    transactional: bool = False
    hears_late: bool = False
    replaceable: bool = True
    takes_back: bool = False
    margin: float = 0.0


class Batch:
    """Records that a client sends together; a shell derives its own from this.

    A client that shows no batches has windows instead: all records of a topic between
    two looks. Of a batch the machine is told twice: ``began``, and how it ended.

    Args:
        place: Where its records go.
        position: Its place in the order in which records came into ``place``: a number
            that grows with each successor, one that grows with each batch, and for a
            part of a batch that was split its first index there.
        due: When its records must have their outcome, in monotonic seconds.
        parent: The batch that was split, if this is a part of one.

    Attributes:
        orders: The true order of records in it that were sent again, by their index.
        left: How many of its records have failed and are not settled.
        unwritten: Indexes of its records that failed and were certainly not written.
        ended: How it ended; None while it is open.
        parts: What it was split into.
        next_look: When to look whether it has its outcome.
        counted: How many of its records were counted as delivered while it was open.
        base_offset: The offset of its first record; a shell sets it before it tells
            that the batch was accepted, where that is known.
    """

    __slots__ = (
        "base_offset",
        "counted",
        "due",
        "ended",
        "left",
        "next_look",
        "orders",
        "parent",
        "parts",
        "place",
        "position",
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
        self.orders: dict[int, Order] = {}
        self.left = 0
        self.unwritten: set[int] = set()
        self.ended: Literal["accepted", "failed", "split"] | None = None
        self.parts: list[Batch] = []
        self.next_look = due
        self.counted = 0
        self.base_offset: int | None = None

    def where(self, index: int) -> tuple[int | None, int | None]:
        """Return partition and offset of a record that was accepted; None: not known.

        Args:
            index: The record's.
        """
        offset = None if self.base_offset is None else self.base_offset + index
        return self.place.partition, offset

    @property
    def waits(self) -> bool:
        """Whether it waits in a client that is well, for a leader or a connection.

        Asked for when its time is over, by which a client gives a batch up by itself.
        """
        return False

    @property
    def count(self) -> int:
        """How many records it has; it may still grow. Read whenever it is needed."""
        raise NotImplementedError

    def may_hold(self, index: int) -> bool:
        """Tell whether a record of it was written or may be."""
        return self.ended != "split" and index not in self.unwritten

    def tokens(self) -> Sequence[Hashable]:
        """Return what the client knows each record by, in order.

        Asked for only while records that were sent again are on their way.
        """
        raise NotImplementedError

    def keys(self) -> Sequence[bytes | None] | None:
        """Return each record's key, in order; None if they cannot be told.

        Asked for only after a failure, also when the batch was accepted long ago.
        """
        raise NotImplementedError

    def raws(self) -> Sequence[Raw] | None:
        """Return each record's bytes, in order; None if they cannot be told.

        Asked for only after the batch has failed.
        """
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Refusal:
    """That a record failed, as far as its client tells.

    Attributes:
        token: What the client knows the record by.
        index: Its place in its batch.
        cause: The client's own exception or error object.
        blame: ``"record"``: the answer names this record, or the client would not take
            it. ``"mate"``: it names others of its batch. ``"batch"``: it is about the
            whole batch. ``"client"``: there is no answer, the client gave up or its
            time was over. ``"unknown"``: the client does not tell these apart.
        sent: ``"never"``, ``"maybe"``: it was sent, and no answer came;
            ``"answered"``.
        first_try: The batch was sent once; None: not known.
        was_unanswered: An earlier time that the client sent it had no answer, so it may
            have been written, whatever the last answer says.
        expired: It failed since its time was over.
        null_key: The record has no key, after serialisers; None: not known.
        partition: The partition that the client chose, where the batch does not say.
    """

    token: Hashable
    index: int
    cause: Any
    blame: Literal["record", "mate", "batch", "client", "unknown"]
    sent: Literal["never", "maybe", "answered"]
    first_try: bool | None = None
    was_unanswered: bool = False
    expired: bool = False
    null_key: bool | None = None
    partition: int | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What a client heard of a batch that it had given up.

    Attributes:
        base_offset: The offset of its first record, which was written; None: it was
            not, or that is not known.
        refusals: Why it was refused, for each of its records that failed.
    """

    base_offset: int | None = None
    refusals: Sequence[Refusal] = ()
