"""Numbers from a broker or a client: a negative one is a marker.

-1 is Kafka's "not known", -2 to -6 are special times, -1001 is librdkafka's; a broker
takes any of them as a committed offset. So each offset, size and time from outside
comes through here, and a marker is None from here on.
"""

from __future__ import annotations

from typing import Any

from kafkaguard._common.arguments import whole_number

_MS: float = 1000


def known(value: int | None) -> int | None:
    """Return an offset, a size or an id; None: it is a marker, or was not told."""
    return None if value is None or value < 0 else value


def known_time(milliseconds: int | None) -> float | None:
    """Return a time in seconds since 1970; None: it is a marker, or was not told."""
    told = known(milliseconds)
    return None if told is None else told / _MS


def position(value: Any) -> int | None:
    """Return a caller's offset; None: its client does not know it yet.

    Raises:
        TypeError: It is no whole number.
    """
    return None if value is None else known(whole_number("a position", value))
