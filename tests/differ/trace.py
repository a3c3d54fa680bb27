"""Lines that a player writes: each is flushed, so that a killed one has told all."""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

_lock = threading.Lock()
_began = time.monotonic()


def write(kind: str, **data: Any) -> None:
    """Write a line: what happened, when, with its data."""
    line = json.dumps({"kind": kind, "at": round(time.monotonic() - _began, 3), **data})
    with _lock:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def error(failure: BaseException | Any | None) -> dict[str, Any] | None:
    """Describe an exception, or the error object that a client reports."""
    if failure is None:
        return None
    verdict = getattr(failure, "verdict", None)
    if not isinstance(failure, BaseException):  # confluent-kafka's KafkaError
        inner = getattr(failure, "error", None)
        verdict = verdict or getattr(inner, "verdict", None)
    cause = getattr(failure, "__cause__", None)
    return {
        "classes": [each.__name__ for each in type(failure).__mro__[:-1]],
        "text": str(failure)[:400],
        "action": verdict and verdict.action.name,
        "written": verdict and verdict.written,
        "cause": None if cause is None else repr(cause)[:200],
    }
