"""The data source ``kafkaguard``: ``df.write.format("kafkaguard")`` and streams.

Spark builds a writer in a planning process, runs copies of it in the executors, and
passes their results to ``commit`` in a process next to the driver's JVM. So the counts
can be returned only through a file. The option ``report`` names the file, and it is
opened before the job starts. If ``commit`` then cannot write the file, the records are
already in the topics. An error would make duplicates: a batch would be run again, and a
stream would repeat its micro-batch at each start for ever. So ``commit`` writes the
counts into a warning instead.

Spark imports this module again in each of these processes, one after the other, and the
job waits for the import. So each function imports what it needs.
"""

from __future__ import annotations

import json
import warnings
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import datasource
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamWriter,
    WriterCommitMessage,
)

from kafkaguard._errors import KafkaGuardError
from kafkaguard_adapters.spark.marker import task_failed
from kafkaguard_adapters.spark.report import TaskCounts, add_up, describe_collapsed
from kafkaguard_adapters.spark.setting_errors import setting_error

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from kafkaguard_adapters.spark.driver.counting import Growth
    from kafkaguard_adapters.spark.settings import SinkSettings
    from kafkaguard_adapters.spark.topics import SinkTopic

    StreamArrowWriter = datasource.DataSourceStreamArrowWriter
else:
    #: PySpark 4.0 does not have this class.
    StreamArrowWriter = getattr(
        datasource, "DataSourceStreamArrowWriter", DataSourceStreamWriter
    )


_NO_CHECKPOINT = (
    "the query's checkpoint is not known here, so how many records are new is unknown: "
    "set checkpointLocation as an option of the query"
)
#: Spark itself adds it to the options of a stream.
_CHECKPOINT = "checkpointLocation"


class KafkaGuardSource(DataSource):
    """The data source ``kafkaguard``, for batches and streams.

    Spark wraps its exceptions in an ``AnalysisException`` with a traceback;
    :func:`kafkaguard.spark.error_from` returns the original error.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format(...)``."""
        return "kafkaguard"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Check options, columns and topics; return the writer of a batch."""
        with _encode_errors():
            if overwrite:
                raise setting_error('Kafka cannot be overwritten: use mode("append")')
            from kafkaguard_adapters.spark.topics import look_up

            settings = _read_options(self.options, schema)
            return BatchWriter(settings, look_up(settings))

    def streamWriter(  # noqa: N802 - Spark's name
        self, schema: StructType, overwrite: bool
    ) -> StreamArrowWriter:
        """Check options and columns; return the writer of a micro-batch."""
        with _encode_errors():
            if StreamArrowWriter is DataSourceStreamWriter:
                raise setting_error(
                    "streams of this data source need PySpark 4.1 or newer: use "
                    "foreachBatch(kafkaguard.spark.foreach_batch(...))"
                )
            if overwrite:
                raise setting_error(
                    'Kafka cannot be overwritten: use outputMode("append")'
                )
            settings = _read_options(self.options, schema)
            return StreamWriter(settings.of_stream(), self.options.get(_CHECKPOINT))


@dataclass
class TaskMessage(WriterCommitMessage):
    """The message of a task to ``commit``.

    Attributes:
        counts: The outcomes of its records.
        growth: The topics' end offsets before the micro-batch; ``commit`` runs in
            another writer.
    """

    counts: TaskCounts
    growth: Growth | None = None


class BatchWriter(DataSourceArrowWriter):
    """Writes one batch.

    Args:
        settings: The settings of the write.
        topics: Facts about the topics.
    """

    def __init__(self, settings: SinkSettings, topics: dict[str, SinkTopic]) -> None:
        self._settings = settings
        self._topics = topics
        self._growth = None if settings.report is None else _begin_growth(settings)

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Send a partition."""
        from kafkaguard_adapters.spark.executor.task import run_task

        return TaskMessage(run_task(iterator, self._settings, self._topics))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Write the report."""
        _report(self._settings, messages, {}, self._growth)


class StreamWriter(StreamArrowWriter):
    """Writes one micro-batch; Spark makes one for each batch and one for each commit.

    Only the writer of the batch is pickled for the tasks. So the brokers are asked
    while it is pickled, and a commit cannot fail because of a broker.

    Args:
        settings: The settings of the write.
        checkpoint: The stream's checkpoint, if an option names it.
    """

    def __init__(self, settings: SinkSettings, checkpoint: str | None = None) -> None:
        self._settings = settings
        self._checkpoint = checkpoint
        self._topics: dict[str, SinkTopic] | None = None
        self._growth: Growth | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Ask the brokers once, before the writer is sent to the tasks."""
        if self._topics is None:
            from kafkaguard_adapters.spark.driver.batch_notes import check_trigger
            from kafkaguard_adapters.spark.topics import KEEP_S, look_up

            with _encode_errors():
                if self._checkpoint is not None:
                    check_trigger(self._checkpoint)
                self._topics = look_up(self._settings, KEEP_S)
            if self._settings.report is not None:
                self._growth = self._plan_growth()
        return vars(self)

    def _plan_growth(self) -> Growth:
        """Return the end offsets from before this micro-batch was first planned."""
        from kafkaguard_adapters.spark.driver.batch_notes import Notes

        growth = _begin_growth(self._settings)
        if self._checkpoint is None:
            return replace(growth, before=None, remark=_NO_CHECKPOINT)
        return replace(growth, before=Notes(self._checkpoint).plan(growth.before))

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Send a partition."""
        from kafkaguard_adapters.spark.executor.task import run_task

        counts = run_task(iterator, self._settings, self._topics or {})
        return TaskMessage(counts, self._growth)

    def commit(
        self,
        messages: Sequence[WriterCommitMessage | None],
        batchId: int,  # noqa: N803 - Spark's name
    ) -> None:
        """Write the report.

        Under a continuous trigger Spark has called no :meth:`write`, so its tasks have
        no messages. A task of a micro-batch has one, also without records.
        """
        tasks = [each for each in messages if isinstance(each, TaskMessage)]
        if len(tasks) < len(messages):
            from kafkaguard_adapters.spark.driver.batch_notes import NO_CONTINUOUS

            with _encode_errors():
                raise setting_error(NO_CONTINUOUS)
        growth = next((each.growth for each in tasks), None)
        if growth is not None and self._checkpoint is not None:
            from kafkaguard_adapters.spark.driver.batch_notes import Notes

            before, remark = Notes(self._checkpoint).begin(batchId)
            growth = replace(growth, before=before, remark=remark)
        _report(self._settings, messages, {"batch_id": batchId}, growth)


@contextmanager
def _encode_errors() -> Iterator[None]:
    """Encode an error so that the driver finds it in Spark's text."""
    try:
        yield
    except KafkaGuardError as error:
        raise task_failed(error) from None


