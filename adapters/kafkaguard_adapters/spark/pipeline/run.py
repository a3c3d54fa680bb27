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
from kafkaguard._errors import KafkaGuardError
from kafkaguard_adapters.spark.columns import check_columns
from kafkaguard_adapters.spark.driver.foreach_batch import foreach_batch
from kafkaguard_adapters.spark.driver.frame import find_objection
from kafkaguard_adapters.spark.driver.once import read_once
from kafkaguard_adapters.spark.driver.plan import FEWEST
from kafkaguard_adapters.spark.driver.write import write
from kafkaguard_adapters.spark.marker import error_from, iterate_causes
from kafkaguard_adapters.spark.pipeline.casts import strip_casts
from kafkaguard_adapters.spark.pipeline.csv_lines import find_other_header
from kafkaguard_adapters.spark.pipeline.input_files import (
    TEXTS,
    describe_empty_files,
    files_at,
)
from kafkaguard_adapters.spark.pipeline.kafka_source import check_other_topics
from kafkaguard_adapters.spark.pipeline.malformed import (
    add_line_number,
    describe_all_malformed,
    fail_at_lines,
    fail_at_lost_keys,
    set_lines_aside,
    set_lost_keys_aside,
)
from kafkaguard_adapters.spark.pipeline.options import check_options
from kafkaguard_adapters.spark.pipeline.places import (
    MistakeError,
    expressions,
    mistake,
    place_of,
)
from kafkaguard_adapters.spark.pipeline.rows import (
    FILE,
    LINE,
    decide_on_malformed,
    read,
)
from kafkaguard_adapters.spark.policy import read_policy
from kafkaguard_adapters.spark.report import total
from kafkaguard_adapters.spark.settings import make_settings
from kafkaguard_adapters.spark.topics import look_up
from kafkaguard_adapters.spark.verdicts import record_error
from kafkaguard_policies.model.policy import ways_of_rejecting
from kafkaguard_policies.model.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from kafkaguard_adapters.spark.pipeline.model import OnMalformed, Pipeline, Stream
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
    decide_on_malformed(pipeline)
    with _point_at_keys(pipeline):
        settings = _make_settings(pipeline)
        check_other_topics(pipeline)
        read_once(pipeline.sink.exactly_once, pipeline.sink.topic)
        look_up(settings)


def empty_report(pipeline: Pipeline) -> WriteReport | None:
    """Return the report of a pipeline whose files are all empty, which needs no Spark.

    Without ``columns``, Spark would find no column in an empty file.

    Returns:
        The report, with a warning; None: there is something to read, the files are not
        on this machine, or the pipeline is a stream.
    """
    source, settings = pipeline.source, _make_settings(pipeline)
    is_text = source.format.lower() in TEXTS
    if pipeline.stream or not source.path or not is_text or "://" in source.path:
        return None
    warning = describe_empty_files(files_at(source.path))
    if warning is None:
        return None
    report = total(settings.topic, settings.dead_letter_topic, [])
    return replace(report, warnings=(warning,))


def plan(spark: SparkSession, pipeline: Pipeline) -> DataFrame:
    """Build the DataFrame to write; nothing runs yet, except to check the input.

    Raises:
        MistakeError: The source cannot be read, options do not exist, expressions do
            not fit the source, or a column of the result has a type that the sink does
            not accept.
    """
    check_options(spark, pipeline.source)
    malformed = decide_on_malformed(pipeline)
    if pipeline.source.columns is not None:
        with _blame("source", "columns"):
            spark.read.schema(pipeline.source.columns)
    with _blame("source"), _suggest_format(pipeline):
        rows = read(spark, pipeline, with_lines=malformed is not None)
    problems = [
        Problem(f"{text!r}: {why}", place)
        for place, text in expressions(pipeline)
        if (why := _find_objection(rows.plain, text))
    ]
    if problems:
        raise MistakeError(*problems)
    with _blame("select"):
        frame = _evaluate(rows, pipeline)
    settings = _make_settings(pipeline)
    with _point_at_keys(pipeline):
        check_columns(frame.schema, settings)
    if pipeline.stream and pipeline.stream.every:
        with _blame("stream", "every"):
            frame.writeStream.trigger(processingTime=pipeline.stream.every)
    return _refuse_records(frame, settings, malformed, rows.ends_open)


def _evaluate(rows: Rows, pipeline: Pipeline) -> DataFrame:
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
    cast = strip_casts(select.key) if select.key else None
    if cast is not None:
        texts[_LOST] = cast
    lines = [LINE, FILE] if rows.has_lines else []
    frame = rows.select(list(texts.values()))
    frame = frame.toDF(*frame.columns[: len(lines)], *texts)
    return _shape(frame, list(headers))


def _shape(frame: DataFrame, headers: Sequence[str]) -> DataFrame:
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
    frame = frame.withColumn("headers", F.array(*pairs))
    return frame.drop(*[f"{_HEADER}{n}" for n in range(len(headers))])


def _bytes(frame: DataFrame, number: int) -> Column:
    """Return a header's value: bytes unchanged, other types as text."""
    name = f"{_HEADER}{number}"
    column = F.col(name)
    if frame.schema[name].dataType.simpleString() == "binary":
        return column
    return column.cast("string").cast("binary")


def _refuse_records(
    frame: DataFrame,
    settings: SinkSettings,
    malformed: OnMalformed | None,
    ends_open: Column | None,
) -> DataFrame:
    """Let malformed lines and lost keys be refused, or fail the job."""
    if malformed == "dead_letter":
        frame = set_lines_aside(frame)
    elif malformed == "raise":
        frame = fail_at_lines(frame, settings.topic, ends_open)
    if _LOST in frame.columns:
        lost = F.col(_LOST)
        error = record_error(Reason.KEY_MADE_NULL, settings.topic)
        if settings.on_reject(error) == "raise":
            frame = fail_at_lost_keys(frame, lost, settings.topic)
        else:
            frame = set_lost_keys_aside(frame, lost)
    return frame.drop(LINE, FILE, _LOST)


