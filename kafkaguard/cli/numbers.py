"""Numbers and addresses on the command line."""

from __future__ import annotations

import math
from typing import Any, Final

import click

from kafkaguard._common.arguments import port

_LONGEST_S: Final = 86_400


class _Number(click.FloatRange):
    """A number within bounds; "nan" is within none."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Parse the number; the error names the bounds."""
        number: float = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return number


#: A time to wait: from a millisecond to a day.
SECONDS: Final = _Number(0.001, _LONGEST_S)
#: A pause, which may be 0.
PAUSE: Final = _Number(0, _LONGEST_S)
COUNT: Final = click.IntRange(1)
AMOUNT: Final = click.IntRange(0)
PERCENT: Final = _Number(0, 100)
SHARE: Final = _Number(0.000001, 1)
#: Brokers to start on one machine.
BROKERS: Final = click.IntRange(1, 100)
#: The most partitions that a broker accepts in one CreateTopics (KIP-599).
PARTITIONS: Final = click.IntRange(1, 10_000)
#: The number of schedules to draw; below, the number of waits to show for each.
RUNS: Final = click.IntRange(2, 100_000)
ROWS: Final = click.IntRange(1, 1_000)


class ListenAddress(click.ParamType):  # type: ignore[type-arg]  # no generic in older click
    """An address to listen at, ``host:port``; port 0 is any free port."""

    name = "host:port"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int]:
        """Parse the address; the error says how it is written."""
        if isinstance(value, tuple):  # a default, which is already converted
            return value
        host, _, text = value.rpartition(":")
        number = port(text, lowest=0)
        if not host or number is None:
            expected = "host:port with a port up to 65535 (0: any free)"
            self.fail(f"{value!r}: give {expected}", param, ctx)
        return host, number
