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

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it
from pyspark.sql.types import StringType, StructField, StructType

from kafkaguard._delivery.dead_letters import Reason
from kafkaguard_adapters.spark.pipeline.csv_lines import (
    RAW,
    are_read_by_line,
    is_open,
    make_line_options,
    make_line_schema,
    parse_line,
)
from kafkaguard_adapters.spark.pipeline.input_files import find_different_heads
from kafkaguard_adapters.spark.pipeline.kafka_source import FORMAT, with_beginning
from kafkaguard_adapters.spark.pipeline.places import mistake
from kafkaguard_adapters.spark.policy import on_reject, read_policy
from kafkaguard_adapters.spark.verdicts import record_error

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from kafkaguard_adapters.spark.pipeline.model import OnMalformed, Pipeline, Source

#: Columns: a line that could not be read, unchanged, and its file.
LINE, FILE = "_kafkaguard_line", "_kafkaguard_file"
_ROW, _OPEN = "_kafkaguard_row", "_kafkaguard_open"
#: Spark's hidden column with a row's file.
_PATH = "_metadata.file_path"
#: Formats for which Spark returns the lines that it could not read.
_WITH_LINES = ("csv", "json", "xml")
_MODE, _LINE_OPTION = "mode", "columnnameofcorruptrecord"
_ON_MALFORMED = ("source", "on_malformed")
_SPARKS_LINE = "_corrupt_record"


@dataclass(frozen=True)
class Rows:
    """Rows of a source.

    Attributes:
        frame: The rows.
        has_lines: Whether ``frame`` also has the columns :data:`LINE` and :data:`FILE`.
        ends_open: Whether a malformed line ends inside quotes; None if lines are
            malformed for other reasons only.
    """

    frame: DataFrame
    has_lines: bool
    ends_open: Column | None = None

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


def decide_on_malformed(pipeline: Pipeline) -> OnMalformed | None:
    """Return what happens to a malformed line; None: the format has none.

    Raises:
        MistakeError: The format or the policy does not support what is requested.
    """
    source = pipeline.source
    requested = source.on_malformed
    if source.format.lower() not in _WITH_LINES:
        if requested is not None:
            raise mistake(
                f"Spark detects malformed lines in {', '.join(_WITH_LINES)}, and not "
                f"in {source.format}: leave it out",
                *_ON_MALFORMED,
            )
        return None
    mode = _check_options(source)
    policy = read_policy(pipeline.policy)
    fate = on_reject(policy, record_error(Reason.MALFORMED, pipeline.sink.topic))
    if requested == "dead_letter" and fate != "dead_letter":
        raise mistake(
            "dead_letter needs a policy with a dead-letter topic: policy: "
            "{extends: spark-sink, dead_letter: {topic: ...}}",
            *_ON_MALFORMED,
        )
    return requested or mode or ("raise" if fate == "raise" else "dead_letter")


def _check_options(source: Source) -> OnMalformed | None:
    """Check the options about malformed lines; return what they request."""
    for name, value in source.options.items():
        place = "source", "options", name
        if name.lower() == _LINE_OPTION:
            raise mistake(
                "leave it out: on_malformed: dead_letter, in source, keeps the line",
                *place,
            )
        if name.lower() == _MODE:
            if value.upper() == "FAILFAST" and source.on_malformed != "dead_letter":
                return "raise"
            raise mistake(
                f"{value} is not supported here: in source, write on_malformed: "
                "dead_letter to keep malformed lines, or on_malformed: raise to stop "
                "at one",
                *place,
            )
    return None


