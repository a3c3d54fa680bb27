"""One dead letter: what its headers say, which letters a replay takes, and their order.

Nothing here reads or writes.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from kafkaguard._delivery.dead_letters import (
    ATTEMPTS,
    VALUE_BYTES,
    Reason,
    as_first_read,
)
from kafkaguard._delivery.dialects import LetterFacts
from kafkaguard._delivery.facts import Raw

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkaguard._delivery.facts import Header

#: Letters of a transaction, where the order of no key needs more.
TRANSACTION = 1000
_NOTHING = LetterFacts()


class Place(NamedTuple):
    """Where a letter stands in the dead-letter topic."""

    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record of a dead-letter topic, as it is offered to ``fix`` and sent.

    Attributes:
        key: The key, or None.
        value: The value, or None.
        headers: The headers that the record had before it was set aside.
        timestamp_ms: The record's timestamp in milliseconds since 1970.
        topic: The topic to which it is sent; None if no header names one.
        partition: The partition of that topic, or None: by the key.
        offset: Its offset there, if it had been read from there.
        reason: Why it was set aside.
        error: Kafka's name of the error, if the headers have it.
        code: The code of the error.
        exception: The class of the exception.
        message: The text of the error.
        group: The consumer group that set it aside.
        attempts: How often it was set aside.
        is_cut: Whether the value is only the beginning of the record's.
        is_letter: Whether its headers are those of a dead letter.
    """

    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    timestamp_ms: int | None
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    reason: str | None = None
    error: str | None = None
    code: int | None = None
    exception: str | None = None
    message: str | None = None
    group: str | None = None
    attempts: int = 1
    is_cut: bool = False
    is_letter: bool = False

    def check(self) -> None:
        """Check what a function for ``fix`` has changed.

        Raises:
            TypeError: Something cannot be sent.
        """
        for name in ("key", "value"):
            part = getattr(self, name)
            if not isinstance(part, bytes | None):
                raise TypeError(
                    f"fix returned a letter whose {name} is {type(part).__name__}: "
                    "give bytes or None"
                )
        for header in self.headers:
            match header:
                case (str(), bytes() | None):
                    continue
            raise TypeError(
                f"fix returned a letter with the header {header!r}: give pairs of str "
                "and bytes or None"
            )


def read_letter(
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[Header],
    timestamp_ms: int | None,
) -> DeadLetter:
    """Read a record of a dead-letter topic."""
    facts, record = as_first_read(Raw(key, value, headers, timestamp_ms))
    is_letter, facts = facts is not None, facts or _NOTHING
    values = dict(headers)
    attempts = (values.get(ATTEMPTS) or b"").decode(errors="replace")
    return DeadLetter(
        *record,
        topic=facts.topic,
        partition=facts.partition,
        offset=facts.offset,
        reason=facts.reason,
        error=facts.error,
        code=facts.code,
        exception=facts.exception,
        message=facts.message,
        group=facts.group,
        attempts=int(attempts) if attempts.isdecimal() else 1,
        is_cut=VALUE_BYTES in values,
        is_letter=is_letter,
    )


@dataclass(frozen=True, slots=True)
class Selection:
    """Which letters a replay takes: those to which every given word applies.

    Attributes:
        reasons: One of these reasons. Default: any but SUPERSEDED, since a newer record
            of the key is in the topic.
        codes: One of these error codes, as numbers or as Kafka's names.
        keys: One of these keys.
        since_ms: A record of this time or later, in milliseconds since 1970.
        until_ms: A record before this time.
    """

    reasons: frozenset[str] = frozenset()
    codes: frozenset[str] = frozenset()
    keys: frozenset[bytes] = frozenset()
    since_ms: int | None = None
    until_ms: int | None = None

    def takes(self, letter: DeadLetter) -> bool:
        """Return whether a replay takes a letter."""
        time_ms = letter.timestamp_ms
        return (
            (
                letter.reason in self.reasons
                if self.reasons
                else letter.reason != Reason.SUPERSEDED
            )
            and (
                not self.codes
                or not self.codes.isdisjoint({str(letter.code), str(letter.error)})
            )
            and (not self.keys or letter.key in self.keys)
            and (self.since_ms is None or (time_ms or 0) >= self.since_ms)
            and (self.until_ms is None or (time_ms or 0) < self.until_ms)
        )


