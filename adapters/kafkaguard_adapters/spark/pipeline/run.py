"""Run a pipeline: read the source, evaluate the expressions, write to topics."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from kafkaguard._common.closest import did_you_mean
from kafkaguard._delivery.dead_letters import Reason
from kafkaguard.errors import KafkaGuardError
from kafkaguard_adapters.spark.columns import check_columns
from kafkaguard_adapters.spark.driver.foreach_batch import foreach_batch
from kafkaguard_adapters.spark.driver.frame import objection
from kafkaguard_adapters.spark.driver.plan import FEWEST
from kafkaguard_adapters.spark.driver.write import write
from kafkaguard_adapters.spark.marker import chain_of, error_from
from kafkaguard_adapters.spark.pipeline.casts import under_casts
from kafkaguard_adapters.spark.pipeline.csv_lines import other_header
from kafkaguard_adapters.spark.pipeline.early_checks import expressions
from kafkaguard_adapters.spark.pipeline.input_files import (
    TEXTS,
    empty_files,
    files_at,
)
from kafkaguard_adapters.spark.pipeline.kafka_source import check_other_topics
from kafkaguard_adapters.spark.pipeline.malformed import (
    add_line_number,
    all_malformed,
    failing_at_lines,
    failing_at_lost_keys,
    with_lines_set_aside,
    with_lost_keys_set_aside,
)
from kafkaguard_adapters.spark.pipeline.options import check_options
from kafkaguard_adapters.spark.pipeline.places import (
    MistakeError,
    MistakesError,
    place_of,
)
from kafkaguard_adapters.spark.pipeline.rows import FILE, LINE, on_malformed, read
from kafkaguard_adapters.spark.policy import read_policy
from kafkaguard_adapters.spark.report import total
from kafkaguard_adapters.spark.settings import make_settings
from kafkaguard_adapters.spark.topics import look_up
from kafkaguard_adapters.spark.verdicts import record_error
from kafkaguard_policies.model.policy import ways_of_rejecting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from kafkaguard_adapters.spark.pipeline.model import OnMalformed, Pipeline, Stream
    from kafkaguard_adapters.spark.pipeline.places import Place
    from kafkaguard_adapters.spark.pipeline.rows import Rows
    from kafkaguard_adapters.spark.report import WriteReport
    from kafkaguard_adapters.spark.settings import SinkSettings

#: Errors of Spark; those that PySpark does not translate are Py4J's.
OF_SPARK = (PySparkException, Py4JJavaError)
_ORDER = "_order_"
_HEADER = "_header_"
#: Column: whether a cast has turned a key into null.
_LOST = "_kafkaguard_lost"
_GLANCE_S = 1
#: Spark's own formats, and the best known others.
_FORMATS = (
    *("avro", "csv", "jdbc", "json", "kafka", "orc", "parquet", "text", "xml"),
    *("delta", "hudi", "iceberg"),
)
_MAX_DEPTH = 16


def check_target(pipeline: Pipeline) -> None:
    """Check settings and topics, and the parts of the source that need no Spark.

    Raises:
        MistakeError: A setting is not valid, a topic is missing, or no broker answers
            within 8 s.
        KafkaGuardError: The brokers refuse the client.
    """
    on_malformed(pipeline)
    with _placed(pipeline):
        settings = _settings(pipeline)
        check_other_topics(pipeline)
        look_up(settings)


def empty_report(pipeline: Pipeline) -> WriteReport | None:
    """Return the report of a pipeline whose files are all empty, which needs no Spark.

    Without ``columns``, Spark would find no column in an empty file.

    Returns:
        The report, with a warning; None: there is something to read, the files are not
        on this machine, or the pipeline is a stream.
    """
    source, settings = pipeline.source, _settings(pipeline)
    is_text = source.format.lower() in TEXTS
    if pipeline.stream or not source.path or not is_text or "://" in source.path:
        return None
    said = empty_files(files_at(source.path))
    if said is None:
        return None
    nothing = total(settings.topic, settings.dead_letter_topic, [])
    return replace(nothing, warnings=(said,))


def plan(spark: SparkSession, pipeline: Pipeline) -> DataFrame:
    """Build the DataFrame to write; nothing runs yet, except to check the input.

    Raises:
        MistakeError: The source cannot be read, or a column of the result has a type
            that the sink does not accept.
        MistakesError: Options do not exist, or expressions do not fit the source.
    """
    check_options(spark, pipeline.source)
    malformed = on_malformed(pipeline)
    if pipeline.source.columns is not None:
        with _blamed("source", "columns"):
            spark.read.schema(pipeline.source.columns)
    with _blamed("source"), _format_known(pipeline):
        rows = read(spark, pipeline, with_lines=malformed is not None)
    found = (_mistake(rows.plain, *each) for each in expressions(pipeline))
    if mistakes := [each for each in found if each is not None]:
        raise MistakesError(mistakes)
    with _blamed("select"):
        frame = _made(rows, pipeline)
    settings = _settings(pipeline)
    with _placed(pipeline):
        check_columns(frame.schema, settings)
    if pipeline.stream and pipeline.stream.every:
        with _blamed("stream", "every"):
            frame.writeStream.trigger(processingTime=pipeline.stream.every)
    return _refusing(frame, settings, malformed, rows.ends_open)


def _made(rows: Rows, pipeline: Pipeline) -> DataFrame:
    """Evaluate all expressions, and give the columns the sink's names."""
    select = pipeline.select
    texts = {
        name: text
        for name in ("key", "value", "topic", "timestamp", "partition", "headers")
        if isinstance(text := getattr(select, name), str)
    }
    headers = {} if isinstance(select.headers, str) else select.headers
    texts |= {f"{_HEADER}{n}": text for n, text in enumerate(headers.values())}
    texts |= {f"{_ORDER}{n}": text for n, text in enumerate(pipeline.order_by)}
    cast = under_casts(select.key) if select.key else None
    if cast is not None:
        texts[_LOST] = cast
    lines = [F.col(LINE), F.col(FILE)] if rows.has_lines else []
    made = rows.select(list(texts.values()))
    numbered = dict(zip(made.columns[len(lines) :], texts, strict=True))
    named = made.select(*lines, *[F.col(n).alias(name) for n, name in numbered.items()])
    return _shaped(named, list(headers))


