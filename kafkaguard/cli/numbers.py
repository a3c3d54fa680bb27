"""Numbers on the command line: finite and within bounds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import click

from kafkaguard._common.arguments import port

if TYPE_CHECKING:
    from collections.abc import Callable

_LONGEST_S: Final = 86_400


class Bounded(click.ParamType):  # type: ignore[type-arg]  # no generic in older click
    """A number between two bounds, both included.

    Args:
        lowest: The lower bound.
        highest: The upper bound.
        kind: The type; ``int`` accepts whole numbers only.
    """

    name = "number"

    def __init__(
        self,
        lowest: float,
        highest: float = math.inf,
        kind: Callable[[Any], float] = float,
    ) -> None:
        self._lowest = lowest
        self._highest = highest
        self._kind = kind

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Parse the number; the error names the allowed numbers."""
        try:
            number = self._kind(value)
        except ValueError:
            number = math.nan
        if not self._lowest <= number <= self._highest or number == math.inf:
            self.fail(f"{value!r}: give {self._wanted()}", param, ctx)
        return number

    def _wanted(self) -> str:
        what = "a whole number" if self._kind is int else "a number"
        if math.isinf(self._highest):
            return f"{what} from {self._lowest:g} on"
        return f"{what} from {self._lowest:g} to {self._highest:g}"


#: A time to wait: from a millisecond to a day.
SECONDS: Final = Bounded(0.001, _LONGEST_S)
#: A pause; 0 is no pause.
PAUSE: Final = Bounded(0, _LONGEST_S)
COUNT: Final = Bounded(1, kind=int)
AMOUNT: Final = Bounded(0, kind=int)
PERCENT: Final = Bounded(0, 100)
SHARE: Final = Bounded(0.000001, 1)
#: Brokers to start on one machine.
BROKERS: Final = Bounded(1, 100, int)
#: The most partitions that a broker accepts in one CreateTopics (KIP-599).
PARTITIONS: Final = Bounded(1, 10_000, int)
#: The number of schedules to draw; below, the number of waits to show for each.
RUNS: Final = Bounded(2, 100_000, int)
ROWS: Final = Bounded(1, 1_000, int)


class ListenAddress(click.ParamType):  # type: ignore[type-arg]  # as above
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
            wanted = "host:port with a port up to 65535 (0: any free)"
            self.fail(f"{value!r}: give {wanted}", param, ctx)
        return host, number
