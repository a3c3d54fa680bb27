"""The stored error of a task attempt, so that later attempts fail at once.

Spark runs a failed task again, and each attempt would send the good records again. And
each would have the whole time of the policy, so the first failure's time is stored.
When it is over for one task, it is over for all of the stage.
The files are in the executor's own folder, which Spark deletes with the application. An
attempt in another executor does not find them.
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafkaguard._common.logs import Log
from kafkaguard._errors.base import Action
from kafkaguard_adapters.spark.marker import TaskFailedError, TimeIsOverError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkaguard._errors import KafkaGuardError

#: Verdicts that do not change between two attempts.
_FINAL = (Action.REJECT, Action.CONFIGURE)
_log = Log("spark")


def fail_as_before(context: Any) -> float | None:
    """Fail before anything is sent, if an earlier attempt has stored its error.

    Args:
        context: Spark's context of this task; None: not in a task.

    Returns:
        The seconds that the policy leaves for this attempt; None: no earlier attempt
        has stored an error.

    Raises:
        TaskFailedError: The error of an earlier attempt at this task, which is final.
        TimeIsOverError: The policy's deadline is over for a task of this stage.
    """
    if context is None:
        return None
    if (end := _locate_end(context)).exists():
        raise TimeIsOverError(end.read_text())
    if not (note := _locate_note(context)).exists():
        return None
    until, _, failure = note.read_text().partition("\n")
    remaining_s = float(until) - time.time()
    if remaining_s <= 0:
        raise TaskFailedError(failure) if not float(until) else _end(context, failure)
    return remaining_s


def remember(
    context: Any,
    error: KafkaGuardError,
    failure: TaskFailedError,
    until: float | None,
) -> TaskFailedError:
    """Store an error for later attempts, if it is final, or will be.

    Returns:
        ``failure``; or a :class:`TimeIsOverError` if no attempt has time left.

    Args:
        context: Spark's context of this task; None: not in a task.
        error: The error of this attempt.
        failure: The same, as the driver reads it.
        until: When the policy's deadline is over, in seconds since the epoch; None: no
            policy was given.
    """
    if error.verdict.action in _FINAL:
        until = 0.0
    if context is None or until is None:
        return failure
    note = _locate_note(context)
    try:
        if until and note.exists():  # The deadline counts from the first failure.
            until = float(note.read_text().partition("\n")[0])
        note.write_text(f"{until}\n{failure}")
    except (OSError, ValueError) as why:
        _log.warning(
            "attempt_not_stored",
            "the error of this attempt cannot be stored, so later attempts "
            "send their records again: %s",
            why,
            error=why,
        )
        return failure
    is_over = 0 < until <= time.time()
    return _end(context, str(failure)) if is_over else failure


def _end(context: Any, failure: str) -> TimeIsOverError:
    """Let the other tasks of the stage, too, fail before they send anything."""
    with suppress(OSError):
        _locate_end(context).write_text(failure)
    return TimeIsOverError(failure)


def _locate_end(context: Any) -> Path:
    return _folder() / f"kafkaguard-ended-{context.stageId()}"


def remember_rows(context: Any, codes: Mapping[str, int]) -> None:
    """Store which rows a broker has refused, so that later attempts set them aside.

    Args:
        context: Spark's context of this task; None: not in a task.
        codes: The error codes, by a hash of the row; empty: the broker does not say
            which row it refuses.
    """
    if context is not None:
        codes = {**(refused_rows(context) or {}), **codes}
        _locate_note(context, "refused").write_text(json.dumps(codes))


def refused_rows(context: Any) -> dict[str, int] | None:
    """Return the rows that a broker has refused in earlier attempts; None: none has."""
    if context is None or not (note := _locate_note(context, "refused")).exists():
        return None
    codes: dict[str, int] = json.loads(note.read_text())
    return codes


def _locate_note(context: Any, kind: str = "failed") -> Path:
    name = f"kafkaguard-{kind}-{context.stageId()}-{context.partitionId()}"
    return _folder() / name


def _folder() -> Path:
    from pyspark import SparkFiles

    return Path(SparkFiles.getRootDirectory())
