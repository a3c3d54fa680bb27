"""The stored error of a task attempt, so that later attempts fail at once.

Spark runs a failed task again, and each attempt would send the good records again. The
file is in the executor's own folder, which Spark deletes with the application. An
attempt in another executor does not find the file.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafkaguard._verdicts.verdict import Action
from kafkaguard_adapters.spark.marker import TaskFailedError

if TYPE_CHECKING:
    from kafkaguard.errors import KafkaGuardError

#: Verdicts that do not change between two attempts.
_FOR_GOOD = (Action.REJECT, Action.CONFIGURE)
_log = logging.getLogger("kafkaguard.spark")


def fail_as_before(context: Any) -> None:
    """Fail before anything is sent, if an earlier attempt has stored its error.

    Args:
        context: Spark's context of this task; None: not in a task.

    Raises:
        TaskFailedError: The error of an earlier attempt at this task.
    """
    if context is not None and (note := _note(context)).exists():
        raise TaskFailedError(note.read_text())


def remember(context: Any, error: KafkaGuardError, failure: TaskFailedError) -> None:
    """Store an error for later attempts, if each of them would fail in the same way."""
    if context is None or error.verdict.action not in _FOR_GOOD:
        return
    try:
        _note(context).write_text(str(failure))
    except OSError as why:
        _log.warning(
            "the error of this attempt cannot be stored, so later attempts "
            "send their records again: %s",
            why,
        )


def _note(context: Any) -> Path:
    from pyspark import SparkFiles

    name = f"kafkaguard-failed-{context.stageId()}-{context.partitionId()}"
    return Path(SparkFiles.getRootDirectory()) / name
