"""Store the end offsets of topics before a micro-batch is first tried.

After a driver was killed, the stream repeats its last micro-batch, and records of the
first try stay in the topics. So before a micro-batch is sent, the end offsets of its
topics are stored in a file next to the checkpoint. The file is not in the checkpoint,
so it remains when the checkpoint is deleted, and the report can say that the stream
starts again.
"""

from __future__ import annotations

import json
import logging
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from pyarrow import fs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: The file's name begins with a dot, because Spark's file sources ignore such files,
#: also ``*.json`` next to the checkpoint.
_SUFFIX = ".kafkaguard.json"
#: Spark's prefix for the checkpoint of a query without one; it is used only once.
_TEMPORARY = "temporary-"
_log = logging.getLogger("kafkaguard.spark")


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
        return last, _tried_before(batch)
    if batch < done:
        anew = max(anew, done)
    if batch <= anew:
        said = (
            f"the checkpoint is new, and the old one had reached batch {anew}, so "
            f"records of batch {batch} may have been written before"
        )
        return Note(batch, None, anew), said
    if batch > done + 1:
        said = (
            f"batch {batch} may have been tried before: the end offsets of an earlier "
            "try are not stored"
        )
        return Note(batch, None, anew), said
    return Note(batch, before, anew), None


def _tried_before(batch: int) -> str:
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

    def begin(self, batch: int, before: int | None) -> tuple[int | None, str | None]:
        """Store a micro-batch before it is sent.

        Returns:
            The end offsets from which its records are counted (None if unknown), and a
            remark for the report.
        """
        try:
            note, said = first_try(self._read(), batch, before)
            self._write(note)
        except (OSError, ValueError) as error:
            return None, self._failed(error)
        return note.before, said

    def plan(self, before: int | None) -> int | None:
        """Store a micro-batch with an unknown id; return the end offsets before it."""
        try:
            last = self._read()
            if last is not None and last.batch is None:
                self._write(replace(last, again=True))
                return last.before
            self._write(Note(None, before, last=last))
        except (OSError, ValueError) as error:
            self._failed(error)
            return None
        return before

    def done(self, batch: int) -> tuple[int | None, str | None]:
        """Store the id of the planned micro-batch; return as :meth:`begin` does."""
        try:
            planned = self._read() or Note(None, None)
            if planned.batch is None:
                last, before = planned.last, planned.before
            else:  # The plan could not be stored.
                last, before = planned, None
            note, said = first_try(last, batch, before)
            if planned.again and said is None:
                said = _tried_before(batch)
            self._write(note)
        except (OSError, ValueError) as error:
            return None, self._failed(error)
        return note.before, said

    def _failed(self, error: Exception) -> str:
        said = f"{self._address} cannot be used: {error}"
        _log.warning("duplicates cannot be counted: %s", said)
        return said

    def _read(self) -> Note | None:
        files, path = file_system(self._address)
        if files.get_file_info(path).type is fs.FileType.NotFound:
            return None
        with files.open_input_stream(path) as file:
            return _note(json.loads(file.read()))

    def _write(self, note: Note) -> None:
        """Replace the file atomically, because a driver may be killed at any moment."""
        files, path = file_system(self._address)
        new = f"{path}.new"
        with files.open_output_stream(new) as file:
            file.write(json.dumps(asdict(note)).encode())
        files.move(new, path)


def _note(content: Any) -> Note:
    try:
        last = content.pop("last")
        return Note(**content, last=None if last is None else _note(last))
    except (AttributeError, KeyError, TypeError):
        raise ValueError(
            "the file does not have the stored offsets of a stream"
        ) from None


def file_system(address: str) -> tuple[Any, str]:
    """Return Arrow's file system of an address, and the path in it."""
    if "://" in address or address.startswith("file:"):
        found: tuple[Any, str] = fs.FileSystem.from_uri(address)
        return found
    return fs.LocalFileSystem(), address


def is_temporary(checkpoint: str) -> bool:
    """Return whether Spark made the checkpoint itself; no batch of it is repeated."""
    return checkpoint.rstrip("/").rpartition("/")[2].startswith(_TEMPORARY)


def checkpoint_of(batch: DataFrame) -> str | None:
    """Find the checkpoint of the stream that a micro-batch is from.

    Returns:
        The checkpoint's address; None: the DataFrame is not of a stream, or Spark does
        not expose it (Connect).
    """
    session: Any = batch.sparkSession
    if not hasattr(session, "_jsparkSession"):
        return None
    query = session.sparkContext.getLocalProperty("sql.streaming.queryId")
    if not query:
        return None
    # The session of a micro-batch has no list of queries; the shared state has.
    shared = session._jsparkSession.sharedState()  # noqa: SLF001 - Spark has no public name for it
    key = session._jvm.java.util.UUID.fromString(query)  # noqa: SLF001 - likewise
    running = shared.activeStreamingQueries().get(key)
    root: str | None = None if running is None else running.resolvedCheckpointRoot()
    return root
