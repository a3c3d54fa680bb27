"""Records that a pipeline refuses: malformed lines, and keys that became null.

If the policy sends such a record to the dead-letter topic or drops it, the column
:data:`REFUSED` has the reason for the sink. If the record must fail the job, its
columns raise an error before the shuffle, so nothing was sent yet.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from kafkaguard._delivery.dead_letters import Reason
from kafkaguard_adapters.spark.columns import REFUSED
from kafkaguard_adapters.spark.marker import as_text
from kafkaguard_adapters.spark.pipeline.rows import FILE, LINE
from kafkaguard_adapters.spark.verdicts import MALFORMED, record_error

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from kafkaguard._errors import KafkaGuardError
    from kafkaguard_adapters.spark.pipeline.model import Source
    from kafkaguard_adapters.spark.report import WriteReport

_OF_A_ROW = {"key", "topic", "partition", "timestamp", "headers"}
_FILE, _DIGEST, _WHY = "<file>", "<digest>", "<why>"
_WHICH = f"{_FILE} has a line that {_WHY} (the MD5 of the line is {_DIGEST})"
_UNFIT = "does not fit the declared columns"
_ENDS_OPEN = (
    "ends inside quotes; if its value goes on in the next line, add multiLine: true "
    "to source.options"
)
_REPORTED = re.compile(r"MALFORMED: (\S+) has a line .*MD5 of the line is (\w{32})\)")


def set_lines_aside(frame: DataFrame) -> DataFrame:
    """Turn each malformed line into a refused record whose value is the line.

    Args:
        frame: The columns of the sink, and the columns :data:`LINE` and :data:`FILE`.
    """
    line = F.col(LINE)
    columns = {
        name: F.when(line.isNull(), F.col(name))
        for name in set(frame.columns) & _OF_A_ROW
    }
    columns["value"] = F.coalesce(line.cast("binary"), F.col("value").cast("binary"))
    return _mark_refused(
        frame.withColumns(columns), line.isNotNull(), Reason.MALFORMED, F.col(FILE)
    )


def set_lost_keys_aside(frame: DataFrame, lost: Column) -> DataFrame:
    """Mark records as refused if a cast has turned their key into null."""
    no_file = F.lit(None).cast("string")
    return _mark_refused(frame, lost, Reason.KEY_MADE_NULL, no_file)


def _mark_refused(
    frame: DataFrame, bad: Column, reason: Reason, source: Column
) -> DataFrame:
    why = F.struct(F.lit(str(reason)).alias("reason"), source.alias("source"))
    earlier = [F.col(REFUSED)] if REFUSED in frame.columns else []
    return frame.withColumn(REFUSED, F.coalesce(*earlier, F.when(bad, why)))


def fail_at_lines(
    frame: DataFrame, topic: str | None, ends_open: Column | None
) -> DataFrame:
    """Fail the job at a malformed line.

    Args:
        frame: As for :func:`set_lines_aside`.
        topic: The topic of the records; None: a column names it.
        ends_open: Whether the line ends inside quotes; None: that is not known.
    """
    text = F.lit(as_text(record_error(Reason.MALFORMED, topic, _WHICH)))
    why = F.lit(_UNFIT)
    if ends_open is not None:
        why = F.when(ends_open, F.lit(_ENDS_OPEN)).otherwise(why)
    text = F.replace(text, F.lit(_WHY), why)
    text = F.replace(text, F.lit(_FILE), F.col(FILE))
    text = F.replace(text, F.lit(_DIGEST), F.md5(F.col(LINE).cast("binary")))
    return _fail(frame, F.col(LINE).isNotNull(), text)


def fail_at_lost_keys(frame: DataFrame, lost: Column, topic: str | None) -> DataFrame:
    """Fail the job at a record whose key a cast made null."""
    return _fail(frame, lost, F.lit(as_text(record_error(Reason.KEY_MADE_NULL, topic))))


def _fail(frame: DataFrame, bad: Column, text: Column) -> DataFrame:
    """Let each column that the sink's checks may read first fail the job."""
    failed = F.raise_error(text)
    return frame.withColumns(
        {
            name: F.when(bad, failed).otherwise(F.col(name))
            for name in frame.columns
            if name in ("key", "value", "topic")
        }
    )


def describe_all_malformed(report: WriteReport, source: Source) -> str | None:
    """Return a warning if all lines are malformed: the options may be wrong."""
    counts = report.dead_lettered, report.dropped
    malformed = sum(each.get(Reason.MALFORMED, 0) for each in counts)
    if not malformed or malformed < report.read:
        return None
    advice = f"all {malformed:,} lines are malformed: check source.columns"
    if source.format.lower() != "csv":
        return f"{advice} and source.options"
    options = {name.lower(): value for name, value in source.options.items()}
    separator = options.get("sep", options.get("delimiter", ","))
    header = options.get("header", "false").lower()
    return (
        f"{advice}, and in source.options sep (the separator of values, here "
        f"{separator!r}) and header (whether the first line has the names of the "
        f"columns, here {header})"
    )


def add_line_number(error: KafkaGuardError) -> None:
    """Add the line number to an error about a malformed line.

    This works only if the file is on this machine and is not compressed.
    """
    match = _REPORTED.search(error.summary or "")
    if error.verdict is not MALFORMED or match is None:
        return
    number = find_line_number(match[1], match[2])
    if number is not None:
        error.add_note(f"it is line {number:,} of the file")


def find_line_number(file: str, digest: str) -> int | None:
    """Return the number of a line with this MD5; None: it is not found.

    Args:
        file: The file's address, as ``file:///...``.
        digest: The MD5 of the line without its end, in hexadecimal.
    """
    address = urlsplit(file)
    if address.scheme != "file":
        return None
    try:
        with Path(unquote(address.path)).open("rb") as lines:
            for number, line in enumerate(lines, 1):
                content = line.rstrip(b"\r\n")
                if hashlib.md5(content, usedforsecurity=False).hexdigest() == digest:
                    return number
    except OSError:
        pass
    return None
