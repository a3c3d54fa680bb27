"""The output of a Kafka process, cut to the relevant lines."""

from __future__ import annotations

import re
from itertools import dropwhile

_LINES = 15
_ERROR = re.compile(r" (ERROR|FATAL) |^Exception in |^Error|^usage:")
_NOISE = re.compile(r" INFO |^\s+(at |\.\.\. \d+ more)")


def quote(log: str) -> str:
    """Quote the first error and its consequences, or the end, without stack frames."""
    lines = log.splitlines()
    if failed := [*dropwhile(lambda line: not _ERROR.search(line), lines)]:
        telling = [line for line in failed if not _NOISE.search(line)]
        return "\n".join(["The first error in its log:", *telling[:_LINES]])
    return "\n".join(["Its log ends:", *lines[-_LINES:]])
