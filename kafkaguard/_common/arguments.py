"""Checks of arguments that callers give.

Each function returns the value in the form that the code uses, or raises an error with
one sentence: the argument, the accepted types, and the type of the given value (never a
value that could be a record or a secret).
"""

from __future__ import annotations

import math
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


def wrong_type(argument: str, wanted: str, given: Any) -> TypeError:
    """Make the error for an argument of the wrong type."""
    return TypeError(f"{argument} takes {wanted}, not {_kind(given)}")


def names(argument: str, given: Any) -> tuple[str, ...] | None:
    """Read one or several names; the caller defines the meaning of None.

    Raises:
        TypeError: The value is neither, or a name is not a string.
    """
    if given is None:
        return None
    if isinstance(given, str):
        return (given,)
    if isinstance(given, bytes) or not isinstance(given, Iterable):
        raise wrong_type(argument, "a name or a list of names", given)
    listed = tuple(given)
    for each in listed:
        if not isinstance(each, str):
            raise wrong_type(argument, "names (str)", each)
    return tuple(dict.fromkeys(listed))


def ids(argument: str, given: Any) -> tuple[int, ...] | None:
    """Read a list of whole numbers, such as broker ids; None: all.

    Raises:
        TypeError: The value is no such list.
    """
    if given is None:
        return None
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise wrong_type(argument, "a list of whole numbers", given)
    listed = tuple(given)
    for each in listed:
        if not isinstance(each, Integral) or isinstance(each, bool):
            raise wrong_type(argument, "whole numbers (int)", each)
    return tuple(dict.fromkeys(map(int, listed)))


def whole_number(
    argument: str, given: Any, lowest: int = _LOWEST, highest: int = _HIGHEST
) -> int:
    """Read a whole number, by default any that fits Kafka's int64.

    Raises:
        TypeError: The value is not a whole number.
        ValueError: The value is out of bounds.
    """
    if not isinstance(given, Integral) or isinstance(given, bool):
        raise wrong_type(argument, "a whole number (int)", given)
    number = int(given)
    if not lowest <= number <= highest:
        is_bounded = lowest == _LOWEST or highest != _HIGHEST
        bounds = f"from {lowest} to {highest}" if is_bounded else f"of {lowest} or more"
        raise ValueError(f"{argument} takes a whole number {bounds}")
    return number


def flag(argument: str, given: Any) -> bool:
    """Read True or False. Other values are refused: the text "no" is true in Python.

    Raises:
        TypeError: The value is neither.
    """
    if not isinstance(given, bool):
        raise wrong_type(argument, "True or False", given)
    return given


def known_flag(argument: str, given: Any) -> bool | None:
    """Read True, False, or None for "not known".

    Raises:
        TypeError: The value is none of them.
    """
    if given is not None and not isinstance(given, bool):
        raise wrong_type(argument, "True, False or None", given)
    return given


def milliseconds(argument: str, given: Any) -> int:
    """Read a time in milliseconds, as Kafka has it, and round it down.

    Raises:
        TypeError: The value is not a number.
        ValueError: The value does not fit Kafka's int64, or is not finite.
    """
    if not isinstance(given, Real) or isinstance(given, bool):
        raise wrong_type(argument, "milliseconds (int or float)", given)
    if not isinstance(given, Integral) and not math.isfinite(given):
        raise ValueError(f"{argument} takes milliseconds with an end, not {given}")
    return whole_number(argument, math.trunc(given))


def items(argument: str, given: Any, wanted: str) -> Iterable[Any]:
    """Return an iterable; a string counts as one item and is refused.

    Raises:
        TypeError: The value is not iterable, or is a string.
    """
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise wrong_type(argument, wanted, given)
    return given


def mapping(argument: str, given: Any, wanted: str) -> Mapping[Any, Any]:
    """Return a mapping.

    Raises:
        TypeError: The value is not a mapping.
    """
    if not isinstance(given, Mapping):
        raise wrong_type(argument, wanted, given)
    return given


def seconds(argument: str, given: Any) -> float:
    """Read a time to wait, in seconds.

    Raises:
        TypeError: The value is not a number.
        ValueError: The value is not above 0, or is not finite.
    """
    if not isinstance(given, Real) or isinstance(given, bool):
        raise wrong_type(argument, "seconds (int or float)", given)
    number = float(given)
    if not (math.isfinite(number) and number > 0):
        raise ValueError(f"{argument} takes seconds above 0 with an end, not {given}")
    return number


def one_of(argument: str, given: Any, known: Iterable[Any]) -> Any:
    """Return the value, which must be one of the known words.

    Raises:
        ValueError: It is not one of them; the text lists them.
    """
    listed = tuple(known)
    if given in listed:
        return given
    words = ", ".join(map(str, listed))
    raise ValueError(f"{argument}: {given!r} is not one of {words}")


def hook(argument: str, given: Any) -> Any:
    """Return a function to be called later, or None.

    Raises:
        TypeError: The value is not callable.
    """
    if given is not None and not callable(given):
        raise wrong_type(argument, "a function", given)
    return given


def _kind(given: Any) -> str:
    return "None" if given is None else type(given).__name__
