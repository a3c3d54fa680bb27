"""Names of APIs, codes and places; the error for a misspelt name proposes one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaguard._common.closest import did_you_mean
from kafkaguard._common.public import public
from kafkaguard._verdicts.apis import API_KEYS
from kafkaguard.errors._generated import BY_CODE

if TYPE_CHECKING:
    from collections.abc import Iterable


@public("kafkaguard.testing")
class FaultSpecError(ValueError):
    """A fault with an unknown word; the text has the word and the closest right one."""


def unknown(what: str, word: object, right: Iterable[str]) -> FaultSpecError:
    """Return the error about an unknown word, with the closest right one."""
    choices = sorted(right)
    hint = did_you_mean(str(word), choices) or f"; there are: {', '.join(choices)}"
    return FaultSpecError(f"unknown {what} {word!r}{hint}")


def api_key(name: str) -> int:
    """Return the key of an API.

    Raises:
        FaultSpecError: Kafka has no API of this name.
    """
    if name not in API_KEYS:
        raise unknown("API", name, API_KEYS)
    return API_KEYS[name]


def error_code(code: int | str) -> int:
    """Return the number of an error code; any number is allowed.

    Raises:
        FaultSpecError: Kafka has no error of this name.
    """
    if isinstance(code, int) and not isinstance(code, bool):
        return _in_range(code)
    numbers = {cls.name: number for number, cls in BY_CODE.items()}
    if code not in numbers:
        raise unknown("error code", code, map(str, numbers))
    return numbers[code]


def _in_range(code: int) -> int:
    lowest, highest = -32768, 32767
    if lowest <= code <= highest:
        return code
    raise FaultSpecError(f"error code {code} does not fit into the 16 bits on the wire")
