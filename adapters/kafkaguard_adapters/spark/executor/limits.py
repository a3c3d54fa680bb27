"""The largest record, and the setting that says so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable


class Sizes(NamedTuple):
    """How large a record is, in bytes.

    Attributes:
        record: Key, value and headers together.
        batch: A batch with this record only, before compression: what
            ``max.message.bytes`` is compared with.
    """

    record: int
    batch: int


class Limit(NamedTuple):
    """What a record may not be larger than.

    Attributes:
        most: How many bytes.
        setting: What says so.
        counts: Which of its :class:`Sizes` it is about.
    """

    most: int
    setting: str
    counts: Literal["record", "batch"] = "batch"

    def said(self, size: str) -> str:
        """Say that a record of such a size is too large, and what to do."""
        need = {
            "record": f"key, value and headers of a record have {size} bytes",
            "batch": f"a record needs {size} bytes in the topic, before compression",
        }
        return (
            f"{need[self.counts]}, and {self.setting} is {self.most:,}; raise it, or "
            "name a dead-letter topic for such records"
        )


def exceeded(limits: Iterable[Limit], sizes: Sizes) -> str | None:
    """Say which limit a record exceeds; None: it is not too large."""
    for limit in limits:
        if (size := getattr(sizes, limit.counts)) > limit.most:
            return limit.said(f"{size:,}")
    return None