def read(spark: SparkSession, pipeline: Pipeline, *, with_lines: bool) -> Rows:
    """Read a source; nothing runs yet, except to check the names of columns.

    Args:
        spark: The session.
        pipeline: The pipeline.
        with_lines: Whether to add the lines that cannot be read.

    Raises:
        MistakeError: The names in a CSV file are not those of ``source.columns``, or a
            column has a name that Spark uses for something else.
        PySparkException: The source cannot be read.
    """
    source, options = pipeline.source, dict(pipeline.source.options)
    if (
        source.format.lower() == FORMAT
        and pipeline.stream is not None
        and pipeline.stream.every is None
    ):
        options = with_beginning(options)

    def new_reader() -> Any:
        return spark.readStream if pipeline.stream else spark.read

    if not with_lines:
        return Rows(_load(new_reader(), source, options, source.columns), False)
    options |= {_MODE: "PERMISSIVE", _LINE_OPTION: LINE}
    rows = _load(new_reader(), source, options, source.columns)
    if _SPARKS_LINE in rows.columns:
        raise mistake(
            f"leave {_SPARKS_LINE} out: on_malformed: dead_letter, in source, keeps a "
            "line that cannot be read",
            *("source", "columns"),
        )
    schema = rows.drop(LINE).schema
    if source.format.lower() != "csv":
        rows = _load(new_reader(), source, options, schema.add(LINE, "string"))
        return Rows(rows.withColumn(FILE, F.col(_PATH)), has_lines=True)
    files = _CsvFiles(spark, source, schema)
    files.check()
    return Rows(files.rows(new_reader(), options), True, files.ends_open)


def _load(
    reader: Any,
    source: Source,
    options: dict[str, str],
    schema: str | StructType | None,
) -> DataFrame:
    reader = reader.format(source.format).options(**options)
    if schema is not None:
        reader = reader.schema(schema)
    rows: DataFrame = reader.load(source.path) if source.path else reader.load()
    return rows


class _CsvFiles:
    """The files of a CSV source, all with the same header.

    Args:
        spark: The session.
        source: The source.
        schema: Its columns, as Spark has found them or as they are declared.
    """

    def __init__(self, spark: SparkSession, source: Source, schema: StructType) -> None:
        self._spark = spark
        self._source = source
        self._options = {n.lower(): value for n, value in source.options.items()}
        self._has_header = self._options.get("header", "false").lower() == "true"
        try:
            lines = self._lines(spark.read, make_line_schema(None), {"header": "false"})
            first, addresses = lines.first(), lines.inputFiles()
            folders = {name.lower() for name in lines.columns[1:]}
        except AnalysisException:  # There is no file yet.
            first, addresses, folders = None, [], set()
        self._schema = schema
        self._folders = [each for each in schema if each.name.lower() in folders]
        self._columns = [each for each in schema if each.name.lower() not in folders]
        self._head = None if first is None else first[0]
        self._different = find_different_heads(addresses, self._options)

    @property
    def ends_open(self) -> Column | None:
        """Whether a malformed line ends inside quotes; None: that is not a mistake."""
        if not are_read_by_line(self._options):
            return None
        return is_open(F.col(LINE), self._options)

    def check(self) -> None:
        """Compare the first lines of the files with each other and with the columns.

        Spark reads columns by position and ignores the names in the files.

        Raises:
            MistakeError: They differ.
        """
        is_declared = self._source.columns is not None
        columns = [each.name for each in self._columns]
        first_of: dict[str, list[str | None]] = {}
        for file in self._different or [self._source.path or ""]:
            names = self._first_line(file)
            if is_declared and (
                wrong := describe_wrong_header(names, columns, self._has_header, file)
            ):
                place = ("source", "columns") if self._has_header else ("source",)
                raise mistake(wrong, *place)
            first_of[file] = names
        if self._has_header and (wrong := describe_different_headers(first_of)):
            raise mistake(wrong, "source", "path")

    def _first_line(self, address: str) -> list[str | None]:
        """Return the values of a file's first line, without those of folders."""
        options = self._options | {"header": "false"}
        raw = self._spark.read.format("csv").options(**options)
        try:
            first = raw.load(address).first() or ()
        except AnalysisException:
            return []
        # Only a whole path has columns of folders, behind the others.
        folders = 0 if self._different else len(self._folders)
        return list(first)[: max(0, len(first) - folders)]

    def rows(self, reader: Any, options: dict[str, str]) -> DataFrame:
        """Read the files; malformed lines are in :data:`LINE`."""
        if are_read_by_line(self._options):
            return self._rows_of_lines(reader, options)
        if self._source.columns is not None:
            options.setdefault("enforceSchema", "false")
        schema = StructType([*self._schema, StructField(LINE, StringType())])
        rows = _load(reader, self._source, options, schema)
        return rows.withColumn(FILE, F.col(_PATH))

    def _rows_of_lines(self, reader: Any, options: dict[str, str]) -> DataFrame:
        """Read whole lines, then parse them; a line that ends inside quotes is one."""
        # Headers that differ only in how they are written cannot be compared as text.
        is_one = self._has_header and len(self._different) <= 1
        header = self._head if is_one else None
        enforced = "true" if header is None else "false"
        enforced = self._options.get("enforceschema", enforced)
        has_header = str(self._has_header).lower()
        lines = self._lines(
            reader,
            make_line_schema(header, self._folders),
            {"header": has_header, "enforceSchema": enforced},
        ).withColumn(FILE, F.col(_PATH))
        folders = [each.name for each in self._folders]
        lines = lines.toDF(RAW, *folders, FILE)
        row = parse_line(StructType(self._columns), options, LINE)
        is_malformed = F.col(f"{_ROW}.{LINE}").isNotNull() | F.col(_OPEN)
        rows = lines.select(
            row.alias(_ROW), is_open(F.col(RAW), self._options).alias(_OPEN), "*"
        )
        values = [
            F.col(_quote(name))
            if name in folders
            else F.col(f"{_ROW}.{_quote(name)}").alias(name)
            for name in self._schema.names
        ]
        line = F.when(is_malformed, F.col(RAW)).alias(LINE)
        return rows.select(*values, line, FILE)

    def _lines(
        self, reader: Any, schema: StructType, more: dict[str, str]
    ) -> DataFrame:
        return _load(
            reader, self._source, make_line_options(self._options) | more, schema
        )


