"""``kafkaguard.spark.write``: write a DataFrame to Kafka and return a report."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from kafkaguard_adapters.spark.driver.columns import check_columns
from kafkaguard_adapters.spark.driver.counting import Growth, make_report, tell_once
from kafkaguard_adapters.spark.driver.frame import (
    check_frame,
    check_order,
    check_partitions,
)
from kafkaguard_adapters.spark.driver.plan import under_write
from kafkaguard_adapters.spark.driver.topics import look_up
from kafkaguard_adapters.spark.executor.task import COUNTS_SCHEMA, CountingTask
from kafkaguard_adapters.spark.marker import error_from
from kafkaguard_adapters.spark.report import TaskCounts, add_up, collapsed_said
from kafkaguard_adapters.spark.settings import make_settings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import Column, DataFrame

    from kafkaguard_adapters.spark.driver.sink_topic import SinkTopic
    from kafkaguard_adapters.spark.report import WriteReport
    from kafkaguard_adapters.spark.settings import SinkSettings
    from kafkaguard_policies import RetryPolicy

_log = logging.getLogger("kafkaguard.spark")


def write(  # noqa: PLR0913 - one for each setting
    df: DataFrame,
    topic: str | None = None,
    *,
    bootstrap_servers: str,
    policy: RetryPolicy | Mapping[str, Any] | str | Path | None = None,
    compacted: bool | None = None,
    max_record_bytes: int | None = None,
    partitions: int | None = None,
    order_by: str | Column | Sequence[str | Column] = (),
    config: Mapping[str, str] | None = None,
) -> WriteReport:
    """Write a frame to Kafka, each record with an outcome of its own.

    One Spark action, nothing cached; works in classic Spark and in Connect. With
    ``order_by``, ``partitions`` or a policy that raises a refused record the frame is
    shuffled by key: all records of a key are written by one task, in the order of
    ``order_by``. Where the policy raises, every record is checked below that shuffle:
    if one fails, nothing has been sent. Else each task of the frame writes its own
    records, in their order.

    A task that Spark runs again writes its records again (at least once); the report's
    ``maybe_twice`` says how many that can be.

    Args:
        df: Columns ``key`` and ``value`` (string or binary), and where wanted
            ``topic`` (string), ``headers`` (array of structs of key and value),
            ``partition`` (int) and ``timestamp`` (the record's time; null: the time of
            sending). Others may be used by ``order_by`` and are not written.
        topic: Where the records go. Default: as the column ``topic`` says.
        bootstrap_servers: The brokers' addresses.
        policy: What happens to a record that can never be accepted (no key on a
            compacted topic, too large, no topic, refused by the broker) or that may or
            may not have been written, and how hard to try: a preset
            (``"spark-sink"``), a file, a mapping or a :class:`RetryPolicy`. The
            dead-letter topic must be there. Default: either fails the job, and nothing
            is sent again but what Kafka's client and Spark try by themselves.
        compacted: Declares whether the topic is, for clients that may not read its
            settings. Default: look it up.
        max_record_bytes: The largest record, key, value and headers together.
            Default: as the topic's ``max.message.bytes`` says.
        partitions: How many tasks write. Default: as many as the frame has; after a
            shuffle as many as the topic has partitions, at least 4 and at most 64.
        order_by: A column, or columns, by which the records of a key are ordered.
            Default: not ordered.
        config: Settings of Kafka's client by Java's names or librdkafka's, with or
            without ``kafka.`` before them: ``{"compression.type": "lz4"}`` and
            ``{"kafka.compression.type": "lz4"}`` are the same.

    Returns:
        What became of the records.

    Raises:
        KafkaGuardError: A setting cannot be meant, a topic is missing, no broker
            answers within 8 s, or a record failed the job. Brokers that go away fail it
            within twice ``delivery.timeout.ms`` and some 20 s (see docs/spark.md).
    """
    check_frame(df)
    check_partitions(partitions)
    settings = make_settings(
        bootstrap_servers,
        topic=topic,
        policy=policy,
        compacted=compacted,
        max_record_bytes=max_record_bytes,
        config=config,
    )
    check_columns(df.schema, settings)
    order = check_order(df, order_by)
    topics = look_up(settings)
    growth = Growth.begin(settings)
    return write_frame(
        df, settings, topics, growth, partitions=partitions, order_by=order
    )


def write_frame(
    df: DataFrame,
    settings: SinkSettings,
    topics: dict[str, SinkTopic],
    growth: Growth,
    *,
    partitions: int | None = None,
    order_by: Sequence[str | Column] = (),
) -> WriteReport:
    """Write a frame, once all has been checked that can be.

    Args:
        df: The frame.
        settings: How to write.
        topics: What is known of the topics.
        growth: From when on what is appended counts.
        partitions: How many tasks write.
        order_by: By what the records of a key are ordered.

    Raises:
        KafkaGuardError: A record failed the job, or brokers went away.
    """
    columns = check_columns(df.schema, settings)
    plan = under_write(
        df, settings, topics, columns, partitions=partitions, order_by=order_by
    )
    try:
        rows = plan.mapInArrow(CountingTask(settings, topics), COUNTS_SCHEMA).collect()
    except Exception as error:
        told = error_from(error)
        if told is None:
            raise
        if not hasattr(told, "__notes__"):
            told.add_note(f"{_landed(growth, settings)} while the job ran")
        raise told from error
    counts = add_up(TaskCounts.from_json(row.counts) for row in rows)
    if said := collapsed_said(counts.collapsed_keys):
        tell_once(settings.topic, said, _log.warning)
    return make_report(settings, counts, growth)


def _landed(growth: Growth, settings: SinkSettings) -> str:
    if settings.topic is None:
        return "an unknown number of records were appended to the topics of the column"
    names = " and ".join(growth.topics)
    appended = growth.appended(settings)
    number = "an unknown number of" if appended is None else f"{appended:,}"
    return f"{number} records were appended to {names}"
