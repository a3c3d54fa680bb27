"""Bounded values; some accept the word ``unbounded``."""

import math
import re
import sys
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import PydanticCustomError, core_schema

UNBOUNDED = "unbounded"
#: The number for "unbounded"; the machine only compares it.
UNBOUNDED_COUNT = sys.maxsize
DAY = 86_400.0
_QUANTITY = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")
#: Units that people write, in seconds.
_UNITS = {"ms": 0.001, "s": 1, "sec": 1, "m": 60, "min": 60, "h": 3_600}


@dataclass(frozen=True, slots=True)
class Bound:
    """The range of a number, and whether the upper bound may be removed.

    Args:
        low: The smallest value allowed.
        high: The largest value allowed.
        unit: The unit, for messages.
        whole: Only whole numbers.
        removable: Whether ``unbounded`` is allowed.
    """

    low: float
    high: float
    unit: str = "seconds"
    whole: bool = False
    removable: bool = False

    @property
    def allowed(self) -> str:
        """The range in words."""
        kind = "a whole number" if self.whole else "a number"
        more = f", or the word {UNBOUNDED!r}" if self.removable else ""
        return f"{kind} of {self.unit} from {self.low:g} to {self.high:.12g}{more}"

    def check(self, value: Any) -> float:
        """Return the number that ``value`` means.

        Raises:
            PydanticCustomError: It is not a number, or out of range.
        """
        if self.removable and value == UNBOUNDED:
            return self._endless
        number = self._number(value)
        if number is None or not self.low <= number <= self.high:
            text = f"must be {self.allowed}{self._suggest(value)}"
            raise PydanticCustomError("out_of_range", text)
        return number

    def _suggest(self, value: Any) -> str:
        """Propose the number for a text such as "5 s"."""
        match = _QUANTITY.fullmatch(value) if isinstance(value, str) else None
        if match is None:
            return ""
        unit = match[2].lower()
        if not unit:
            return f"; write {float(match[1]):.12g} without quotes"
        if self.unit == "seconds" and unit in _UNITS:
            return f"; write {float(match[1]) * _UNITS[unit]:g}"
        return ""

    @property
    def _endless(self) -> float:
        return UNBOUNDED_COUNT if self.whole else math.inf

    def _number(self, value: Any) -> float | None:
        if isinstance(value, bool | str | bytes | bytearray):
            return None
        if isinstance(value, timedelta):
            return value.total_seconds()
        try:
            number = float(value)
        except (OverflowError, TypeError, ValueError):
            return None
        if not self.whole:
            return number
        return int(number) if number.is_integer() else None

    def _write(self, value: float) -> float | str:
        return UNBOUNDED if value == self._endless else value

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        """Make pydantic check with :meth:`check`."""
        return core_schema.no_info_plain_validator_function(
            self.check,
            serialization=core_schema.plain_serializer_function_ser_schema(self._write),
        )

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Describe the range for editors."""
        number = {
            "type": "integer" if self.whole else "number",
            "minimum": self.low,
            "maximum": self.high,
        }
        if not self.removable:
            return number
        return {"anyOf": [number, {"const": UNBOUNDED}]}


def as_written(value: Any) -> Any:
    """Return a checked value as it is written in a policy file."""
    endless = isinstance(value, int | float) and value in (math.inf, UNBOUNDED_COUNT)
    return UNBOUNDED if endless else value


def _as_tuple(value: Any) -> Any:
    """Convert a single value to a list."""
    return value if isinstance(value, list | tuple) else (value,)


def _parse_none(value: Any) -> Any:
    """Convert the word ``none`` to null, which TOML and the environment lack."""
    return None if value == "none" else value


_Off = Literal["none"] | None


def allow_none(item: Any) -> BeforeValidator:
    """Accept null, also as the word ``none``."""
    return BeforeValidator(_parse_none, json_schema_input_type=item | _Off)


def one_or_more(item: Any) -> BeforeValidator:
    """Accept a list, or a single value for a list of it."""
    return BeforeValidator(_as_tuple, json_schema_input_type=item | tuple[item, ...])


Seconds = Annotated[float, Bound(0, DAY)]
Duration = Annotated[float, Bound(0.001, DAY)]
Deadline = Annotated[float, Bound(0.001, 7 * DAY, removable=True)]
Attempts = Annotated[int, Bound(1, 10_000, "attempts", whole=True, removable=True)]
Waits = Annotated[int, Bound(0, 1_000_000, "waits", whole=True, removable=True)]
Count = Annotated[int, Bound(1, 1_000_000, "calls", whole=True)]
Factor = Annotated[float, Bound(1, 100, "times")]
Records = Annotated[int, Bound(1, 1_000_000_000, "records", whole=True)]
InMemory = Annotated[int, Bound(1, 10_000_000, "records", whole=True)]
Ratio = Annotated[float, Bound(0.000_001, 1, "dead letters for each record")]
Tokens = Annotated[float, Bound(0, 1_000_000, "tokens")]
