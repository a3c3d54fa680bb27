"""Numbers on the command line: finite, and within bounds that the refusal names."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from collections.abc import Callable

_LONGEST_S: Final = 86_400


class Bounded(click.ParamType):  # type: ignore[type-arg]  # no generic in older click
    """A number between two bounds, both included.

    Args:
        lowest: The lower bound.
        highest: The upper bound.
        kind: What it is; ``int`` takes whole numbers only.
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
        """Read it, or say which numbers there may be."""
        try:
            number = self._kind(value)
        except ValueError:
            number = math.nan
        if not math.isfinite(number) or not self._lowest <= number <= self._highest:
            self.fail(f"{value!r}: give {self._wanted()}", param, ctx)
        return number

    def _wanted(self) -> str:
        what = "a whole number" if self._kind is int else "a number"
        if math.isinf(self._highest):
            return f"{what} from {self._lowest:g} on"
        return f"{what} from {self._lowest:g} to {self._highest:g}"


#: A time to wait: no shorter than a millisecond, no longer than a day.
SECONDS: Final = Bounded(0.001, _LONGEST_S)
#: A pause, which there need not be.
PAUSE: Final = Bounded(0, _LONGEST_S)
COUNT: Final = Bounded(1, kind=int)
AMOUNT: Final = Bounded(0, kind=int)
PERCENT: Final = Bounded(0, 100)
