"""Writes exactly once: the plan of a batch, its tasks, and the report."""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from kafkaguard._common.closest import did_you_mean
from kafkaguard._errors import KafkaGuardError
from kafkaguard_adapters.spark.columns import check_columns
from kafkaguard_adapters.spark.driver.batch_notes import (
    Notes,
    age_of,
    checkpoint_of,
    execution_of,
    is_temporary,
    query_of,
)
from kafkaguard_adapters.spark.driver.counting import make_report
from kafkaguard_adapters.spark.driver.job import collect
from kafkaguard_adapters.spark.driver.plan import count_tasks, plan_write
from kafkaguard_adapters.spark.executor.once_task import (
    DIGESTS,
    SHARD_SCHEMA,
    OnceTask,
    Ticket,
)
from kafkaguard_adapters.spark.once.offsets import Home, offsets_for
from kafkaguard_adapters.spark.once.rules import (
    NO_QUERY,
    SETTING,
    SURE,
    ForeignError,
    History,
    Plan,
    RefusedError,
    missing_of,
    plan_batch,
    play,
)
from kafkaguard_adapters.spark.once.transaction import open_producer
from kafkaguard_adapters.spark.report import TaskCounts, add_up
from kafkaguard_adapters.spark.setting_errors import setting_error
from kafkaguard_adapters.spark.settings import check_type

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import Column, DataFrame

    from kafkaguard_adapters.spark.once.rules import Marker, Step
    from kafkaguard_adapters.spark.report import WriteReport
    from kafkaguard_adapters.spark.settings import SinkSettings
    from kafkaguard_adapters.spark.topics import SinkTopic

_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}")
_KEYS = ("name", "marker_topic", "retention")
#: Seconds after which brokers abort an open transaction: their own default limit.
_TIMEOUT_S = 900.0
#: The share of that time which a transaction may take without a warning.
_NEAR = 0.5
_MOST_DRIVERS = 8
#: A driver that is idle for so many seconds is made anew: coordinators forget ids.
_KEEP_S = 3600.0


@dataclass(frozen=True, slots=True)
class Once:
    """What ``exactly_once`` says.

    Attributes:
        name: The name of the write.
        marker_topic: The topic whose partitions number the markers; None: the write's.
        retention: How long brokers keep offsets, in seconds; None: looked up.
    """

    name: str
    marker_topic: str | None = None
    retention: float | None = None


def read_once(given: str | Mapping[str, Any] | None, topic: str | None) -> Once | None:
    """Read the argument ``exactly_once``.

    Raises:
        ClientConfigurationError: It is not a name, or not a mapping with a name.
    """
    if given is None:
        return None
    check_type(SETTING, given, str | Mapping, "a name, or a mapping with a name")
    options = {"name": given} if isinstance(given, str) else dict(given)
    for key in options.keys() - set(_KEYS):
        hint = did_you_mean(str(key), _KEYS)
        raise _error(f"there is no key {key!r}{hint}; there are {', '.join(_KEYS)}")
    name, retention = options.get("name"), options.get("retention")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise _error("the name has 1 to 100 letters, digits, - and _ only")
    marker_topic = options.get("marker_topic") or topic
    if not isinstance(marker_topic, str):
        raise _error("a column names the topics: name one of them as marker_topic")
    if retention is not None and not str(retention).isdecimal():
        raise _error("retention is a number of seconds (offsets.retention.minutes)")
    return Once(name, marker_topic, None if retention is None else float(retention))


def check_batch(once: Once | None, batch: int | None) -> None:
    """Check the argument ``batch``.

    Raises:
        ClientConfigurationError: It is not a number, or there is no ``exactly_once``.
    """
    check_type("batch", batch, int | None, "the number of a batch")
    if batch is not None and (once is None or batch < 0):
        text = "batch is 0 or more, and needs exactly_once"
        raise setting_error(text, setting="batch")