class Entry(NamedTuple):
    """What is kept of each letter while a replay runs.

    Attributes:
        place: Where it stands.
        time_ms: The time of its record in the dead-letter topic, which interleaves the
            partitions.
        key: A digest of topic and key; None if it has no key, or is not taken.
        origin: Partition and offset in its topic; None if unknown.
    """

    place: Place
    time_ms: int
    key: bytes | None
    origin: tuple[int, int] | None


def make_entry(
    place: Place, time_ms: int | None, letter: DeadLetter, topic: str | None
) -> Entry:
    """Make the entry of a letter that goes to a topic; None: that is left."""
    key = None
    if topic is not None and letter.key is not None:
        key = blake2b(b"%s\0%s" % (topic.encode(), letter.key), digest_size=16).digest()
    is_known = letter.partition is not None and letter.offset is not None
    origin = (letter.partition, letter.offset) if is_known else None
    return Entry(place, time_ms or 0, key, origin)  # type: ignore[arg-type]  # both known


def interleave(entries: Sequence[Entry]) -> list[Entry]:
    """Order letters by their time, and those of each partition by their offset.

    A replay keeps one offset for each partition, so it may take no letter before all
    that stand in front of it. Times can go back there: a letter that was appended again
    keeps its time, as does one of an older record.
    """
    latest: defaultdict[int, int] = defaultdict(int)
    timed = []
    for entry in sorted(entries, key=lambda each: each.place):
        number = entry.place.partition
        latest[number] = max(latest[number], entry.time_ms)
        timed.append((latest[number], entry.place, entry))
    return [entry for _, _, entry in sorted(timed, key=lambda each: each[:2])]


def split_into_transactions(
    entries: Sequence[Entry], first: int | None = None, size: int = TRANSACTION
) -> Iterator[list[Entry]]:
    """Split letters into transactions, each in the order in which it is sent.

    Letters of a key are sent in the order of their original partition and offset. A
    position cannot skip a letter, so letters of a key whose order in the dead-letter
    topic is another one are sent in the same transaction.

    Args:
        entries: All letters, as :func:`interleave` orders them.
        first: The number of letters of the first transaction. Default: ``size``.
        size: The number of letters, where the order of no key needs more.
    """
    ordered = _order_by_key(entries)
    reach = list(range(len(entries)))  # the last index that must be in the same one
    for indices in ordered.values():
        furthest = -1
        for index in indices:
            if index < furthest:
                reach[index] = max(reach[index], furthest)
            furthest = max(furthest, index)
    slots = list(range(len(entries)))
    for indices in ordered.values():
        for slot, index in zip(sorted(indices), indices, strict=True):
            slots[slot] = index
    start, end, limit = 0, 0, size if first is None else first
    for index in range(len(entries)):
        end = max(end, reach[index])
        if index >= end and (index + 1 - start >= limit or index + 1 == len(entries)):
            yield [entries[slots[slot]] for slot in range(start, index + 1)]
            start, limit = index + 1, size


def _order_by_key(entries: Sequence[Entry]) -> dict[bytes, list[int]]:
    """Return the indices of the letters of each key, in the order of sending.

    If an origin is unknown, the order of the dead-letter topic is kept.
    """
    by_key: defaultdict[bytes, list[int]] = defaultdict(list)
    for index, entry in enumerate(entries):
        if entry.key is not None:
            by_key[entry.key].append(index)
    for indices in by_key.values():
        if all(entries[index].origin is not None for index in indices):
            indices.sort(key=lambda index: (entries[index].origin, index))
    return by_key
