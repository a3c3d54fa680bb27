"""A request of Kafka's, as a person names it at the command line."""

from __future__ import annotations

from typing import Final

from kafkaguard._common.closest import did_you_mean
from kafkaguard._verdicts.apis import API_KEYS, API_NAMES
from kafkaguard.cli.group import Problem

#: More digits than any number of a request has.
_MOST_DIGITS: Final = 5


def request_name(api: str | None) -> str | None:
    """Return Kafka's name of a request, however it was typed, or by its number.

    Raises:
        Problem: Kafka has no such request.
    """
    if api is None:
        return None
    by_lower = {name.lower(): name for name in API_KEYS}
    typed = api.lower().replace("_", "").replace("-", "")
    exact = by_lower.get(typed) or _numbered(api)
    if exact is None:
        hint = did_you_mean(api, API_KEYS)
        raise Problem(f"Kafka has no request named {api!r}{hint}")
    return exact


def _numbered(api: str) -> str | None:
    is_number = api.isdecimal() and len(api) <= _MOST_DIGITS
    return API_NAMES.get(int(api)) if is_number else None
