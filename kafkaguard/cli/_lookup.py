"""From what a person pastes to an error code."""

from __future__ import annotations

import re
from difflib import get_close_matches

from kafkaguard.errors import BY_CODE
from kafkaguard.errors._librdkafka import LOCAL_CODES

NAMES = {cls.name: code for code, cls in BY_CODE.items()} | {
    name: code for code, (name, _) in LOCAL_CODES.items()
}
_CLASSES = {cls.__name__: code for code, cls in BY_CODE.items()}
# kafka-python prints "[Error 6]", librdkafka "val=-192", and both a bare name.
_NUMBERED = re.compile(r"\[Error (-?\d+)\]|val=(-?\d+)|error code:? (-?\d+)")


def find_code(text: str) -> int | None:
    """Find the error code in a number, a name, an exception's text or a traceback.

    In a longer text the last mention counts: that is where a traceback ends.
    """
    text = text.strip()
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    upper = text.upper()
    if upper in NAMES:
        return NAMES[upper]
    numbered = [int(next(filter(None, m))) for m in _NUMBERED.findall(text)]
    words = re.findall(r"\w+", text)
    named = [NAMES.get(w, _CLASSES.get(w)) for w in words]
    found = numbered or [code for code in named if code is not None]
    return found[-1] if found else None


def nearest_name(text: str) -> str | None:
    """Return the known name that looks most like a misspelt one."""
    near = get_close_matches(text.upper(), NAMES, n=1) or get_close_matches(
        text, _CLASSES, n=1
    )
    return near[0] if near else None