def _shaped(frame: DataFrame, headers: Sequence[str]) -> DataFrame:
    """Convert the columns into the form that the sink requires."""
    if "partition" in frame.columns:
        frame = frame.withColumn("partition", F.col("partition").cast("int"))
    if _LOST in frame.columns:
        lost = F.col(_LOST).isNotNull() & F.col("key").isNull()
        frame = frame.withColumn(_LOST, lost)
    if not headers:
        return frame
    pairs = [
        F.struct(F.lit(header).alias("key"), _bytes(frame, n).alias("value"))
        for n, header in enumerate(headers)
    ]
    made = frame.withColumn("headers", F.array(*pairs))
    return made.drop(*[f"{_HEADER}{n}" for n in range(len(headers))])


def _bytes(frame: DataFrame, number: int) -> Column:
    """Return a header's value: bytes unchanged, other types as text."""
    name = f"{_HEADER}{number}"
    column = F.col(name)
    if frame.schema[name].dataType.simpleString() == "binary":
        return column
    return column.cast("string").cast("binary")


def _refusing(
    frame: DataFrame,
    settings: SinkSettings,
    malformed: OnMalformed | None,
    ends_open: Column | None,
) -> DataFrame:
    """Let malformed lines and lost keys be refused, or fail the job."""
    if malformed == "dead_letter":
        frame = with_lines_set_aside(frame)
    elif malformed == "raise":
        frame = failing_at_lines(frame, settings.topic, ends_open)
    if _LOST in frame.columns:
        lost = F.col(_LOST)
        refused = record_error(Reason.KEY_MADE_NULL, settings.topic)
        if settings.on_reject(refused) == "raise":
            frame = failing_at_lost_keys(frame, lost, settings.topic)
        else:
            frame = with_lost_keys_set_aside(frame, lost)
    return frame.drop(LINE, FILE, _LOST)


@contextmanager
def _placed(pipeline: Pipeline) -> Iterator[None]:
    """Add the key of the file that caused an error."""
    try:
        yield
    except KafkaGuardError as error:
        place = place_of(error, pipeline)
        if place is None:
            raise
        raise MistakeError(place, str(error)) from error


@contextmanager
def _blamed(*place: str) -> Iterator[None]:
    """Turn errors of Spark into errors about this key."""
    try:
        yield
    except OF_SPARK as error:
        message = f"Spark refuses the pipeline: {first_line(error)}"
        raise MistakeError(place, message) from error


@contextmanager
def _format_known(pipeline: Pipeline) -> Iterator[None]:
    """Turn Spark's error about an unknown format into one with the closest name."""
    try:
        yield
    except OF_SPARK as error:
        if "DATA_SOURCE_NOT_FOUND" not in str(error):
            raise
        name = pipeline.source.format
        hint = did_you_mean(name, _FORMATS)
        message = f"Spark refuses the pipeline: it has no format {name!r}{hint}"
        raise MistakeError(("source", "format"), message) from error


def first_line(error: BaseException) -> str:
    """Return the first line of Spark's error, and that of its innermost cause.

    The lines after it are Java's stack trace.
    """
    java = getattr(error, "java_exception", None)
    if file := other_header("\n".join(_texts(error))):
        return (
            f"{file} has another header than the files that were read before, or than "
            "source.columns says, and Spark reads columns by position: correct the "
            "file, or read it in a pipeline of its own"
        )
    said = _line(str(error) if java is None else java.getMessage())
    cause = None if java is None else _last_cause(java)
    if cause is None or _line(cause.getMessage()) in said:
        return said
    return f"{said} Its cause: {_line(cause.getMessage())}"


