"""``kafkaguard.spark.write``: write a DataFrame to Kafka and return a report."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from kafkaguard._common.logs import Log
from kafkaguard_adapters.spark.columns import check_columns
from kafkaguard_adapters.spark.driver.counting import Growth, make_report, warn_once
from kafkaguard_adapters.spark.driver.frame import (
    check_frame,
    check_order,
    describe_random_rows,
)
from kafkaguard_adapters.spark.driver.job import collect
from kafkaguard_adapters.spark.driver.once import check_batch, read_once, write_once
from kafkaguard_adapters.spark.driver.plan import plan_write
from kafkaguard_adapters.spark.executor.task import COUNTS_SCHEMA, CountingTask
from kafkaguard_adapters.spark.report import TaskCounts, add_up, describe_collapsed
from kafkaguard_adapters.spark.settings import check_number, make_settings
from kafkaguard_adapters.spark.topics import look_up

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import Column, DataFrame

    from kafkaguard_adapters.spark.report import WriteReport
    from kafkaguard_adapters.spark.settings import SinkSettings
    from kafkaguard_adapters.spark.topics import SinkTopic
    from kafkaguard_policies.retry_policy import RetryPolicy

_log = Log("spark")


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
    exactly_once: str | Mapping[str, Any] | None = None,
    batch: int | None = None,
) -> WriteReport:
    """Write a DataFrame to Kafka; each record has its own outcome.

    The write is one Spark action and caches nothing. It works in classic Spark and in
    Connect. With ``order_by``, ``partitions`` or a policy that fails the job at a
    refused record, the DataFrame is shuffled by key: one task writes all records of a
    key, in the order of ``order_by``. If the policy fails the job, every record is
    checked before that shuffle, so nothing was sent if a check fails. Otherwise each
    task of the DataFrame writes its own records, in their order.

    A task that Spark runs again writes its records again (at-least-once). The report's
    ``maybe_twice`` is the largest possible number of such duplicates. With
    ``exactly_once``, ``read_committed`` readers see each row once (see
    docs/exactly_once.md).

    Args:
        df: Columns ``key`` and ``value`` (string or binary), and optionally ``topic``
            (string), ``headers`` (array of structs of key and value), ``partition``
            (int) and ``timestamp`` (the record's time; null: the time of sending).
            Other columns can be used by ``order_by`` and are not written.
        topic: The topic of all records. Default: the column ``topic`` names it.
        bootstrap_servers: The brokers' addresses.
        policy: The retry policy: a preset (``"spark-sink"``), a file, a mapping or a
            :class:`RetryPolicy`. It decides about retries, about records that can never
            be accepted (no key on a compacted topic, too large, no topic, refused by
            the broker), and about records that may have been written. The dead-letter
            topic must exist. Default: such records fail the job, and only Kafka's
            client and Spark retry.
        compacted: Whether the topic is compacted; for users who may not read the
            topic's settings. Default: looked up.
        max_record_bytes: The largest record (key, value and headers) in bytes.
            Default: the topic's ``max.message.bytes``.
        partitions: The number of writing tasks. Default: that of the DataFrame; after a
            shuffle the number of the topic's partitions, at least 4 and at most 64.
        order_by: A column, or columns, by which the records of a key are ordered.
            Default: not ordered.
        config: Settings of Kafka's client by Java's or librdkafka's names, with or
            without the prefix ``kafka.``: ``{"compression.type": "lz4"}`` and
            ``{"kafka.compression.type": "lz4"}`` are the same.
        exactly_once: The name of this write, and of no other: each row is written in
            one transaction, also if tasks, the driver or the whole job are repeated.
            Or a mapping with ``name``; ``marker_topic``, a topic that exists, whose
            partitions number the offsets that say what is written (default:
            ``topic``); and ``retention``, for how many seconds brokers keep offsets
            (default: looked up). ``partitions`` is then the number of transactions,
            and that of the first write under a name counts. Default: at-least-once.
        batch: With ``exactly_once``: the number of the batch under this name; needed
            inside ``foreachBatch``. Default: the only one.

    Returns:
        The report: the outcomes of the records.

    Raises:
        KafkaGuardError: A setting is not valid, a topic is missing, no broker answers
            within 8 s, or a record failed the job. If brokers go away, the job fails
            within twice ``delivery.timeout.ms`` plus about 20 s (see docs/spark.md).
    """
    check_frame(df)
    check_number("partitions", partitions, "a number of tasks")
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
    once = read_once(exactly_once, topic)
    check_batch(once, batch)
    topics = look_up(settings)
    if once is not None:
        return write_once(
            df, settings, topics, once, batch, partitions=partitions, order_by=order
        )
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
    """Write a DataFrame whose settings and topics were checked.

    Args:
        df: The DataFrame.
        settings: The settings of the write.
        topics: Facts about the topics.
        growth: The topics' end offsets before the write.
        partitions: The number of writing tasks.
        order_by: The order of the records of a key.

    Raises:
        KafkaGuardError: A record failed the job, or brokers went away.
    """
    columns = check_columns(df.schema, settings)
    plan = plan_write(
        df, settings, topics, columns, partitions=partitions, order_by=order_by
    )
    random = describe_random_rows(df, plan)
    if random is not None:
        warn = partial(_log.warning, "rows_not_repeatable", "%s", topic=settings.topic)
        warn_once((settings.topic, random), random, warn)
    rows = collect(
        plan,
        CountingTask(settings, topics),
        COUNTS_SCHEMA,
        lambda: f"{_describe_appended(growth, settings)} while the job ran",
    )
    counts = add_up(TaskCounts.from_json(row.counts) for row in rows)
    if warning := describe_collapsed(counts.collapsed_keys):
        warn = partial(_log.warning, "keys_collapsed", "%s", topic=settings.topic)
        warn_once(settings.topic, warning, warn)
    report = make_report(settings, counts, growth)
    return replace(report, warnings=(*report.warnings, random)) if random else report


def _describe_appended(growth: Growth, settings: SinkSettings) -> str:
    if settings.topic is None:
        return "an unknown number of records were appended to the topics of the column"
    names = " and ".join(growth.topics)
    appended = growth.count_appended(settings)
    number = "an unknown number of" if appended is None else f"{appended:,}"
    return f"{number} records were appended to {names}"
