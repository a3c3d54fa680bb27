"""Running a pipeline: from its source through its expressions into its topics."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from kafkaguard.errors import KafkaGuardError
from kafkaguard_adapters.spark.driver.columns import check_columns
from kafkaguard_adapters.spark.driver.foreach_batch import foreach_batch
from kafkaguard_adapters.spark.driver.frame import objection
from kafkaguard_adapters.spark.driver.topics import look_up
from kafkaguard_adapters.spark.driver.write import write
from kafkaguard_adapters.spark.pipeline.places import MistakeError, place_of
from kafkaguard_adapters.spark.report import total
from kafkaguard_adapters.spark.settings import make_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from kafkaguard_adapters.spark.pipeline.model import Pipeline, Select, Stream
    from kafkaguard_adapters.spark.pipeline.places import Place
    from kafkaguard_adapters.spark.report import WriteReport
    from kafkaguard_adapters.spark.settings import SinkSettings

#: What PySpark does not translate comes as it is from the bridge to Java.
OF_SPARK = (PySparkException, Py4JJavaError)
_ORDER = "_order_"
_GLANCE_S = 1


def check_target(pipeline: Pipeline) -> None:
    """Check settings and topics; needs no Spark.

    Raises:
        MistakeError: A setting cannot be meant, a topic is missing, or nobody answers
            within 8 s.
        KafkaGuardError: The brokers refuse the client.
    """
    with _placed(pipeline):
        look_up(_settings(pipeline))


def plan(spark: SparkSession, pipeline: Pipeline) -> DataFrame:
    """Build the frame that is written; nothing runs yet.

    Raises:
        MistakeError: The source cannot be read, an expression does not fit it, or a
            column of the result is of a type that Kafka does not take.
    """
    rows = _rows(spark, pipeline)
    for path, text in _expressions(pipeline):
        _check(rows, path, text)
    order = [
        F.expr(each).alias(f"{_ORDER}{n}") for n, each in enumerate(pipeline.order_by)
    ]
    frame = rows.select(*_columns(pipeline.select), *order)
    with _placed(pipeline):
        check_columns(frame.schema, _settings(pipeline))
    if pipeline.stream and pipeline.stream.every:
        with _blamed("stream", "every"):
            frame.writeStream.trigger(processingTime=pipeline.stream.every)
    return frame


@contextmanager
def _placed(pipeline: Pipeline) -> Iterator[None]:
    """Say of an error which key of the file is its cause."""
    try:
        yield
    except KafkaGuardError as error:
        place = place_of(error, pipeline)
        if place is None:
            raise
        raise MistakeError(place, str(error)) from error


@contextmanager
def _blamed(*place: str) -> Iterator[None]:
    """Say of what Spark raises that this key is its cause."""
    try:
        yield
    except OF_SPARK as error:
        message = f"Spark refuses the pipeline: {first_line(error)}"
        raise MistakeError(place, message) from error


def first_line(error: BaseException) -> str:
    """Return the first line of what Spark says; Java's stack comes behind it."""
    java = getattr(error, "java_exception", None)
    text = str(error if java is None else java.getMessage())
    return text.strip().splitlines()[0]


def _rows(spark: SparkSession, pipeline: Pipeline) -> DataFrame:
    source = pipeline.source
    reader: Any = spark.readStream if pipeline.stream else spark.read
    reader = reader.format(source.format).options(**source.options)
    if source.columns is not None:
        with _blamed("source", "columns"):
            reader = reader.schema(source.columns)
    with _blamed("source"):
        rows: DataFrame = reader.load(source.path) if source.path else reader.load()
    return rows


def _expressions(pipeline: Pipeline) -> Iterator[tuple[Place, str]]:
    """Go through all expressions, each with its place in the file."""
    for name, value in pipeline.select.model_dump(exclude_none=True).items():
        if isinstance(value, str):
            yield ("select", name), value
    for name, text in pipeline.select.headers.items():
        yield ("select", "headers", name), text
    for number, text in enumerate(pipeline.order_by):
        yield ("order_by", number), text


def _check(rows: DataFrame, place: Place, text: str) -> None:
    if why := objection(lambda: rows.select(F.expr(text)), rows.columns):
        raise MistakeError(place, f"{text!r}: {why}")


def run(
    frame: DataFrame,
    pipeline: Pipeline,
    on_batch: Callable[[WriteReport, int], object],
) -> WriteReport:
    """Run a pipeline to its end, or until it is interrupted.

    Args:
        frame: What :func:`plan` built.
        pipeline: The pipeline.
        on_batch: Told of each micro-batch of a stream, with its report and id.

    Returns:
        What became of all records.

    Raises:
        KafkaGuardError: A record failed the job.
    """
    arguments = _arguments(pipeline)
    if pipeline.stream is None:
        return write(frame, **arguments)
    reports: list[WriteReport] = []

    def note(report: WriteReport, batch_id: int) -> None:
        reports.append(report)
        on_batch(report, batch_id)

    function = foreach_batch(on_report=note, **arguments)
    _wait(_start(frame, function, pipeline.stream))
    return total(pipeline.sink.topic, arguments["dead_letter_topic"], reports)


def _start(frame: DataFrame, function: Any, stream: Stream) -> StreamingQuery:
    writer = frame.writeStream.foreachBatch(function)
    writer = writer.option("checkpointLocation", stream.checkpoint)
    if stream.every is None:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=stream.every).start()


def _wait(query: StreamingQuery) -> None:
    """Wait for a stream's end; Ctrl-C ends it after the batch that runs."""
    try:
        while not query.awaitTermination(_GLANCE_S):
            pass
    except KeyboardInterrupt:
        query.stop()
    finally:
        query.stop()


def _arguments(pipeline: Pipeline) -> dict[str, Any]:
    dead_letter = pipeline.dead_letter
    return {
        "topic": pipeline.sink.topic,
        "bootstrap_servers": pipeline.sink.bootstrap_servers,
        "dead_letter_topic": dead_letter.topic if dead_letter else None,
        "config": pipeline.sink.config,
        "partitions": pipeline.sink.partitions,
        "order_by": [f"{_ORDER}{n}" for n in range(len(pipeline.order_by))],
        **pipeline.guard.model_dump(),
    }


def _settings(pipeline: Pipeline) -> SinkSettings:
    arguments = _arguments(pipeline)
    for name in ("partitions", "order_by"):
        del arguments[name]
    return make_settings(arguments.pop("bootstrap_servers"), **arguments)


def _columns(select: Select) -> list[Column]:
    named = {name: getattr(select, name) for name in ("key", "value", "topic")}
    columns = [F.expr(text).alias(name) for name, text in named.items() if text]
    if select.partition:
        columns.append(F.expr(select.partition).cast("int").alias("partition"))
    if select.headers:
        pairs = [
            F.struct(F.lit(name).alias("key"), _bytes(text).alias("value"))
            for name, text in select.headers.items()
        ]
        columns.append(F.array(*pairs).alias("headers"))
    return columns


def _bytes(text: str) -> Column:
    return F.expr(text).cast("string").cast("binary")
