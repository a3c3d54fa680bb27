"""The checkpoint of a stream, and the end offsets of topics stored next to it.

After a driver was killed, the stream repeats its last micro-batch, and records of the
first try stay in the topics. So before a micro-batch is sent, the end offsets of its
topics are stored in a file next to the checkpoint. The file is not in the checkpoint,
so it remains when the checkpoint is deleted, and the report can say that the stream
starts again.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from pyarrow import fs

from kafkaguard._common.logs import Log
from kafkaguard_adapters.spark.setting_errors import setting_error

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: The file's name begins with a dot, because Spark's file sources ignore such files,
#: also ``*.json`` next to the checkpoint.
_SUFFIX = ".kafkaguard.json"
#: Spark's prefix for the checkpoint of a query without one; it is used only once.
_TEMPORARY = "temporary-"
#: Under a continuous trigger Spark never calls a sink in Python.
NO_CONTINUOUS = (
    "trigger(continuous=...) cannot be used: Spark does not call a sink in Python "
    "under it, and would count every record as written; use "
    "trigger(processingTime=...) or trigger(availableNow=True), or Spark's own sink "
    "with guard_sink"
)
_log = Log("spark")


@dataclass(frozen=True, slots=True)
class Note:
    """The stored facts of a micro-batch.

    Attributes:
        batch: Its id, or None while it is planned and its id is unknown.
        before: The sum of the topics' end offsets before it was first tried, or None if
            unknown.
        anew_up_to: The last micro-batch of an earlier run whose input is read again,
            because its checkpoint was deleted.
        last: The last finished micro-batch, if this one is only planned.
        again: Whether this one was planned before and is planned again.
    """

    batch: int | None
    before: int | None
    anew_up_to: int = -1
    last: Note | None = None
    again: bool = False


def first_try(
    last: Note | None, batch: int, before: int | None
) -> tuple[Note, str | None]:
    """Decide from which end offsets a micro-batch is counted.

    Args:
        last: The stored facts of the last micro-batch, or None.
        batch: The id of this micro-batch.
        before: The sum of the topics' end offsets now, or when it was planned.

    Returns:
        The facts to store for this micro-batch, and a remark for the report.
    """
    done = -1 if last is None or last.batch is None else last.batch
    anew = -1 if last is None else last.anew_up_to
    if last is not None and batch == done:
        return last, _describe_repeat(batch)
    if batch < done:
        anew = max(anew, done)
    remark = None
    if batch <= anew:
        remark = (
            f"the checkpoint is new, and the old one had reached batch {anew}, so "
            f"records of batch {batch} may have been written before"
        )
    elif batch > done + 1:
        remark = (
            f"batch {batch} may have been tried before: the end offsets of an earlier "
            "try are not stored"
        )
    return Note(batch, before if remark is None else None, anew), remark


def _describe_repeat(batch: int) -> str:
    return f"batch {batch} was tried before, and counts from its first try"


class Notes:
    """The file with the stored facts of a stream.

    Args:
        checkpoint: The stream's checkpoint: a path, or an address of a file system that
            Arrow supports.
    """

    def __init__(self, checkpoint: str) -> None:
        folder, slash, name = checkpoint.rstrip("/").rpartition("/")
        self._address = f"{folder}{slash}.{name}{_SUFFIX}"

    def begin(
        self, batch: int, before: int | None = None
    ) -> tuple[int | None, str | None]:
        """Store a micro-batch before it is sent, or the id of the planned one.

        Args:
            batch: The id of the micro-batch.
            before: The sum of the topics' end offsets now. Default: that of the plan.

        Returns:
            The end offsets from which its records are counted (None if unknown), and a
            remark for the report.
        """
        try:
            last, is_repeated = self._read(), False
            if last is not None and last.batch is None:
                before, is_repeated, last = last.before, last.again, last.last
            note, remark = first_try(last, batch, before)
            if is_repeated and remark is None:
                remark = _describe_repeat(batch)
            self._write(note)
        except (OSError, ValueError) as error:
            return None, self._warn(error)
        return note.before, remark

    def plan(self, before: int | None) -> int | None:
        """Store a micro-batch with an unknown id; return the end offsets before it."""
        try:
            last = self._read()
            if last is not None and last.batch is None:
                self._write(replace(last, again=True))
                return last.before
            self._write(Note(None, before, last=last))
        except (OSError, ValueError) as error:
            self._warn(error)
            return None
        return before

    def was_tried(self, batch: int) -> bool:
        """Return whether a micro-batch is noted as tried; False: unknown."""
        try:
            last = self._read()
        except (OSError, ValueError):
            return False
        return last is not None and last.batch == batch

    def _warn(self, error: Exception) -> str:
        warning = f"{self._address} cannot be used: {error}"
        _log.warning(
            "duplicates_not_counted",
            "duplicates cannot be counted: %s",
            warning,
            error=error,
        )
        return warning

    def _read(self) -> Note | None:
        files, path = file_system(self._address)
        if files.get_file_info(path).type is fs.FileType.NotFound:
            return None
        with files.open_input_stream(path) as file:
            return _make_note(json.loads(file.read()))

    def _write(self, note: Note) -> None:
        """Replace the file atomically, because a driver may be killed at any moment."""
        files, path = file_system(self._address)
        new = f"{path}.new"
        with files.open_output_stream(new) as file:
            file.write(json.dumps(asdict(note)).encode())
        files.move(new, path)


def _make_note(content: Any) -> Note:
    try:
        last = content.pop("last")
        return Note(**content, last=None if last is None else _make_note(last))
    except (AttributeError, KeyError, TypeError):
        raise ValueError(
            "the file does not have the stored offsets of a stream"
        ) from None


def file_system(address: str) -> tuple[Any, str]:
    """Return Arrow's file system of an address, and the path in it."""
    if "://" in address or address.startswith("file:"):
        files: tuple[Any, str] = fs.FileSystem.from_uri(address)
        return files
    return fs.LocalFileSystem(), address


