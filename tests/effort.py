"""How many cases are tried where many can be: ``make quick`` tries a part of them."""

from __future__ import annotations

import os

IS_QUICK = os.environ.get("HYPOTHESIS_PROFILE") == "quick"


def cases(count: int, *, quick: int) -> int:
    """Return how many cases to try."""
    return quick if IS_QUICK else count
