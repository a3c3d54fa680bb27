"""Make a write's report from the counts of its tasks and the growth of topics."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkaguard._common.logs import Log
from kafkaguard._delivery.letter_count import exceeds
from kafkaguard._errors import KafkaGuardError
from kafkaguard_adapters.spark.report import (
    TaskCounts,
    WriteReport,
    describe_collapsed,
)
from kafkaguard_adapters.spark.topics import cache_for

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from kafkaguard_adapters.spark.settings import SinkSettings

_NO_ENDS = "no broker returned the end offsets: how many records are new is unknown"
_log = Log("spark")


@dataclass(frozen=True)
class Growth:
    """The end offsets of topics before a write, to count how much the topics grow.

    Attributes:
        topics: The names of the topics.
        before: The sum of their end offsets before the write; None: unknown.
        started: When the write began, in seconds since the epoch.
        remark: A remark for the report.
    """

    topics: tuple[str, ...]
    before: int | None
    started: float
    remark: str | None = None

    @classmethod
    def begin(cls, settings: SinkSettings) -> Growth:
        """Look up the end offsets before a write."""
        started = time.time()
        return cls(tuple(settings.topics), _get_ends(settings), started)

    def count_appended(self, settings: SinkSettings) -> int | None:
        """Count the records appended since then, by any program; None: unknown."""
        after = None if self.before is None else _get_ends(settings)
        return None if after is None or self.before is None else after - self.before


def _get_ends(settings: SinkSettings) -> int | None:
    """Return the sum of end offsets; None if unknown, which does not fail the job."""
    try:
        return cache_for(settings.client).end_offsets(settings.topics)
    except KafkaGuardError as error:
        _log.warning(
            "end_offsets_unknown",
            "end offsets are not known: %s",
            error,
            topic=settings.topic,
            error=error,
        )
        return None


def make_report(
    settings: SinkSettings, counts: TaskCounts, growth: Growth | None
) -> WriteReport:
    """Make the report of a write from the counts of its tasks."""
    is_counted = growth is not None and settings.topic is not None
    appended = growth.count_appended(settings) if growth and is_counted else None
    remark = growth.remark if growth else None
    if is_counted and appended is None:
        remark = remark or _NO_ENDS
    warnings = (
        remark,
        _describe_letters(settings, counts),
        describe_collapsed(counts.collapsed_keys),
    )
    return WriteReport(
        topic=settings.topic,
        dead_letter_topic=settings.dead_letter_topic,
        read=counts.read,
        delivered=counts.delivered,
        dead_lettered=dict(counts.dead_lettered),
        dropped=dict(counts.dropped),
        in_doubt=dict(counts.in_doubt),
        resent=counts.resent,
        collapsed_keys=counts.collapsed_keys,
        retried_tasks=counts.attempt,
        appended=appended,
        seconds=time.time() - growth.started if growth else 0.0,
        warnings=tuple(filter(None, warnings)),
    )


def _describe_letters(settings: SinkSettings, counts: TaskCounts) -> str | None:
    """Return a remark if all tasks together have more dead letters than one may."""
    letters = counts.dead_lettered.total()
    limit = settings.policy.dead_letter.limit if letters else None
    ratio = None if limit is None else limit.ratio
    if ratio is None or not exceeds(ratio, letters, counts.read):
        return None
    return (
        f"{letters:,} of {counts.read:,} records were dead-lettered, and "
        f"dead_letter.limit.ratio is {ratio:g}: no task alone had too many"
    )


#: The subjects of this process's warnings.
_warned: set[Hashable] = set()


def warn_once(subject: Hashable, text: str, warn: Callable[[str], object]) -> None:
    """Call ``warn`` with a text, once for each subject (a topic) in a process."""
    if subject not in _warned:
        _warned.add(subject)
        warn(text)
