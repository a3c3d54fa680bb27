"""Limits of a record's size, each with its setting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable


class Sizes(NamedTuple):
    """The sizes of a record in bytes.

    Attributes:
        record: Key, value and headers together.
        batch: A batch with this record only, before compression. The broker compares
            it with ``max.message.bytes``.
    """

    record: int
    batch: int


class SizeLimit(NamedTuple):
    """A limit of a record's size.

    Attributes:
        most: The most bytes.
        setting: The setting with the limit.
        counts: Which of the record's :class:`Sizes` is limited.
    """

    most: int
    setting: str
    counts: Literal["record", "batch"] = "batch"

    def describe(self, size: str) -> str:
        """Return the text for a record that is too large, with what to do."""
        need = {
            "record": f"key, value and headers of a record have {size} bytes",
            "batch": f"a record needs {size} bytes in the topic, before compression",
        }
        return (
            f"{need[self.counts]}, and {self.setting} is {self.most:,}; raise it, or "
            "name a dead-letter topic for such records"
        )


def describe_exceeded(limits: Iterable[SizeLimit], sizes: Sizes) -> str | None:
    """Return the text for the first exceeded limit; None: no limit is exceeded."""
    for limit in limits:
        if (size := getattr(sizes, limit.counts)) > limit.most:
            return limit.describe(f"{size:,}")
    return None
