"""Running a pipeline: from its source through its expressions into its topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from kafkaguard_adapters.spark._columns import check_columns
from kafkaguard_adapters.spark._counts import total
from kafkaguard_adapters.spark._foreach_batch import foreach_batch
from kafkaguard_adapters.spark._frame import objection
from kafkaguard_adapters.spark._settings import make_settings
from kafkaguard_adapters.spark._topics import look_up
from kafkaguard_adapters.spark._write import write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from kafkaguard_adapters.spark._counts import WriteReport
    from kafkaguard_adapters.spark._pipeline_model import Pipeline, Select, Stream
    from kafkaguard_adapters.spark._settings import SinkSettings

    Place = tuple[str | int, ...]

_ORDER = "_order_"
_GLANCE_S = 1


class ExpressionError(ValueError):
    """An expression of a pipeline does not fit its source.

    Attributes:
        place: Where it stands in the file, as ``("select", "key")``.
        message: The expression, and what is wrong with it.
    """

    def __init__(self, place: Place, message: str) -> None:
        self.place = place
        self.message = message
        super().__init__(place, message)


def check_target(pipeline: Pipeline) -> None:
    """Check settings and topics; needs no Spark.

    Raises:
        KafkaGuardError: A setting cannot be meant, a topic is missing, or nobody
            answers within 8 s.
    """
    look_up(_settings(pipeline))


def plan(spark: SparkSession, pipeline: Pipeline) -> DataFrame:
    """Build the frame that is written; nothing runs yet.

    Raises:
        ExpressionError: An expression does not fit the source.
        KafkaGuardError: A column of the result is of a type that Kafka does not take.
        PySparkException: The source cannot be read.
    """
    rows = _rows(spark, pipeline)
    for path, text in _expressions(pipeline):
        _check(rows, path, text)
    order = [
        F.expr(each).alias(f"{_ORDER}{n}") for n, each in enumerate(pipeline.order_by)
    ]
    frame = rows.select(*_columns(pipeline.select), *order)
    check_columns(frame.schema, _settings(pipeline))
    return frame


def _rows(spark: SparkSession, pipeline: Pipeline) -> DataFrame:
    source = pipeline.source
    reader: Any = spark.readStream if pipeline.stream else spark.read
    reader = reader.format(source.format).options(**source.options)
    if source.columns is not None:
        reader = reader.schema(source.columns)
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
        raise ExpressionError(place, f"{text!r}: {why}")


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
