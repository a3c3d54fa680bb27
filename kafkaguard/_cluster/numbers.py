"""Numbers from a broker or a client, of which negative ones are markers.

-1 is Kafka's "unknown", -2 to -6 are special times, -1001 is a marker of librdkafka. A
broker accepts any of them as a committed offset. So all offsets, sizes and times from
brokers and clients are checked here, and a marker becomes None.
"""

from __future__ import annotations

from typing import Any

from kafkaguard._common.arguments import whole_number

_MS: float = 1000


def known(value: int | None) -> int | None:
    """Return an offset, a size or an id, or None for a marker."""
    return None if value is None or value < 0 else value


def known_time(milliseconds: int | None) -> float | None:
    """Return a time in seconds since 1970, or None for a marker."""
    told = known(milliseconds)
    return None if told is None else told / _MS


def position(value: Any) -> int | None:
    """Return a caller's offset, or None if its client does not know it yet.

    Raises:
        TypeError: It is not a whole number.
    """
    return None if value is None else known(whole_number("a position", value))
