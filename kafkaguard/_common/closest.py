"""The closest known name to a misspelt one."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

#: How alike two names are that may be the same (1: they are).
_ALIKE: Final = 0.7
#: Letters that are enough to tell a name by its beginning.
_BEGINNING: Final = 3


def closest(word: str, known: Iterable[str]) -> str | None:
    """Find the known name that is most like a word; None: none is like it.

    Case, ``-`` and ``_`` make no difference, and the beginning of a name will do.
    """
    typed = _plain(word)
    length = max(len(typed), _BEGINNING)

    def likeness(name: str) -> float:
        whole = _plain(name)
        forms = (whole, whole[:length])
        return max(SequenceMatcher(None, typed, each).ratio() for each in forms)

    best = max(known, key=likeness, default=None)
    return best if best is not None and likeness(best) >= _ALIKE else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Ask for the closest name, as the end of a sentence; empty if there is none."""
    near = closest(word, known)
    return "" if near is None else f"; did you mean {near!r}?"


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")