def _error(text: str) -> KafkaGuardError:
    return setting_error(f"exactly_once: {text}", setting=SETTING)


def write_once(
    df: DataFrame,
    settings: SinkSettings,
    topics: dict[str, SinkTopic],
    once: Once,
    batch: int | None,
    *,
    partitions: int | None = None,
    order_by: Sequence[str | Column] = (),
    checkpoint: str | None = None,
) -> WriteReport:
    """Write a DataFrame exactly once.

    Args:
        df: The DataFrame.
        settings: The settings of the write.
        topics: Facts about the topics.
        once: The name of the write, and where its markers are.
        batch: The batch; None: the only one.
        partitions: The number of shards, for the first plan.
        order_by: The order of the records of a key.
        checkpoint: The stream's checkpoint. Default: looked up.

    Raises:
        KafkaGuardError: It was refused, a record failed the job, or brokers went away.
    """
    started = time.time()
    columns = check_columns(df.schema, settings)
    stream = execution_of(df)
    if stream is not None and batch is None:
        raise _error("inside foreachBatch, write needs batch=batch_id")
    checkpoint = checkpoint or checkpoint_of(df)
    _check_session(df, stream, is_stream=checkpoint is not None)
    query = NO_QUERY if checkpoint is None else _find_query(checkpoint)
    batch = batch or 0
    driver = _driver_for(settings, once)
    attempt = (stream and stream.runId().toString()), batch
    driver.check_second(attempt)
    shards = partitions or count_tasks(settings, topics)
    content = settings.topic, df.select(*columns).schema.simpleString()
    now = int(started)
    wish = Plan(
        driver.run,
        query,
        batch,
        shards,
        driver.width,
        hashlib.sha256(repr(content).encode()).hexdigest()[:16],
        now,
        now,
    )
    plan = driver.plan(wish, checkpoint)
    frame = plan_write(
        df, settings, topics, columns, partitions=plan.shards, order_by=order_by
    )
    frame = frame.select("*", *_digests(columns))
    task = OnceTask(settings, topics, driver.ticket(plan))
    rows = collect(frame, task, SHARD_SCHEMA, lambda: driver.describe(plan))
    counts = add_up(TaskCounts.from_json(row.counts) for row in rows)
    if counts.read and len(rows) != plan.shards:
        raise driver.home.refuse(
            RefusedError(f"Spark ran {len(rows)} tasks for {plan.shards} shards"),
            batch,
        )
    driver.done = attempt
    replayed = [row for row in rows if row.replayed]
    longest = max((row.seconds for row in rows), default=0.0)
    report = make_report(settings, counts, None)
    return replace(
        report,
        seconds=time.time() - started,
        warnings=(
            *report.warnings,
            *driver.find_warnings(plan, partitions, longest),
        ),
        replayed=(
            len(replayed),
            sum(TaskCounts.from_json(row.counts).read for row in replayed),
        ),
        valid_until=plan.first + driver.retention * SURE,
        longest_transaction=longest,
    )


def _digests(columns: Sequence[str]) -> list[Column]:
    """Return two hashes of a row; the numbers tell null values apart by position."""
    numbered = [each for n, name in enumerate(columns) for each in (F.lit(n), name)]
    return [F.xxhash64(F.lit(name), *numbered).alias(name) for name in DIGESTS]


def _find_query(checkpoint: str) -> str:
    if is_temporary(checkpoint):
        raise _error("the query has no checkpoint: give it a checkpointLocation")
    query = query_of(checkpoint)
    if query is None:
        raise _error(f"the checkpoint {checkpoint} cannot be read")
    return query


