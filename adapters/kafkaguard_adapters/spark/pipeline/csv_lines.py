"""CSV files: Spark reads whole lines and then parses them, so each line is known.

Spark's reader closes a quote that is open at the end of a line, without an error. So a
value with a line break becomes two records if each half has the right number of fields.
To find such a line, the line itself is needed, and Spark's reader keeps it only if it
could not parse it. So here Spark reads each line as one column, which leaves headers,
comments, encodings and streams to it, and then parses the lines with ``from_csv``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it
from pyspark.sql.types import StringType, StructField, StructType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column

#: The column with a line.
RAW: Final = "_kafkaguard_raw"
#: Options about what is in a line; the others are about files.
_OF_LINES: Final = frozenset(
    name.lower()
    for name in (
        *("sep", "delimiter", "quote", "escape", "charToEscapeQuoteEscaping"),
        *("unescapedQuoteHandling", "nullValue", "emptyValue", "nanValue"),
        *("ignoreLeadingWhiteSpace", "ignoreTrailingWhiteSpace", "inferSchema"),
        *("maxCharsPerColumn", "maxColumns", "mode", "columnNameOfCorruptRecord"),
        *("header", "enforceSchema", "samplingRatio"),
    )
)
#: Characters that Unicode reserves for use within a program: no text has them.
_NEVER: Final = {"sep": "\ufdd0", "quote": "\ufdd1", "escape": "\ufdd1"}
#: Spark's ways to write a separator.
_ESCAPES: Final = {
    r"\t": "\t",
    r"\r": "\r",
    r"\b": "\b",
    r"\f": "\f",
    r"\"": '"',
    r"\'": "'",
    r"\\": "\\",
    r"\u0000": "\0",
}
_OTHER_HEADER: Final = re.compile(
    r"(?:CSV header does not conform to the schema|Number of column in CSV header is "
    r"not equal).*?CSV file: (?P<file>\S+)",
    re.DOTALL,
)


def are_read_by_line(options: Mapping[str, str]) -> bool:
    """Return whether a line break ends a record also between quotes.

    Args:
        options: The options of a CSV source, by their names in lower case.
    """
    is_multi_line = options.get("multiline", "false").lower() == "true"
    return not is_multi_line and _quote(options) != ""


def make_line_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options with which Spark reads each line as one value."""
    of_files = {n: value for n, value in options.items() if n.lower() not in _OF_LINES}
    return {**of_files, **_NEVER}


def make_line_schema(
    header: str | None, folders: Sequence[StructField] = ()
) -> StructType:
    """Return the schema of lines.

    Args:
        header: The first line of each file. It is the column's name, so Spark compares
            it with each file. None: there is none, or the files have different ones.
        folders: Columns that Spark makes of the names of folders.
    """
    return StructType([StructField(header or RAW, StringType()), *folders])


def parse_line(schema: StructType, options: Mapping[str, str], line: str) -> Column:
    """Return the struct that Spark makes of a line.

    Args:
        schema: The columns of the file.
        options: The options of the source.
        line: The name of a further column, for a line that does not fit.
    """
    columns = [(each.name, each.dataType.simpleString()) for each in schema]
    written = [(name.replace("`", "``"), kind) for name, kind in columns]
    ddl = ", ".join(f"`{name}` {kind}" for name, kind in [*written, (line, "string")])
    return F.from_csv(F.col(RAW), ddl, dict(options))


def is_open(line: Column, options: Mapping[str, str]) -> Column:
    """Return whether a line ends inside quotes.

    Args:
        line: The line.
        options: The options of a CSV source, by their names in lower case.
    """
    separator = _separator(options)
    if len(separator) > 1:
        line = F.replace(line, F.lit(separator), F.lit(_NEVER["sep"]))
    return line.contains(_quote(options)) & line.rlike(make_open_quote_pattern(options))


def make_open_quote_pattern(options: Mapping[str, str]) -> str:
    """Return the pattern of a line that ends inside quotes, for Java.

    No part of it gives back what it has matched, so a long line needs no long search.
    """
    separator = _separator(options)
    sep = re.escape(separator if len(separator) == 1 else _NEVER["sep"])
    quote, escape = re.escape(_quote(options)), re.escape(options.get("escape", "\\"))
    space = r"\s*+" if options.get("ignoreleadingwhitespace") == "true" else ""
    if escape in ("", quote):
        inside = f"[^{quote}]*+(?:{quote}{quote}[^{quote}]*+)*+"
        end = ""
    else:
        other = f"[^{quote}{escape}]*+"
        inside, end = f"{other}(?:{escape}.{other})*+", f"{escape}?"
    quoted = f"{quote}{inside}{quote}[^{sep}]*+"
    field = f"{space}(?:{quoted}|[^{quote}{sep}][^{sep}]*+|)"
    return f"(?s)^(?:{field}{sep})*+{space}{quote}{inside}{end}$"


def find_other_header(text: str) -> str | None:
    """Return the file that has another header, as Spark's error names it, if any."""
    match = _OTHER_HEADER.search(text)
    return match and match["file"]


def _separator(options: Mapping[str, str]) -> str:
    separator = options.get("sep", options.get("delimiter", ","))
    return _ESCAPES.get(separator, separator)


def _quote(options: Mapping[str, str]) -> str:
    return options.get("quote", '"').strip("\0")
