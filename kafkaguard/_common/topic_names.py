"""Valid topic names."""

from __future__ import annotations

import re

_LONGEST = 249
_NAME = re.compile(r"[a-zA-Z0-9._-]+")
#: The rule for topic names, as the end of a sentence.
ALLOWED = "1 to 249 of the characters a-z A-Z 0-9 . _ - and not . or .. alone"


def can_be_a_topic(name: str) -> bool:
    """Return whether Kafka allows this topic name (Kafka's class ``Topic``)."""
    well_made = len(name) <= _LONGEST and _NAME.fullmatch(name) is not None
    return well_made and name not in (".", "..")


def shortened(name: str | None) -> str | None:
    """Shorten a name for a message, because a column may contain whole documents."""
    if name is None or len(name) <= _LONGEST:
        return name
    return f"{name[:_LONGEST]}..."