@contextmanager
def _point_at_keys(pipeline: Pipeline) -> Iterator[None]:
    """Add the key of the file that caused an error."""
    try:
        yield
    except KafkaGuardError as error:
        place = place_of(error, pipeline)
        if place is None:
            raise
        raise mistake(str(error), *place) from error


@contextmanager
def _blame(*place: str) -> Iterator[None]:
    """Turn errors of Spark into errors about this key."""
    try:
        yield
    except OF_SPARK as error:
        message = f"Spark refuses the pipeline: {first_line(error)}"
        raise mistake(message, *place) from error


@contextmanager
def _suggest_format(pipeline: Pipeline) -> Iterator[None]:
    """Turn Spark's error about an unknown format into one with the closest name."""
    try:
        yield
    except OF_SPARK as error:
        if "DATA_SOURCE_NOT_FOUND" not in str(error):
            raise
        name = pipeline.source.format
        known = name.lower() in _FORMATS
        near = "" if known else did_you_mean(name, _FORMATS)
        hint = near or ": correct the name, or add its package to spark.jars.packages"
        message = f"Spark refuses the pipeline: Spark has no format {name!r}{hint}"
        raise mistake(message, "source", "format") from error


def first_line(error: BaseException) -> str:
    """Return the first line of Spark's error, and that of its innermost cause.

    The lines after it are Java's stack trace.
    """
    java = getattr(error, "java_exception", None)
    if file := find_other_header("\n".join(_iterate_texts(error))):
        return (
            f"{file} has another header than the files that were read before, or than "
            "source.columns says, and Spark reads columns by position: correct the "
            "file, or read it in a pipeline of its own"
        )
    line = _cut_to_line(str(error) if java is None else java.getMessage())
    cause = _cut_to_line(_find_cause(java))
    return line if cause in line else f"{line} Its cause: {cause}"


def _iterate_texts(error: BaseException) -> Iterator[str]:
    for each in iterate_causes(error):
        yield str(each)
        java = getattr(each, "java_exception", None) or getattr(each, "_origin", None)
        yield _find_cause(java)


def _cut_to_line(text: object) -> str:
    return str(text).strip().partition("\n")[0]


def _find_cause(java: Any) -> str:
    """Return the message of the innermost cause that has one, or an empty text."""
    message = ""
    for _ in range(_MAX_DEPTH):
        java = java and java.getCause()
        message = (java and java.getMessage()) or message
    return message


def _find_objection(rows: DataFrame, text: str) -> str | None:
    return find_objection(lambda: rows.select(F.expr(text)), rows.columns)


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
    warning = describe_all_malformed(report, pipeline.source)
    return replace(report, warnings=(*report.warnings, *filter(None, [warning])))


def _run(
    frame: DataFrame,
    pipeline: Pipeline,
    on_batch: Callable[[WriteReport, int], object],
) -> WriteReport:
    arguments = {**_sink_arguments(pipeline), **_plan_arguments(pipeline)}
    if pipeline.stream is None:
        return write(frame, **arguments)
    reports: list[WriteReport] = []
    #: What the batch that failed has written.
    notes: list[str] = []
    settings = _make_settings(pipeline)

    def note(report: WriteReport, batch_id: int) -> None:
        reports.append(report)
        on_batch(report, batch_id)

    write_batch = foreach_batch(
        on_report=note, checkpoint=pipeline.stream.checkpoint, **arguments
    )

    def write_and_note(batch: DataFrame, batch_id: int) -> None:
        try:
            write_batch(batch, batch_id)
        except Exception as error:
            notes[:] = getattr(error_from(error) or error, "__notes__", ())
            raise

    try:
        _wait(_start(frame, write_and_note, pipeline.stream))
    except KeyboardInterrupt as interrupt:
        finished = total(settings.topic, settings.dead_letter_topic, reports)
        interrupt.add_note(f"of finished micro-batches: {finished}")
        if notes:
            interrupt.add_note(f"of the unfinished one: {'; '.join(notes)}")
        raise
    except OF_SPARK as error:
        # Notes do not come through Spark; those of kafkaguard's errors are in its text.
        if notes and error_from(error) is None:
            error.add_note("; ".join(notes))
        raise
    return total(settings.topic, settings.dead_letter_topic, reports)


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


def _plan_arguments(pipeline: Pipeline) -> dict[str, Any]:
    # A malformed line must fail the job before anything is sent: before a shuffle.
    needs_shuffle = (
        decide_on_malformed(pipeline) == "raise"
        and ways_of_rejecting(read_policy(pipeline.policy)) != {"raise"}
        and not pipeline.order_by
    )
    return {
        "partitions": pipeline.sink.partitions or (FEWEST if needs_shuffle else None),
        "order_by": [f"{_ORDER}{n}" for n in range(len(pipeline.order_by))],
        "exactly_once": pipeline.sink.exactly_once,
    }


def _sink_arguments(pipeline: Pipeline) -> dict[str, Any]:
    sink = pipeline.sink
    return {
        "topic": sink.topic,
        "bootstrap_servers": sink.bootstrap_servers,
        "policy": pipeline.policy,
        "compacted": sink.compacted,
        "max_record_bytes": sink.max_record_bytes,
        "config": sink.config,
    }


def _make_settings(pipeline: Pipeline) -> SinkSettings:
    return make_settings(**_sink_arguments(pipeline))
