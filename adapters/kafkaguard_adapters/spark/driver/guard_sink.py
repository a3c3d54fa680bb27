"""``guard_sink``: the checks as Spark expressions, for Spark's own Kafka sink."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from kafkaguard._delivery.dead_letters import (
    CUT_BYTES,
    NAMELESS,
    VALUE_BYTES,
    Reason,
    refusal_facts,
)
from kafkaguard._delivery.dialects import LetterFacts, write_headers
from kafkaguard_adapters.policy_uses import GUARD_SINK
from kafkaguard_adapters.spark.columns import check_types
from kafkaguard_adapters.spark.driver.plan import fail
from kafkaguard_adapters.spark.driver.refused_columns import (
    find_refused_columns,
    get_reason,
    is_nameless,
    select_strongest,
)
from kafkaguard_adapters.spark.executor.size_limits import SizeLimit
from kafkaguard_adapters.spark.once.rules import SETTING
from kafkaguard_adapters.spark.policy import on_reject, read_policy
from kafkaguard_adapters.spark.setting_errors import setting_error
from kafkaguard_adapters.spark.settings import (
    check_number,
    check_topics,
    check_type,
    dead_letter_topic_of,
)
from kafkaguard_adapters.spark.verdicts import record_error

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import Column

    from kafkaguard._delivery.dialects import Dialect
    from kafkaguard._delivery.facts import Header
    from kafkaguard._retries.machine import OnReject
    from kafkaguard_adapters.spark.driver.refused_columns import Refused
    from kafkaguard_policies.retry_policy import RetryPolicy

_HEADERS = "array<struct<key:string,value:binary>>"
#: Computed once for each row, not in each column that depends on it.
_REASON = "_kafkaguard_reason"


def guard_sink(
    df: DataFrame,
    topic: str,
    *,
    policy: RetryPolicy | Mapping[str, Any] | str | Path | None = None,
    compacted: bool = True,
    max_record_bytes: int | None = None,
    partitions: int = 4,
    exactly_once: None = None,
) -> DataFrame:
    """Prepare a DataFrame for Spark's own sink: ``.write.format("kafka")``.

    It uses Spark expressions only: it asks no broker and runs no Python for rows, so it
    works wherever Spark runs, in batches and in streams. An error that only the broker
    detects still fails the job; :func:`kafkaguard.spark.write` handles it.

    Do not set the sink's option ``topic``: it would override the column.

    Args:
        df: Columns ``key`` and ``value``, and optionally ``headers`` and ``partition``.
        topic: The topic.
        policy: What happens to a refused record: it goes to the dead-letter topic, is
            dropped, or fails the job. A value that is too large is cut to its first
            1,024 bytes, because the dead-letter topic's limit is unknown. Spark's own
            sink decides about retries. Default: it fails the job.
        compacted: Whether the topic is compacted, so that every record needs a key.
        max_record_bytes: The largest record (key, value and headers) in bytes. Default:
            not checked.
        partitions: The number of writing tasks; all records of a key are in one.
        exactly_once: Refused: Spark's own sink cannot write exactly once.

    Returns:
        Columns ``topic``, ``key``, ``value`` and ``headers``; and ``partition`` if the
        DataFrame has it, which is null for a dead letter. Filter and join before
        this call: a record that you drop later still fails the job.

    Raises:
        ClientConfigurationError: A column is missing, duplicated, of another type or
            written in another case; the DataFrame has a column topic; or an argument is
            not valid.
    """
    check_type("df", df, DataFrame, "a DataFrame of Spark")
    check_type("topic", topic, str, "the name of a topic")
    _refuse_once(exactly_once)
    rules = read_policy(policy, GUARD_SINK, "guard_sink")
    letters = dead_letter_topic_of(rules, topic)
    check_topics(topic, letters)
    check_number("max_record_bytes", max_record_bytes, "a number of bytes")
    check_number("partitions", partitions, "a number of tasks")
    columns = check_types(df.schema)
    if "topic" in columns:
        raise setting_error(
            "guard_sink has the topic as argument: drop the column topic"
        )
    if "timestamp" in columns:
        raise setting_error(
            "Spark's own sink cannot set a record's timestamp: drop the column "
            "timestamp, or use kafkaguard.spark.write"
        )
    limits = []
    if max_record_bytes is not None:
        limits.append(SizeLimit(max_record_bytes, "max_record_bytes", "record"))
    needs_key = compacted and rules.null_key == "reject"
    refused = find_refused_columns(df.columns, compacted=needs_key, limits=limits)
    fates = _group_by_fate(refused, rules, topic)
    fatal, dropped, lettered = (fates[f] for f in ("raise", "drop", "dead_letter"))
    plan = _plan_record(df, topic)
    if fatal:
        plan["value"] = fail(plan["value"], select_strongest(refused, fatal), topic)
    if dropped or lettered:
        df = df.withColumn(_REASON, get_reason(refused))
    if dropped:
        df = df.where(~_is_one_of(dropped, refused))
    if lettered:
        assert letters is not None
        dialect = rules.dead_letter.headers
        letter = _plan_letter(plan, df.columns, topic, letters, lettered, dialect)
        is_letter = _is_one_of(lettered, refused)
        for name, column in letter.items():
            plan[name] = F.when(is_letter, column).otherwise(plan[name])
    guarded = df.select(*[column.alias(name) for name, column in plan.items()])
    if fatal:
        guarded = guarded.repartition(partitions, F.xxhash64("key"))
    return guarded


def _refuse_once(exactly_once: object) -> None:
    if exactly_once is not None:
        raise setting_error(
            "Spark's own sink has no transactions, so it cannot write exactly once: "
            "use kafkaguard.spark.write or foreach_batch",
            setting=SETTING,
        )


def _group_by_fate(
    refused: Iterable[Refused], rules: RetryPolicy, topic: str
) -> dict[OnReject, list[Refused]]:
    """Group refusals by what the policy does with such records."""
    fates: dict[OnReject, list[Refused]] = {"raise": [], "dead_letter": [], "drop": []}
    for each in refused:
        fates[on_reject(rules, record_error(each.reason, topic))].append(each)
    return fates


def _plan_record(df: DataFrame, topic: str) -> dict[str, Column]:
    """Return the columns of a record that is not refused."""
    usual = {
        "topic": F.lit(topic),
        "key": F.lit(None).cast("binary"),
        "value": F.col("value").cast("binary"),
        "headers": F.lit(None).cast(_HEADERS),
    }
    own = [name for name in ("key", "headers", "partition") if name in df.columns]
    return usual | {name: F.col(name) for name in own}


def _is_one_of(some: Sequence[Refused], refused: Sequence[Refused]) -> Column:
    """Return a column: is a record refused for one of some reasons?"""
    if len(some) == len(refused):
        return F.col(_REASON).isNotNull()
    is_listed = F.col(_REASON).isin(*_list_reasons(some))
    return F.coalesce(is_listed, F.lit(False))


def _list_reasons(refused: Iterable[Refused]) -> list[str]:
    return list(dict.fromkeys(str(each.reason) for each in refused))


def _plan_letter(
    plan: Mapping[str, Column],
    columns: Collection[str],
    topic: str,
    letters: str,
    refused: Iterable[Refused],
    dialect: Dialect,
) -> dict[str, Column]:
    """Return the columns of a dead letter; those that differ from the record's.

    Each call of a Spark function asks the JVM several times, so there are few.
    """
    reasons = _list_reasons(refused)
    letter = {"topic": F.lit(letters)}
    parts = [_explain(topic, reasons, dialect)]
    if "headers" in columns:
        own = F.transform(plan["headers"], _name)
        parts.insert(0, F.coalesce(own, F.array().cast(_HEADERS)))
    if Reason.TOO_LARGE in reasons:
        is_large = F.col(_REASON) == str(Reason.TOO_LARGE)
        cut = F.substring(plan["value"], 1, CUT_BYTES)
        letter["value"] = F.when(is_large, cut).otherwise(plan["value"])
        size = _header(VALUE_BYTES, F.octet_length(plan["value"]))
        parts.append(_make_optional(is_large, size))
    if "partition" in columns:
        letter["partition"] = F.lit(None).cast("int")
        header = _partition_header(plan["partition"], dialect)
        parts.append(_make_optional(plan["partition"] >= 0, header))
    letter["headers"] = F.concat(*parts) if len(parts) > 1 else parts[0]
    return letter


def _explain(topic: str, reasons: Sequence[str], dialect: Dialect) -> Column:
    """Return the headers with the reason of a refusal."""
    own_headers = [
        _make_constant(
            write_headers(
                refusal_facts(record_error(Reason(reason), topic), reason=reason),
                dialect,
            )
        )
        for reason in reasons
    ]
    why = own_headers[0]
    for reason, headers in zip(reasons[1:], own_headers[1:], strict=True):
        why = F.when(F.col(_REASON) == reason, headers).otherwise(why)
    return why


def _make_constant(headers: Iterable[Header]) -> Column:
    """Return an array of headers that are the same for all records."""
    structs = [
        f"named_struct('key', cast({_hex(name.encode())} as string), "
        f"'value', {'cast(null as binary)' if value is None else _hex(value)})"
        for name, value in headers
    ]
    return F.expr(f"array({', '.join(structs)})")


def _hex(text: bytes) -> str:
    return f"X'{text.hex()}'"


def _partition_header(partition: Column, dialect: Dialect) -> Column:
    """Return the header with the requested partition of a record."""
    without, with_zero = (
        set(write_headers(LetterFacts(partition=number), dialect))
        for number in (None, 0)
    )
    ((name, zero),) = with_zero - without
    if zero == b"0":
        return _header(name, partition)
    whole = F.unhex(F.lpad(F.hex(partition), 2 * len(zero or b""), "0"))
    return F.struct(F.lit(name).alias("key"), whole.alias("value"))


def _make_optional(condition: Column, header: Column) -> Column:
    """Return an array with the header, or an empty one."""
    return F.when(condition, F.array(header)).otherwise(F.array().cast(_HEADERS))


def _name(header: Column, place: Column) -> Column:
    """Name a header without a name by its position."""
    name = F.concat(F.lit(NAMELESS), place.cast("string"))
    named = F.struct(name.alias("key"), header["value"].alias("value"))
    return F.when(is_nameless(header), named).otherwise(header)


def _header(name: str, value: Column) -> Column:
    text = value.cast("string").cast("binary")
    return F.struct(F.lit(name).alias("key"), text.alias("value"))
