"""Checks of arguments that callers give.

Each function returns the value in the form that the code uses, or raises an error with
one sentence: the argument, the accepted types, and the type of the given value (never a
value that could be a record or a secret).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from typing import Any, Final

_LAST_PORT: Final = 65_535
_LONGEST_PORT: Final = 5
#: The bounds of Kafka's int64.
_LOWEST: Final = -(2**63)
_HIGHEST: Final = 2**63 - 1


def port(text: str, *, lowest: int = 1) -> int | None:
    """Parse a TCP port; None if there is no such port."""
    if not (text.isascii() and text.isdigit() and len(text) <= _LONGEST_PORT):
        return None
    number = int(text)
    return number if lowest <= number <= _LAST_PORT else None


def wrong_type(argument: str, expected: str, value: Any) -> TypeError:
    """Make the error for an argument of the wrong type."""
    return TypeError(f"{argument} takes {expected}, not {_kind(value)}")


def names(argument: str, value: Any) -> tuple[str, ...] | None:
    """Read one or several names; the caller defines the meaning of None.

    Raises:
        TypeError: The value is neither, or a name is not a string.
    """
    if value is None:
        return None
    if isinstance(value, str):
        return (value,)
    values = tuple(items(argument, value, "a name or a list of names"))
    for each in values:
        if not isinstance(each, str):
            raise wrong_type(argument, "names (str)", each)
    return tuple(dict.fromkeys(values))


def ids(argument: str, value: Any) -> tuple[int, ...] | None:
    """Read a list of whole numbers, such as broker ids; None: all.

    Raises:
        TypeError: The value is no such list.
    """
    if value is None:
        return None
    values = tuple(items(argument, value, "a list of whole numbers"))
    for each in values:
        if not isinstance(each, Integral) or isinstance(each, bool):
            raise wrong_type(argument, "whole numbers (int)", each)
    return tuple(dict.fromkeys(map(int, values)))


def whole_number(
    argument: str, value: Any, lowest: int = _LOWEST, highest: int = _HIGHEST
) -> int:
    """Read a whole number, by default any that fits Kafka's int64.

    Raises:
        TypeError: The value is not a whole number.
        ValueError: The value is out of bounds.
    """
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise wrong_type(argument, "a whole number (int)", value)
    number = int(value)
    if not lowest <= number <= highest:
        is_bounded = lowest == _LOWEST or highest != _HIGHEST
        bounds = f"from {lowest} to {highest}" if is_bounded else f"of {lowest} or more"
        raise ValueError(f"{argument} takes a whole number {bounds}")
    return number


def flag(argument: str, value: Any) -> bool:
    """Read True or False. Other values are refused: the text "no" is true in Python.

    Raises:
        TypeError: The value is neither.
    """
    if not isinstance(value, bool):
        raise wrong_type(argument, "True or False", value)
    return value


def known_flag(argument: str, value: Any) -> bool | None:
    """Read True, False, or None for "not known".

    Raises:
        TypeError: The value is none of them.
    """
    if value is not None and not isinstance(value, bool):
        raise wrong_type(argument, "True, False or None", value)
    return value


def milliseconds(argument: str, value: Any) -> int:
    """Read a time in milliseconds, as Kafka has it, and round it down.

    Raises:
        TypeError: The value is not a number.
        ValueError: The value does not fit Kafka's int64, or is not finite.
    """
    if not isinstance(value, Real) or isinstance(value, bool):
        raise wrong_type(argument, "milliseconds (int or float)", value)
    if not isinstance(value, Integral) and not math.isfinite(value):
        raise ValueError(f"{argument} takes milliseconds with an end, not {value}")
    return whole_number(argument, math.trunc(value))


def items(argument: str, value: Any, expected: str) -> Iterable[Any]:
    """Return an iterable; a string counts as one item and is refused.

    Raises:
        TypeError: The value is not iterable, or is a string.
    """
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise wrong_type(argument, expected, value)
    return value


def mapping(argument: str, value: Any, expected: str) -> Mapping[Any, Any]:
    """Return a mapping.

    Raises:
        TypeError: The value is not a mapping.
    """
    if not isinstance(value, Mapping):
        raise wrong_type(argument, expected, value)
    return value


def seconds(argument: str, value: Any) -> float:
    """Read a time to wait, in seconds.

    Raises:
        TypeError: The value is not a number.
        ValueError: The value is not above 0, or is not finite.
    """
    if not isinstance(value, Real) or isinstance(value, bool):
        raise wrong_type(argument, "seconds (int or float)", value)
    number = float(value)
    if not (math.isfinite(number) and number > 0):
        raise ValueError(f"{argument} takes seconds above 0 with an end, not {value}")
    return number


def one_of(argument: str, value: Any, choices: Iterable[Any]) -> Any:
    """Return the value, which must be one of the known words.

    Raises:
        ValueError: It is not one of them; the text lists them.
    """
    values = tuple(choices)
    if value in values:
        return value
    words = ", ".join(map(str, values))
    raise ValueError(f"{argument}: {value!r} is not one of {words}")


def hook(argument: str, value: Any) -> Any:
    """Return a function to be called later, or None.

    Raises:
        TypeError: The value is not callable.
    """
    if value is not None and not callable(value):
        raise wrong_type(argument, "a function", value)
    return value


def _kind(value: Any) -> str:
    return "None" if value is None else type(value).__name__


#: The port of a broker if none is given.
DEFAULT_PORT: Final = 9092
_ADDRESS: Final = re.compile(
    r"(?:(?i:PLAINTEXT|SSL|SASL_PLAINTEXT|SASL_SSL)://)?"
    r"(?P<host>\[[0-9A-Fa-f:.%\w]+\]|[\w.-]+)(?::(?P<port>\d+))?"
)


def read_address(text: str) -> tuple[str, int] | None:
    """Parse ``host:port``, ``SSL://host:port`` or ``[::1]:9092``; None if invalid.

    The default port is 9092.
    """
    match = _ADDRESS.fullmatch(text)
    number = match and port(match["port"] or str(DEFAULT_PORT))
    return (match["host"].strip("[]"), number) if match and number else None