def _texts(error: BaseException) -> Iterator[str]:
    for each in chain_of(error):
        yield str(each)
        java = getattr(each, "java_exception", None) or getattr(each, "_origin", None)
        cause = None if java is None else _last_cause(java)
        if cause is not None:
            yield str(cause.getMessage())


def _line(text: object) -> str:
    return str(text).strip().partition("\n")[0]


def _last_cause(java: Any) -> Any:
    """Return the innermost cause that has a message; None: there is none."""
    found = None
    for _ in range(_MAX_DEPTH):
        java = java.getCause()
        if java is None:
            break
        found = java if java.getMessage() else found
    return found


def _mistake(rows: DataFrame, place: Place, text: str) -> MistakeError | None:
    why = objection(lambda: rows.select(F.expr(text)), rows.columns)
    return MistakeError(place, f"{text!r}: {why}") if why else None


def run(
    frame: DataFrame,
    pipeline: Pipeline,
    on_batch: Callable[[WriteReport, int], object],
) -> WriteReport:
    """Run a pipeline to its end, or until it is interrupted.

    Args:
        frame: The DataFrame that :func:`plan` built.
        pipeline: The pipeline.
        on_batch: Called for each micro-batch of a stream, with its report and id.

    Returns:
        The outcomes of all records.

    Raises:
        KafkaGuardError: A record failed the job.
    """
    try:
        report = _run(frame, pipeline, on_batch)
    except (KafkaGuardError, *OF_SPARK) as error:
        translated = error_from(error)
        if translated is None:
            raise
        add_line_number(translated)
        raise translated from error
    said = all_malformed(report, pipeline.source)
    return replace(report, warnings=(*report.warnings, said)) if said else report


def _run(
    frame: DataFrame,
    pipeline: Pipeline,
    on_batch: Callable[[WriteReport, int], object],
) -> WriteReport:
    arguments = _arguments(pipeline)
    if pipeline.stream is None:
        return write(frame, **arguments)
    reports: list[WriteReport] = []
    settings = _settings(pipeline)

    def note(report: WriteReport, batch_id: int) -> None:
        reports.append(report)
        on_batch(report, batch_id)

    function = _Batches(
        foreach_batch(
            on_report=note, checkpoint=pipeline.stream.checkpoint, **arguments
        )
    )
    try:
        _wait(_start(frame, function, pipeline.stream))
    except KeyboardInterrupt as interrupt:
        finished = total(settings.topic, settings.dead_letter_topic, reports)
        interrupt.add_note(f"of finished micro-batches: {finished}")
        if function.unfinished:
            interrupt.add_note(f"of the unfinished one: {function.unfinished}")
        raise
    except OF_SPARK as error:
        # Notes do not come through Spark; those of kafkaguard's errors are in its text.
        if function.unfinished and error_from(error) is None:
            error.add_note(function.unfinished)
        raise
    return total(settings.topic, settings.dead_letter_topic, reports)


class _Batches:
    """The function of a stream, which keeps what is known of a batch that failed.

    Args:
        function: Writes a micro-batch.

    Attributes:
        unfinished: What the batch that failed has written; empty: none has failed.
    """

    def __init__(self, function: Callable[[DataFrame, int], None]) -> None:
        self._function = function
        self.unfinished = ""

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Write a micro-batch."""
        try:
            self._function(batch, batch_id)
        except Exception as error:
            known = error_from(error) or error
            self.unfinished = "; ".join(getattr(known, "__notes__", ()))
            raise


def _start(frame: DataFrame, function: Any, stream: Stream) -> StreamingQuery:
    writer = frame.writeStream.foreachBatch(function)
    writer = writer.option("checkpointLocation", stream.checkpoint)
    if stream.every is None:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=stream.every).start()


def _wait(query: StreamingQuery) -> None:
    """Wait for the end of a stream; Ctrl-C cancels the running batch and is raised."""
    try:
        while not query.awaitTermination(_GLANCE_S):
            pass
    finally:
        query.stop()


def _arguments(pipeline: Pipeline) -> dict[str, Any]:
    sink = pipeline.sink
    policy = read_policy(pipeline.policy)
    # A malformed line must fail the job before anything is sent: before a shuffle.
    sets_aside = ways_of_rejecting(policy) != {"raise"}
    stops = on_malformed(pipeline) == "raise" and sets_aside and not pipeline.order_by
    return {
        "topic": sink.topic,
        "bootstrap_servers": sink.bootstrap_servers,
        "policy": pipeline.policy,
        "compacted": sink.compacted,
        "max_record_bytes": sink.max_record_bytes,
        "config": sink.config,
        "partitions": sink.partitions or (FEWEST if stops else None),
        "order_by": [f"{_ORDER}{n}" for n in range(len(pipeline.order_by))],
    }


def _settings(pipeline: Pipeline) -> SinkSettings:
    arguments = _arguments(pipeline)
    for name in ("partitions", "order_by"):
        del arguments[name]
    return make_settings(arguments.pop("bootstrap_servers"), **arguments)
