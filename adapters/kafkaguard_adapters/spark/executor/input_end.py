"""Whether Spark has handed a task all of its rows.

PySpark takes a connection that is closed between two Arrow batches for the end of the
rows (``ArrowStreamSerializer.load_stream``). So a task sees fewer rows and no error if
its executor has died, or if a part of the shuffle is lost. Behind the last row Spark
writes a word more (``SpecialLengths.END_OF_STREAM``), and nothing behind a connection
that was closed too early.
"""

from __future__ import annotations

import sys
from typing import IO, TYPE_CHECKING, Any

from kafkaguard._errors import ClientConfigurationError, TransactionAbortableError
from kafkaguard_adapters.confluent.errors import errors

if TYPE_CHECKING:
    from types import FrameType


def check_end(rows: int) -> None:
    """Check, behind the last row, that Spark has no more of them.

    Args:
        rows: How many there were.

    Raises:
        TransactionAbortableError: Spark closed the connection too early.
        ClientConfigurationError: This version of PySpark does not show that.
    """
    stream: Any = _find_input()
    if stream is None:
        raise errors.make(
            ClientConfigurationError,
            "exactly_once: this version of PySpark does not show whether a task got "
            "all of its rows; PySpark 4.0 to 4.2 do",
        )
    if not stream.peek(1):
        raise errors.make(
            TransactionAbortableError,
            f"Spark closed the connection behind {rows:,} rows, before the last one: "
            "the executor has died, or a part of the shuffle was lost. The "
            "transaction was aborted; Spark tries the task again",
            api="Produce",
        )


def _find_input() -> IO[bytes] | None:
    """Return the stream from which PySpark's worker reads; None if it is not known."""
    frame: FrameType | None = sys._getframe()  # noqa: SLF001 - documented
    while frame is not None:
        if frame.f_code.co_name == "main" and "infile" in frame.f_locals:
            stream: IO[bytes] = frame.f_locals["infile"]
            return stream if hasattr(stream, "peek") else None
        frame = frame.f_back
    return None