def _begin_growth(settings: SinkSettings) -> Growth:
    from kafkaguard_adapters.spark.driver.counting import Growth

    return Growth.begin(settings)


def _read_options(options: Mapping[str, str], schema: StructType) -> SinkSettings:
    from kafkaguard_adapters.spark.columns import check_columns
    from kafkaguard_adapters.spark.driver.options import from_options

    settings = from_options(options)
    check_columns(schema, settings)
    if settings.report is not None:
        _check_report(settings.report)
    return settings


def _check_report(report: str) -> None:
    """Check that the report file can be written, as ``commit`` will do later."""
    try:
        Path(report).open("a").close()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise setting_error(
            f"report: the file {report!r} cannot be written to: {why}; name a file on "
            "the machine of the driver's JVM, in a folder that exists"
        ) from None


def _report(
    settings: SinkSettings,
    messages: Sequence[WriterCommitMessage | None],
    extra: dict[str, Any],
    growth: Growth | None,
) -> None:
    counts = add_up(m.counts for m in messages if isinstance(m, TaskMessage))
    from kafkaguard_adapters.spark.driver.counting import make_report, warn_once

    if warning := describe_collapsed(counts.collapsed_keys):
        warn_once(settings.topic, warning, _warn)
    if settings.report is None:
        return
    report = make_report(settings, counts, growth)
    line = json.dumps(extra | report.to_dict())
    try:
        with Path(settings.report).open("a") as file:
            file.write(line + "\n")
    except OSError as error:
        why = f"{settings.report} cannot be written to ({error.strerror})"
        _warn(f"the records are written, but the report {why}: {line}")


def _warn(text: str) -> None:
    """Write a warning to Spark's log, despite the process's warning filters."""
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn(text, stacklevel=2)


def register(spark: SparkSession) -> None:
    """Make the sink known to a session: ``df.write.format("kafkaguard")``.

    Spark wraps the sink's errors, and puts a Python traceback before them. To read one:

    >>> try:  # doctest: +SKIP
    ...     df.write.format("kafkaguard").mode("append").option("topc", "t").save()
    ... except Exception as exception:
    ...     print(error_from(exception))
    CLIENT_CONFIGURATION ...: there is no option topc; did you mean 'topic'? ...

    ``spark.sql.execution.pyspark.udf.hideTraceback.enabled`` leaves the traceback out.

    Args:
        spark: A session, classic or Connect. Its executors need kafkaguard installed.
    """
    spark.dataSource.register(KafkaGuardSource)
