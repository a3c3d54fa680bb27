"""The rows of a pipeline's source, and the lines that Spark could not read.

If a line does not fit the columns, Spark reads what it can and sets the other columns
to null. So the pipeline adds a column that has such a line unchanged. A ``*`` in the
user's expressions must not include that column. So expressions with a ``*`` are
evaluated in a lateral subquery over the other columns, which Spark's optimizer turns
into one projection.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from kafkaguard._delivery.dead_letters import Reason
from kafkaguard_adapters.spark.pipeline.kafka_source import FORMAT, with_beginning
from kafkaguard_adapters.spark.pipeline.places import MistakeError
from kafkaguard_adapters.spark.policy import on_reject, read_policy
from kafkaguard_adapters.spark.verdicts import record_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from kafkaguard_adapters.spark.pipeline.model import OnMalformed, Pipeline, Source

#: Columns: a line that could not be read, unchanged, and its file.
LINE, FILE = "_kafkaguard_line", "_kafkaguard_file"
_ROW = "_kafkaguard_row"
#: Spark's hidden column with a row's file.
_PATH = "_metadata.file_path"
#: Formats for which Spark returns the lines that it could not read.
_TELLS = ("csv", "json", "xml")
_MODE, _LINE_OPTION = "mode", "columnnameofcorruptrecord"
_FAIL_FAST = "FAILFAST"
_ENFORCE = "enforceschema"
_SPARKS_LINE = "_corrupt_record"
_CASES = {"true": True, "false": False}


@dataclass(frozen=True)
class Rows:
    """Rows of a source.

    Attributes:
        frame: The rows.
        has_lines: Whether ``frame`` also has the columns :data:`LINE` and :data:`FILE`.
    """

    frame: DataFrame
    has_lines: bool

    @property
    def plain(self) -> DataFrame:
        """The columns that the user's expressions can use."""
        return self.frame.drop(LINE, FILE) if self.has_lines else self.frame

    def select(self, expressions: Sequence[str]) -> DataFrame:
        """Evaluate expressions.

        Returns:
            Columns ``_0``, ``_1`` and so on, and :data:`LINE` and :data:`FILE` if the
            source has them.
        """
        if not self.has_lines:
            return self.frame.select(*_numbered(expressions))
        if not any("*" in text for text in expressions):
            return self.frame.select(LINE, FILE, *_numbered(expressions))
        row = F.struct(*[F.col(f"`{name}`") for name in self.plain.columns])
        nested = self.frame.select(LINE, FILE, row.alias(_ROW))
        # The line break ends a comment at the end of an expression.
        texts = ", ".join(f"{text}\n AS _{n}" for n, text in enumerate(expressions))
        return nested.sparkSession.sql(
            f"SELECT {LINE}, {FILE}, made.* FROM {{nested}} AS nested, LATERAL "  # noqa: S608 - the user's own expressions, about the user's own data
            f"(SELECT {texts} FROM (SELECT nested.{_ROW}.*)) AS made",
            nested=nested,
        )


def _numbered(expressions: Sequence[str]) -> list[Any]:
    return [F.expr(text).alias(f"_{n}") for n, text in enumerate(expressions)]


def on_malformed(pipeline: Pipeline) -> OnMalformed | None:
    """Return what happens to a malformed line; None: the format has none.

    Raises:
        MistakeError: The format or the policy does not support what is requested.
    """
    source = pipeline.source
    asked = source.on_malformed
    if source.format.lower() not in _TELLS:
        if asked is not None:
            raise MistakeError(
                ("source", "on_malformed"),
                f"Spark detects malformed lines in {', '.join(_TELLS)}, and not in "
                f"{source.format}: leave it out",
            )
        return None
    mode = _check_options(source)
    policy = read_policy(pipeline.policy)
    fate = on_reject(policy, record_error(Reason.MALFORMED, pipeline.sink.topic))
    if asked == "dead_letter" and fate != "dead_letter":
        raise MistakeError(
            ("source", "on_malformed"),
            "dead_letter needs a policy with a dead-letter topic: policy: "
            "{extends: spark-sink, dead_letter: {topic: ...}}",
        )
    default: OnMalformed = "raise" if fate == "raise" else "dead_letter"
    return asked or mode or default


def _check_options(source: Source) -> OnMalformed | None:
    """Check the options about malformed lines; return what they request."""
    for written, value in source.options.items():
        place = "source", "options", written
        if written.lower() == _LINE_OPTION:
            raise MistakeError(
                place,
                "leave it out: on_malformed: dead_letter, in source, keeps the line",
            )
        if written.lower() != _MODE:
            continue
        if value.upper() == _FAIL_FAST and source.on_malformed != "dead_letter":
            return "raise"
        raise MistakeError(
            place,
            f"{value} is not supported here: in source, write on_malformed: "
            "dead_letter to keep malformed lines, or on_malformed: raise to stop at "
            "one",
        )
    return None


def read(spark: SparkSession, pipeline: Pipeline, *, with_lines: bool) -> Rows:
    """Read a source; nothing runs yet, except to check the names of columns.

    Args:
        spark: The session.
        pipeline: The pipeline.
        with_lines: Whether to add the lines that cannot be read.

    Raises:
        MistakeError: A column has a name that Spark uses for something else.
        PySparkException: The source cannot be read.
    """
    source = pipeline.source
    options = _options(pipeline)
    reader: Any = spark.readStream if pipeline.stream else spark.read
    if not with_lines:
        return Rows(_loaded(reader, source, options), has_lines=False)
    options |= {_MODE: "PERMISSIVE", _LINE_OPTION: LINE}
    found = _loaded(reader, source, options)
    if _SPARKS_LINE in found.columns:
        raise MistakeError(
            ("source", "columns"),
            f"leave {_SPARKS_LINE} out: on_malformed: dead_letter, in source, keeps a "
            "line that cannot be read",
        )
    again: Any = spark.readStream if pipeline.stream else spark.read
    reader = again.schema(found.drop(LINE).schema.add(LINE, "string"))
    if not any(name.lower() == _ENFORCE for name in options):
        # Spark compares the header of each CSV file with the columns then.
        options[_ENFORCE] = "false"
    rows = _loaded(reader, source, options, columns=False)
    return Rows(rows.withColumn(FILE, F.col(_PATH)), has_lines=True)


def _options(pipeline: Pipeline) -> dict[str, str]:
    """Return the source's options with kafkaguard's defaults."""
    given = pipeline.source.options
    takes_what_is_there = pipeline.stream is not None and pipeline.stream.every is None
    if pipeline.source.format.lower() == FORMAT and takes_what_is_there:
        return with_beginning(given)
    return dict(given)


def _loaded(
    reader: Any, source: Source, options: dict[str, str], *, columns: bool = True
) -> DataFrame:
    reader = reader.format(source.format).options(**options)
    if columns and source.columns is not None:
        reader = reader.schema(source.columns)
    rows: DataFrame = reader.load(source.path) if source.path else reader.load()
    return rows