def _quote(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def describe_wrong_header(
    first: Sequence[str | None],
    columns: Sequence[str],
    has_header: bool,
    file: str = "the file",
) -> str | None:
    """Return what is wrong with the first line of a CSV file; None: nothing.

    Args:
        first: The values of the line.
        columns: The names of the declared columns.
        has_header: Whether the line is declared to be a header.
        file: The file.
    """
    same = _normalise(first) == [name.lower() for name in columns]
    if has_header and first and not same:
        for sep in ";\t|":
            if len(first) == 1 and sep in (first[0] or ""):
                return (
                    f"the header of {file} is one value, {first[0]}: if {sep!r} "
                    f"separates its values, set sep: {sep!r} in the options"
                )
        return (
            f"the header of {file} has {_list(first)}, and Spark reads columns by "
            "position: declare all columns, with these names and in this order"
        )
    if same and not has_header:
        return (
            f"the first line of {file} has the column names and would be read as a "
            "record: add header: true to the options"
        )
    return None


def describe_different_headers(
    first_of: Mapping[str, Sequence[str | None]],
) -> str | None:
    """Return what is wrong with files that have different headers; None: nothing.

    Args:
        first_of: The values of the first line of each file.
    """
    headers = [(file, first) for file, first in first_of.items() if first]
    for file, first in headers[1:]:
        other, names = headers[0]
        if _normalise(first) != _normalise(names):
            return (
                f"the header of {file} has {_list(first)}, that of {other} has "
                f"{_list(names)}, and Spark reads columns by position: read the "
                "files of each header in a pipeline of their own"
            )
    return None


def _normalise(first: Sequence[str | None]) -> list[str]:
    return [(value or "").strip().lower() for value in first]


def _list(first: Sequence[str | None]) -> str:
    return ", ".join(value or "" for value in first)
