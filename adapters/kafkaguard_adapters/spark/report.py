"""The report of a write: counted in each task, added up on the driver."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


_BY_REASON = ("dead_lettered", "dropped", "in_doubt")
#: With fewer records with the key ``{}`` than this, there is no remark.
_FEW = 2


@dataclass(slots=True)
class TaskCounts:
    """Outcomes of the records of a task.

    Attributes:
        read: Records taken from Spark.
        delivered: Records that the broker acknowledged.
        dead_lettered: Records acknowledged in the dead-letter topic, by reason.
        dropped: Records refused and written nowhere, as the policy says, by reason.
        in_doubt: Records that may have been written, by error.
        resent: Records sent again, because they were certainly not written.
        collapsed_keys: Records whose key is ``{}``.
        attempt: The number of the task's attempt, from 0.
    """

    read: int = 0
    delivered: int = 0
    dead_lettered: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    in_doubt: Counter[str] = field(default_factory=Counter)
    resent: int = 0
    collapsed_keys: int = 0
    attempt: int = 0

    def to_json(self) -> str:
        """Encode the counts."""
        return json.dumps(
            {each.name: getattr(self, each.name) for each in fields(self)}
        )

    @classmethod
    def from_json(cls, text: str) -> TaskCounts:
        """Decode the counts."""
        counts: dict[str, Any] = json.loads(text)
        return cls(**counts | {name: Counter(counts[name]) for name in _BY_REASON})


@dataclass(frozen=True, slots=True)
class WriteReport:
    """Outcomes of the records of a write; None means unknown, never zero.

    Attributes:
        topic: The topic, or None if a column names it.
        dead_letter_topic: The topic of refused records.
        read: Records taken from Spark.
        delivered: Records that the broker acknowledged.
        dead_lettered: Records acknowledged in the dead-letter topic, by reason.
        in_doubt: Records that may have been written, by error.
        resent: Records sent again, because they were certainly not written: another
            record of their batch was refused, or the policy allowed further attempts.
        retried_tasks: Tasks that Spark ran again one by one; records of their first
            attempts are in the topic twice, unless they were written exactly once. When
            an executor is lost, Spark may repeat a whole stage: its tasks are not
            counted here, but their records are in ``maybe_twice``.
        appended: By how many records the topics grew since the write was first tried,
            by their end offsets; None if a topic or that moment is unknown.
        seconds: The duration of the write.
        collapsed_keys: Records with the key ``{}``, which ``to_json`` makes from a key
            of nulls.
        dropped: Records refused and written nowhere, as the policy says, by reason.
        replayed: With ``exactly_once``: how many shards an earlier try had written, and
            how many rows they have. These rows count as delivered.
        valid_until: With ``exactly_once``: until when a repeated write knows what this
            one has written, in seconds since 1970.
        longest_transaction: With ``exactly_once``: for how many seconds a transaction
            was open at most. Readers with ``read_committed`` wait for open ones.
        warnings: What to know about the counts, in sentences.
    """

    topic: str | None
    dead_letter_topic: str | None
    read: int
    delivered: int
    dead_lettered: Mapping[str, int]
    in_doubt: Mapping[str, int]
    resent: int
    retried_tasks: int
    appended: int | None
    seconds: float
    collapsed_keys: int = 0
    warnings: tuple[str, ...] = ()
    dropped: Mapping[str, int] = field(default_factory=dict)
    replayed: tuple[int, int] = (0, 0)
    valid_until: float | None = None
    longest_transaction: float | None = None

    @property
    def unaccounted(self) -> int:
        """Records read that are in no other count; 0 unless the sink has a bug."""
        settled = (getattr(self, name).values() for name in _BY_REASON)
        return self.read - self.delivered - sum(map(sum, settled))

    @property
    def maybe_twice(self) -> int | None:
        """The largest possible number of duplicates; None if unknown.

        The growth of the topics beyond the counted records: written by attempts that
        Spark repeated, or by another program. 0 is certain. If topics grew by less,
        they were deleted meanwhile, and the number is unknown. With ``exactly_once`` it
        is 0: what aborted attempts have written, no ``read_committed`` reader sees.
        """
        if self.valid_until is not None:
            return 0
        once = self.delivered + sum(self.dead_lettered.values())
        if self.appended is None or self.appended < once:
            return None
        return self.appended - once

    def to_dict(self) -> dict[str, Any]:
        """Return all counts and warnings, including derived ones."""
        counts = {each.name: getattr(self, each.name) for each in fields(self)}
        derived = "unaccounted", "maybe_twice"
        return counts | {name: getattr(self, name) for name in derived}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> WriteReport:
        """Make a report from the result of :meth:`to_dict`."""
        values = {each.name: content[each.name] for each in fields(cls)}
        tuples = {name: tuple(content[name]) for name in ("replayed", "warnings")}
        return cls(**values | tuples)

    def __str__(self) -> str:
        """Return the report in one line."""
        parts = [f"{self.read:,} read", f"{self.delivered:,} delivered"]
        for name, reasons in (
            ("dead-lettered", self.dead_lettered),
            ("dropped", self.dropped),
            ("in doubt", self.in_doubt),
        ):
            parts += [f"{n:,} {name} ({reason})" for reason, n in reasons.items()]
        if self.replayed[0]:
            parts.append(
                "{1:,} of them before (in {0:,} shards)".format(*self.replayed)
            )
        twice = (
            "an unknown number of duplicates"
            if self.maybe_twice is None
            else f"at most {self.maybe_twice:,} duplicates"
        )
        counts = f"{', '.join(parts)}, {twice}, in {self.seconds:.1f} s"
        return "; ".join([counts, *self.warnings])


def describe_collapsed(count: int) -> str | None:
    """Return a remark about collapsed keys, or None if there are none.

    Args:
        count: The number of records with the key ``{}``.
    """
    if count < _FEW:
        return None
    return (
        f"{count:,} records have the key {{}}: to_json omits null values, so "
        "compaction would keep only the last of different records"
    )


def add_up(tasks: Iterable[TaskCounts]) -> TaskCounts:
    """Add up the counts of tasks; ``attempt`` becomes the number of repeated tasks."""
    sums = TaskCounts()
    for task in tasks:
        for name in (each.name for each in fields(TaskCounts)):
            count = getattr(task, name) if name != "attempt" else task.attempt > 0
            setattr(sums, name, getattr(sums, name) + count)
    return sums


def total(
    topic: str | None, dead_letter_topic: str | None, reports: Sequence[WriteReport]
) -> WriteReport:
    """Add up the reports of a stream's micro-batches."""
    grown = [report.appended for report in reports]
    collapsed = sum(report.collapsed_keys for report in reports)
    warnings = [
        warning
        for report in reports
        for warning in report.warnings
        if warning != describe_collapsed(report.collapsed_keys)
    ]
    shards, rows = (
        sum(report.replayed[index] for report in reports) for index in (0, 1)
    )
    last = reports[-1] if reports else None
    open_s = [r.longest_transaction for r in reports if r.longest_transaction]
    return WriteReport(
        topic=topic,
        dead_letter_topic=dead_letter_topic,
        replayed=(shards, rows),
        valid_until=None if last is None else last.valid_until,
        longest_transaction=max(open_s, default=None),
        read=sum(report.read for report in reports),
        delivered=sum(report.delivered for report in reports),
        dead_lettered=sum((Counter(r.dead_lettered) for r in reports), Counter()),
        dropped=sum((Counter(r.dropped) for r in reports), Counter()),
        in_doubt=sum((Counter(r.in_doubt) for r in reports), Counter()),
        resent=sum(report.resent for report in reports),
        retried_tasks=sum(report.retried_tasks for report in reports),
        appended=None if None in grown else sum(n for n in grown if n is not None),
        seconds=sum(report.seconds for report in reports),
        collapsed_keys=collapsed,
        warnings=tuple(filter(None, [*warnings, describe_collapsed(collapsed)])),
    )
