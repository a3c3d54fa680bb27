"""Shared parts of reports: numbers from brokers, partitions, errors.

Negative numbers from a broker or a client are markers: -1 is Kafka's "unknown", -2 to
-6 are special times, -1001 is a marker of librdkafka. A broker accepts any of them as a
committed offset. So all offsets, sizes and times from brokers and clients are checked
here, and a marker becomes None.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkaguard._common.arguments import whole_number, wrong_type
from kafkaguard._errors import KafkaGuardError, for_code

if TYPE_CHECKING:
    from collections.abc import Iterable


_MS: float = 1000


def read_number(value: int | None) -> int | None:
    """Return an offset, a size or an id, or None for a marker."""
    return None if value is None or value < 0 else value


def read_time(milliseconds: int | None) -> float | None:
    """Return a time in seconds since 1970, or None for a marker."""
    number = read_number(milliseconds)
    return None if number is None else number / _MS


def read_position(value: Any) -> int | None:
    """Return a caller's offset, or None if its client does not know it yet.

    Raises:
        TypeError: It is not a whole number.
    """
    return None if value is None else read_number(whole_number("a position", value))


class TopicPartition(NamedTuple):
    """A partition; equal to kafka-python's and aiokafka's tuples of that name."""

    topic: str
    partition: int

    def __str__(self) -> str:
        """Return the name of the partition's folder, such as ``orders-0``."""
        return f"{self.topic}-{self.partition}"


def as_partition(value: Any) -> TopicPartition:
    """Read a partition from a pair, or from any client's ``TopicPartition``.

    Raises:
        TypeError: It is neither of these.
    """
    pair = value[:2] if isinstance(value, tuple) else _pair_of(value)
    if [type(part) for part in pair] != [str, int]:
        raise wrong_type("a partition", "a pair (topic, number)", value)
    return TopicPartition(*pair)


def _pair_of(value: Any) -> tuple[Any, ...]:
    return getattr(value, "topic", None), getattr(value, "partition", None)


#: Makes an error from a code or a class, a text, and topic and partition. Each client's
#: ``errors`` module has such a function.
Make = Callable[..., KafkaGuardError]


def make(
    error: int | type[KafkaGuardError], message: str | None = None, /, **place: Any
) -> KafkaGuardError:
    """Make an error that belongs to no client."""
    cls = for_code(error) if isinstance(error, int) else error
    return cls(message, **place)


def raise_gravest(errors: Iterable[KafkaGuardError]) -> None:
    """Raise the most severe error, with the others as notes."""
    ranked = sorted(errors, key=lambda error: error.verdict.action.severity)
    if not ranked:
        return
    *others, gravest = ranked
    for other in reversed(others):
        note = f"besides: {other}"
        if note not in getattr(gravest, "__notes__", ()):
            gravest.add_note(note)
    raise gravest
