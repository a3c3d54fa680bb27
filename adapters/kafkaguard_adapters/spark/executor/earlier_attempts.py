"""The stored error of a task attempt, so that later attempts fail at once.

Spark runs a failed task again, and each attempt would send the good records again. And
each would have the whole time of the policy, so the first failure's time is stored.
The file is in the executor's own folder, which Spark deletes with the application. An
attempt in another executor does not find the file.
"""

from __future__ import annotations

import json
import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafkaguard._errors.base import Action
from kafkaguard_adapters.spark.marker import TaskFailedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkaguard._errors import KafkaGuardError

#: Verdicts that do not change between two attempts.
_FINAL = (Action.REJECT, Action.CONFIGURE)
_log = logging.getLogger("kafkaguard.spark")


def fail_as_before(context: Any) -> float | None:
    """Fail before anything is sent, if an earlier attempt has stored its error.

    Args:
        context: Spark's context of this task; None: not in a task.

    Returns:
        The seconds that the policy leaves for this attempt; None: no earlier attempt
        has stored an error.

    Raises:
        TaskFailedError: The error of an earlier attempt at this task, which is final,
            or the policy's deadline is over.
    """
    if context is None or not (note := _locate_note(context)).exists():
        return None
    until, _, failure = note.read_text().partition("\n")
    remaining_s = float(until) - time.time()
    if remaining_s <= 0:
        raise TaskFailedError(failure)
    return remaining_s


def remember(
    context: Any,
    error: KafkaGuardError,
    failure: TaskFailedError,
    until: float | None,
) -> None:
    """Store an error for later attempts, if it is final, or will be.

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
        return
    note = _locate_note(context)
    try:
        if until and note.exists():  # The deadline counts from the first failure.
            until = float(note.read_text().partition("\n")[0])
        note.write_text(f"{until}\n{failure}")
    except (OSError, ValueError) as why:
        _log.warning(
            "the error of this attempt cannot be stored, so later attempts "
            "send their records again: %s",
            why,
        )


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
    from pyspark import SparkFiles

    name = f"kafkaguard-{kind}-{context.stageId()}-{context.partitionId()}"
    return Path(SparkFiles.getRootDirectory()) / name
