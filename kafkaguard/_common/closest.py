"""Find the closest known name to a misspelt one."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

#: The least similarity of two names that may mean the same; 1 is equality.
_ALIKE: Final = 0.7
#: A beginning with this many letters is enough to find a name.
_BEGINNING: Final = 3


def closest(word: str, names: Iterable[str]) -> str | None:
    """Find the known name that is most similar to a word; None if none is.

    Case, ``-`` and ``_`` are ignored, and the beginning of a name is enough.
    """
    plain_word = _plain(word)
    length = max(len(plain_word), _BEGINNING)

    def likeness(name: str) -> float:
        whole = _plain(name)
        forms = (whole, whole[:length])
        return max(_likeness(plain_word, each) for each in forms)

    best = max(names, key=likeness, default=None)
    return best if best is not None and likeness(best) >= _ALIKE else None


def _likeness(word: str, name: str) -> float:
    """Return how similar two texts are; 0 if their lengths differ too much for it."""
    matcher = SequenceMatcher(None, word, name)
    return matcher.ratio() if matcher.real_quick_ratio() >= _ALIKE else 0.0


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """Propose the closest name, as the end of a sentence; empty if there is none."""
    near = closest(word, names)
    return "" if near is None else f"; did you mean {near!r}?"


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")