def _check_session(df: DataFrame, stream: Any, *, is_stream: bool) -> None:
    """Check that a replay has the same rows, as far as Spark shows it.

    Raises:
        ClientConfigurationError: Spark may run two copies of a task at once, or the
            plan has an expression that is not deterministic.
    """
    session: Any = df.sparkSession
    if session.conf.get("spark.speculation", "false").lower() == "true":
        raise _error(
            "two copies of a task would fence each other: turn speculation off"
        )
    java: Any = getattr(df, "_jdf", None)
    if java is None:
        return
    analyzed = java.queryExecution().analyzed()
    # The plan of a micro-batch begins with what the stream's own plan has made.
    plans = analyzed, stream and stream.logicalPlan()
    if not all(plan.deterministic() for plan in plans if plan):
        raise _error(
            "the DataFrame has an expression that is not deterministic (such as rand, "
            "uuid or monotonically_increasing_id): a replay would have other rows. "
            "Write the DataFrame to a file first, and read it from there"
        )
    patterns = session._jvm.org.apache.spark.sql.catalyst.trees.TreePattern  # noqa: SLF001 - PySpark has no public name for it
    if not is_stream and analyzed.containsPattern(patterns.CURRENT_LIKE()):
        raise _error(
            "the DataFrame has an expression like current_timestamp or current_user, "
            "and a replay would have another value: write the value as a literal"
        )


class Driver:
    """The driver of a name: commits its plans. A process keeps it between batches.

    Args:
        settings: The settings of the write.
        once: The name of the write, and where its markers are.

    Attributes:
        run: The run of this driver; tasks of other runs end.
        done: The run of the stream, and the batch, that this driver has written last.
        used: When a write has used it last, by the monotonic clock.
        retention: How long brokers keep offsets, in seconds.
        home: Where plan and markers are.
    """

    def __init__(self, settings: SinkSettings, once: Once) -> None:
        self.run = uuid4().hex[:16]
        self.done: tuple[str | None, int] | None = None
        self.used = time.monotonic()
        self._offsets = offsets_for(settings.client)
        assert once.marker_topic is not None
        self.width = self._offsets.count_partitions(once.marker_topic)
        self.home = Home(once.name, once.marker_topic, self.width)
        retention, most = self._offsets.limits()
        if once.retention is None and retention is None:
            raise _error(
                "how long brokers keep offsets is not known: grant DescribeConfigs on "
                "the cluster, or declare retention"
            )
        self.retention = once.retention or retention or 0.0
        self._timeout = _choose_timeout(settings, most)
        self._transaction = open_producer(
            settings.client, self.home, None, self._timeout
        )
        self._last: Plan | None = None

    def check_second(self, attempt: tuple[str | None, int]) -> None:
        """Check that this is not a second write of the same batch.

        Raises:
            ClientConfigurationError: It is.
        """
        if attempt == self.done:
            raise _error(
                f"batch {attempt[1]} of {self.home.name!r} was written in this process "
                "already: give each write its own name"
            )

    def plan(self, wish: Plan, checkpoint: str | None) -> Plan:
        """Commit the plan of a batch.

        Raises:
            KafkaGuardError: The batch is refused, or another driver has taken over.
        """
        history, note = None, None
        if checkpoint is not None:
            history = partial(_read_history, checkpoint, wish.batch)
            note = partial(Notes(checkpoint).begin, wish.batch)
        last, self._last = self._last, None
        flow = plan_batch(wish, history, self.retention, last)
        try:
            plan = play(flow, partial(self._make, note=note))
        except (ForeignError, RefusedError) as error:
            raise self._drop(self.home.refuse(error, wish.batch)) from None
        except KafkaGuardError as error:
            raise self._drop(error) from error.__cause__
        self.home = self.home._replace(width=plan.width)
        if last is None or last.shards != plan.shards:
            ids = [self.home.id_of(shard) for shard in range(plan.shards)]
            self._offsets.fence(ids, self._timeout)
        self._last = plan
        return plan

    def _make(self, step: Step, *, note: Callable[[], object] | None) -> Any:
        if step.do == "look":
            return self._look()
        if step.do == "init":
            self._transaction.init()
        elif step.do == "note":
            assert note is not None
            note()
        else:
            assert step.entry is not None
            self._transaction.commit(step.entry)
        return None

    def _look(self) -> tuple[Plan | None, dict[int, Marker]]:
        plan, markers, self.home = self._offsets.look(self.home, None, stable=False)
        return plan, markers

    def _drop(self, error: KafkaGuardError) -> KafkaGuardError:
        """Do not keep this driver: the next one takes over the id."""
        for key in [key for key, each in _drivers.items() if each is self]:
            del _drivers[key]
        return error

    def ticket(self, plan: Plan) -> Ticket:
        """Return what the tasks need to know."""
        return Ticket(self.home, self.run, plan.batch, self.retention, self._timeout)

    def describe(self, plan: Plan) -> str:
        """Say which shards of a batch are written."""
        try:
            markers = self._look()[1]
        except (ForeignError, KafkaGuardError):
            return f"which shards of batch {plan.batch} are written is not known"
        missing = missing_of(plan.batch, markers, range(plan.shards))
        text = f"of batch {plan.batch}, {plan.shards - len(missing)} of {plan.shards}"
        if not missing:
            return f"{text} shards are written"
        return (
            f"{text} shards are written; a repeat finds out whether a commit without "
            f"an answer has succeeded, and writes what is left of the shards {missing}"
        )

    def find_warnings(
        self, plan: Plan, partitions: int | None, longest: float
    ) -> list[str]:
        """Return what to know about a write that succeeded."""
        warnings = []
        if partitions not in (None, plan.shards):
            warnings.append(
                f"partitions={partitions} was not used: {self.home.name!r} has "
                f"{plan.shards} shards since its first write"
            )
        if longest > _NEAR * self._timeout:
            warnings.append(
                f"a transaction was open for {longest:.0f} s, and brokers abort it "
                f"after {self._timeout:.0f} s: use more partitions, or raise "
                "transaction.timeout.ms"
            )
        return warnings


