"""What a run has done, and how it stands."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

from kafkaguard._common.public import public

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@public("kafkaguard")
@dataclass(frozen=True, slots=True)
class ProcessReport:
    """The counts of records of a run of ``process()``.

    Attributes:
        processed: The handler returned.
        retried: Further attempts of records whose handler had raised.
        dead_lettered: Rejected records that are in their dead-letter topic.
        dropped: Rejected records that the policy drops.
        late: Handlers that returned when their partition was already given up. These
            records are not committed; the next owner handles them again.
        abandoned: Records whose handlers still ran when the run ended.
        committed: Records that are done and below a committed offset.
        redelivered: Records that this process had handled before.
        topics: The same counts for each topic.
    """

    processed: int = 0
    retried: int = 0
    dead_lettered: int = 0
    dropped: int = 0
    late: int = 0
    abandoned: int = 0
    committed: int = 0
    redelivered: int = 0
    topics: Mapping[str, ProcessReport] = field(default_factory=dict, repr=False)


NAMES = tuple(each.name for each in fields(ProcessReport) if each.name != "topics")


#: What an aborted round takes back.
_OUTCOMES = frozenset({"processed", "dead_lettered", "dropped"})


class Counts:
    """Counts of records by topic.

    Args:
        by_round: Whether outcomes count only when their round is committed.

    Attributes:
        totals: The counts by topic and name. Others read it without the driver's lock.
    """

    def __init__(self, *, by_round: bool = False) -> None:
        self._by_round = by_round
        self.totals: Counter[tuple[str, str]] = Counter()
        self._round: list[tuple[str, str, int]] = []

    def add(self, topic: str, name: str, count: int = 1) -> None:
        """Count records of a topic."""
        if self._by_round and name in _OUTCOMES:
            self._round.append((topic, name, count))
        else:
            self.totals[topic, name] += count

    def end_round(self, *, is_committed: bool) -> None:
        """Count the outcomes of a round, or forget them."""
        if is_committed:
            for topic, name, count in self._round:
                self.totals[topic, name] += count
        self._round.clear()

    def report(self) -> ProcessReport:
        """Return the counts so far."""
        names = sorted({topic for topic, _ in self.totals})
        return self._report(names, {each: self._report([each], {}) for each in names})

    def _report(
        self, names: Iterable[str], topics: Mapping[str, ProcessReport]
    ) -> ProcessReport:
        sums = {
            each: sum(self.totals[topic, each] for topic in names) for each in NAMES
        }
        return ProcessReport(**sums, topics=topics)


@public("kafkaguard")
@dataclass(frozen=True, slots=True)
class Progress:
    """How a run stands now, for a liveness probe.

    Attributes:
        in_flight: Records that are read and neither done nor parked.
        running: Records that workers have.
        waiting: Records that wait for their next attempt.
        parked: Records behind a waiting record of their partition or key.
        oldest_age: Seconds since the oldest unfinished record was read; 0.0 if there is
            none.
        last_poll_age: Seconds since the client was polled.
        is_waiting: Whether the run waits for a dependency that is down.
    """

    in_flight: int
    running: int
    waiting: int
    parked: int
    oldest_age: float
    last_poll_age: float
    is_waiting: bool