def check_trigger(checkpoint: str) -> None:
    """Check that a micro-batch is under way, while its sink is planned.

    Spark passes no trigger to a sink. But a micro-batch is written to the checkpoint's
    log of offsets before its sink is planned, and a continuous query writes to that log
    only while it runs. So a plan without a micro-batch under way is a continuous one.

    Args:
        checkpoint: The stream's checkpoint. If its file system is not one of Arrow's,
            nothing is checked.

    Raises:
        ClientConfigurationError: The query has a continuous trigger.
    """
    try:
        planned, done = (_last_entry(checkpoint, log) for log in ("offsets", "commits"))
    except (OSError, ValueError):
        return
    if planned <= done:
        raise setting_error(NO_CONTINUOUS)


def _last_entry(checkpoint: str, log: str) -> int:
    """Return the last number in a log of the checkpoint; -1: there is none."""
    files, path = file_system(f"{checkpoint.rstrip('/')}/{log}")
    entries = files.get_file_info(fs.FileSelector(path, allow_not_found=True))
    names = (each.base_name for each in entries)
    return max((int(name) for name in names if name.isdecimal()), default=-1)


def is_temporary(checkpoint: str) -> bool:
    """Return whether Spark made the checkpoint itself; no batch of it is repeated."""
    return checkpoint.rstrip("/").rpartition("/")[2].startswith(_TEMPORARY)


def age_of(checkpoint: str, log: str, batch: int) -> float | None:
    """Return how old an entry in a log of the checkpoint is, in seconds; None: unknown.

    Args:
        checkpoint: The stream's checkpoint.
        log: ``offsets``: when the micro-batch was planned. ``commits``: when it ended.
        batch: The micro-batch.
    """
    try:
        files, path = file_system(f"{checkpoint.rstrip('/')}/{log}/{batch}")
        made = files.get_file_info(path).mtime
    except (OSError, ValueError):
        return None
    return None if made is None else time.time() - made.timestamp()


def query_of(checkpoint: str) -> str | None:
    """Return the id of the query that a checkpoint is of; None: it cannot be read."""
    try:
        files, path = file_system(f"{checkpoint.rstrip('/')}/metadata")
        with files.open_input_stream(path) as file:
            query: str = json.loads(file.read())["id"]
    except (OSError, ValueError, KeyError):
        return None
    return query


def running_query(frame: DataFrame) -> str | None:
    """Return the id of the query whose micro-batch this thread handles, or None.

    None also in Connect, which does not expose it.
    """
    session: Any = frame.sparkSession
    if not hasattr(session, "_jsparkSession"):
        return None
    query: str | None = session.sparkContext.getLocalProperty("sql.streaming.queryId")
    return query


def execution_of(batch: DataFrame) -> Any:
    """Find Spark's execution of the stream that a micro-batch is from.

    Returns:
        The Java object; None: the DataFrame is not of a stream, or Spark does not
        expose it (Connect).
    """
    session: Any = batch.sparkSession
    query = running_query(batch)
    if not query:
        return None
    # The session of a micro-batch has no list of queries; the shared state has.
    shared = session._jsparkSession.sharedState()  # noqa: SLF001 - Spark has no public name for it
    key = session._jvm.java.util.UUID.fromString(query)  # noqa: SLF001 - likewise
    return shared.activeStreamingQueries().get(key)


def checkpoint_of(batch: DataFrame) -> str | None:
    """Find the checkpoint of the stream that a micro-batch is from; None: unknown."""
    running = execution_of(batch)
    root: str | None = None if running is None else running.resolvedCheckpointRoot()
    return root
