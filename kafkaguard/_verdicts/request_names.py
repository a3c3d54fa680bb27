"""Names of Kafka's requests, as people write them."""

from __future__ import annotations

from typing import Final

from kafkaguard._common.closest import did_you_mean
from kafkaguard._verdicts.apis import API_KEYS, API_NAMES

#: More digits than the number of any request has.
_MOST_DIGITS: Final = 5


def request_named(name: str | int) -> str | None:
    """Return Kafka's name of a request; None: there is no such request.

    Args:
        name: The name, in any spelling (``describe_log_dirs``), or the number.
    """
    if isinstance(name, int):
        return API_NAMES.get(name)
    if name.isdecimal() and len(name) <= _MOST_DIGITS:
        return API_NAMES.get(int(name))
    squeezed = name.replace("_", "").replace("-", "").lower()
    return {each.lower(): each for each in API_KEYS}.get(squeezed)


def no_such_request(name: object) -> str:
    """Say that there is no such request, with the nearest one."""
    hint = did_you_mean(str(name), API_KEYS)
    return f"Kafka has no request named {name!r}{hint}"