def _read_history(checkpoint: str, batch: int) -> History:
    return History(
        age_of(checkpoint, "offsets", batch),
        age_of(checkpoint, "commits", batch - 1),
        Notes(checkpoint).was_tried(batch),
    )


def _choose_timeout(settings: SinkSettings, most: float | None) -> float:
    """Return after how many seconds brokers abort an open transaction.

    Raises:
        ClientConfigurationError: Brokers do not allow so much, or it is shorter than
            the time for one record.
    """
    given = settings.client.get("transaction.timeout.ms")
    timeout = float(given) / 1000 if given else min(_TIMEOUT_S, most or _TIMEOUT_S)
    if most is not None and timeout > most:
        raise setting_error(
            f"transaction.timeout.ms is {timeout:g} s, and brokers allow {most:g} s "
            "(transaction.max.timeout.ms)",
            setting="kafka.transaction.timeout.ms",
        )
    record = float(settings.client["delivery.timeout.ms"]) / 1000
    if record > timeout:
        raise setting_error(
            f"delivery.timeout.ms is {record:g} s, longer than a transaction may be "
            f"open ({timeout:g} s): lower it, or raise transaction.timeout.ms",
            setting="kafka.delivery.timeout.ms",
        )
    return timeout


_Key = tuple[int, Once, tuple[tuple[str, str], ...]]
_drivers: dict[_Key, Driver] = {}


def _driver_for(settings: SinkSettings, once: Once) -> Driver:
    """Return the driver that this process keeps for a name, or a new one."""
    key = (os.getpid(), once, tuple(sorted(settings.client.items())))
    driver = _drivers.pop(key, None)
    if driver is None or time.monotonic() - driver.used > _KEEP_S:
        driver = Driver(settings, once)
    driver.used = time.monotonic()
    for other in list(_drivers)[: max(0, len(_drivers) + 1 - _MOST_DRIVERS)]:
        del _drivers[other]
    _drivers[key] = driver
    return driver
