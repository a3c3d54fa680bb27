"""What a write's report is made of: the counts of its tasks, and how topics grew."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkaguard.errors import KafkaGuardError
from kafkaguard_adapters.spark.driver.topics import kept_for
from kafkaguard_adapters.spark.report import TaskCounts, WriteReport

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaguard_adapters.spark.settings import SinkSettings

_log = logging.getLogger("kafkaguard.spark")


@dataclass(frozen=True)
class Growth:
    """By how many records topics grow from a moment on.

    Attributes:
        topics: The names of the topics watched.
        before: The sum of their end offsets at the beginning; None: not known.
        started: When the write began, in seconds since the epoch.
        remark: What people should know about it.
    """

    topics: tuple[str, ...]
    before: int | None
    started: float
    remark: str | None = None

    @classmethod
    def begin(cls, settings: SinkSettings) -> Growth:
        """Look at the topics before a write."""
        started = time.time()
        return cls(tuple(settings.topics), _ends(settings), started)

    def appended(self, settings: SinkSettings) -> int | None:
        """Count what was appended since, by anybody; None: not known."""
        after = None if self.before is None else _ends(settings)
        return None if after is None or self.before is None else after - self.before


def _ends(settings: SinkSettings) -> int | None:
    """Sum up end offsets; that nobody answers is no reason to fail a job."""
    try:
        return kept_for(settings.client).end_offsets(settings.topics)
    except KafkaGuardError as error:
        _log.warning("end offsets are not known: %s", error)
        return None


def make_report(
    settings: SinkSettings, counts: TaskCounts, growth: Growth | None
) -> WriteReport:
    """Make the report of a write from what its tasks counted."""
    known = growth is not None and settings.topic is not None
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
        appended=growth.appended(settings) if growth and known else None,
        seconds=time.time() - growth.started if growth else 0.0,
        remarks=(growth.remark,) if growth and growth.remark else (),
    )


#: Topics of which it was told that keys have collapsed.
_told: set[str | None] = set()


def tell_once(topic: str | None, said: str, tell: Callable[[str], object]) -> None:
    """Tell something of a topic, unless this process has told it before."""
    if topic not in _told:
        _told.add(topic)
        tell(said)
