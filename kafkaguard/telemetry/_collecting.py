"""The object behind ``on_event``: counts events, and reads drivers at each scrape."""

from __future__ import annotations

import threading
from collections import defaultdict
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from weakref import ref

from kafkaguard._common.arguments import hook, whole_number
from kafkaguard._common.logs import Log
from kafkaguard.telemetry import _metrics as m
from kafkaguard.telemetry._lag import add_lag

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from kafkaguard._cluster.lag import LagReport
    from kafkaguard._common.observing import Header, Kind, Numbers, Watched
    from kafkaguard.telemetry._metrics import Samples
    from kafkaguard.telemetry._spans import Spans

    #: Records a value of a histogram.
    Record = Callable[[m.Metric, float, tuple[str, ...]], None]

_log = Log("telemetry")
MAX_TOPICS: Final = 200
#: What ``process()`` is about; else the names of a producer's numbers are outcomes.
_OUTCOMES = {"producer": m.SENT, "process": m.CONSUMED}
_OPERATIONS = {"producer": "send", "process": "process"}


class Telemetry:
    """Counts what happens; made by :func:`otel` and :func:`prometheus`.

    Give it as ``on_event`` to guards, :func:`kafkaguard.replay` and
    ``RemoteStorageWatch``, in ``hooks`` to :func:`kafkaguard.retry`, and as
    ``on_report`` to Spark writes. One object can serve all of them.
    """

    def __init__(
        self,
        record: Record,
        spans: Spans | None,
        max_topics: int,
        on_event: Callable[[Any], object] | None,
    ) -> None:
        self._observer = Instruments(record, spans, max_topics)
        self._on_event = hook("on_event", on_event)

    def __call__(self, event: Any, batch_id: int | None = None) -> None:
        """Receive an event, or a report of a micro-batch and its id."""
        if batch_id is not None:
            self._observer.count_batch(event)
            return
        self._observer.count_event(event)
        if self._on_event is not None:
            self._on_event(event)

    def lag(self, read: Callable[[], LagReport]) -> None:
        """Export the lag of consumer groups.

        Args:
            read: Returns the lag report, such as ``admin.lag`` of a guarded admin
                client. It is called once for each scrape. If it raises, this scrape has
                no lag, and the failure is counted and logged.
        """
        self._observer.lag_readers.append(read)


@dataclass(frozen=True, slots=True, eq=False)
class _Source:
    """A driver: its numbers live as long as telemetry, and its state while it lives."""

    kind: Kind
    group: str
    owner: ref[Watched]
    totals: Numbers


class Instruments:
    """All numbers; an ``Observer``.

    Args:
        record: Records a value of a histogram.
        spans: Makes spans, or None.
        max_topics: How many topics have a name of their own.

    Attributes:
        lag_readers: What is called for lag at each scrape.
        traces: Whether spans are made.
    """

    def __init__(self, record: Record, spans: Spans | None, max_topics: int) -> None:
        self.lag_readers: list[Callable[[], LagReport]] = []
        self.traces = spans is not None
        self._record = record
        self._spans = spans
        self._max_topics = whole_number("max_topics", max_topics, 1)
        self._topics: set[str] = set()
        #: Around what follows. Drivers are never called under it.
        self._lock = threading.RLock()
        self._counts = _samples()
        self._sources: list[_Source] = []

    # --- what happens -----------------------------------------------------------------

    def count_event(self, event: Any) -> None:
        """Count an event."""
        metric = m.EVENTS.get(event.name)
        if metric is not None:
            self._add(metric, self._labels(metric, event))
        wait = getattr(event, "wait", getattr(event, "waited", None))
        if wait:
            self._record(m.WAIT_S, wait, self._labels(m.WAIT_S, event))
        if event.name == "kafkaguard.breaker":
            for state, change in ((event.old, -1), (event.new, 1)):
                if state != "closed":
                    self._add(m.BREAKERS, (event.policy, str(state)), change)
        if metric is None and getattr(event, "dead_letter_topic", None):
            self._add(m.DEAD_LETTERS, self._labels(m.DEAD_LETTERS, event))

    def count_batch(self, report: Any) -> None:
        """Count the records of a micro-batch."""
        topic = self._capped(report.topic or "")
        self._add(m.SPARK_RECORDS, (topic, "delivered", ""), report.delivered)
        for outcome in ("dead_lettered", "dropped", "in_doubt"):
            for reason, count in getattr(report, outcome).items():
                self._add(m.SPARK_RECORDS, (topic, outcome, reason), count)
        self._record(m.SPARK_S, report.seconds, (topic,))

    def handled(self, topic: str, group: str, seconds: float) -> None:
        """Record how long a handler took for a chunk of records."""
        labels = (self._capped(topic), group, "kafka", "process")
        self._record(m.PROCESS_S, seconds, labels)

    def _add(self, metric: m.Metric, labels: tuple[str, ...], count: int = 1) -> None:
        with self._lock:
            self._counts[metric][labels] += count

    def _labels(self, metric: m.Metric, event: Any) -> tuple[str, ...]:
        return tuple(self._label(event, label) for label in metric.labels)

    def _label(self, event: Any, label: str) -> str:
        """Return an attribute of an event; most are named like its fields."""
        match label:
            case m.TOPIC:
                own = getattr(event, "topic", None)
                return self._capped(own or event.context.topic or "")
            case m.ERROR:
                error = getattr(event, "error", None)
                return getattr(error, "name", error) or ""
            case m.EVENT:
                return str(event.name).rpartition(".")[2]
        return str(getattr(event, label.rpartition(".")[2], None) or "")

    def _capped(self, topic: str) -> str:
        """Return a topic, or the name of all topics beyond the limit."""
        if not topic or topic in self._topics:
            return topic
        with self._lock:
            is_full = len(self._topics) >= self._max_topics
            is_first = is_full and m.OTHER not in self._topics
            topic = m.OTHER if is_full else topic
            self._topics.add(topic)
        if is_first:
            _log.warning(
                "topics_beyond_limit",
                "more than %d topics: the others are exported as one, %s; raise "
                "max_topics to see them",
                self._max_topics,
                m.OTHER,
                limit=self._max_topics,
            )
        return topic

    # --- spans ------------------------------------------------------------------------

    def processing(
        self, place: tuple[str, int], group: str, headers: Sequence[Sequence[Header]]
    ) -> AbstractContextManager[object]:
        """Make a span around a call of a handler."""
        if self._spans is None:
            return nullcontext()
        return self._spans.processing(place, group, headers)

    def letter(self, topic: str, headers: Sequence[Header]) -> None:
        """Make a span for a dead letter, with these headers, that is being sent."""
        if self._spans is not None:
            self._spans.letter(topic, headers)

    def traced(
        self, send: Callable[..., Any], like: Callable[..., Any]
    ) -> Callable[..., Any]:
        """Return a ``send`` that makes a span for each call."""
        return send if self._spans is None else self._spans.traced(send, like)

    # --- scrapes ----------------------------------------------------------------------

    def watch(
        self, kind: Kind, owner: Watched, totals: Numbers, group: str = ""
    ) -> None:
        """Read the numbers of a driver at each scrape, while it lives."""
        with self._lock:
            self._fold()
            self._sources.append(_Source(kind, group, ref(owner), totals))

    def collect(self) -> Samples:
        """Return all numbers but histograms, by metric and attributes."""
        samples = _samples()
        for metric in m.METRICS:
            if metric.kind == "counter" and not metric.labels:
                samples[metric][()] = 0.0  # so that the first event is an increase
        for source in self._sources.copy():
            owner = source.owner()
            if owner is not None:
                # Nothing locks the state of an event loop; it is read again next time.
                with suppress(RuntimeError):
                    self._add_numbers(source, owner.gauges(), samples)
        for read in self.lag_readers:
            try:
                add_lag(read(), samples, self._capped)
            except Exception as error:  # noqa: BLE001 - other numbers are exported
                self._add(m.LAG_FAILURES, (getattr(error, "name", "") or "",))
                _log.warning(
                    "lag_not_read", "lag could not be read: %s", error, error=error
                )
        with self._lock:
            self._fold()
            for source in self._sources:
                self._add_numbers(source, source.totals, samples)
            for metric, values in self._counts.items():
                for labels, count in values.items():
                    samples[metric][labels] += count
        return samples

    def _fold(self) -> None:
        """Keep the counts of drivers that are gone, without one entry for each."""
        for source in self._sources.copy():
            if source.owner() is None:
                self._sources.remove(source)
                self._add_numbers(source, source.totals, self._counts)

    def _add_numbers(self, source: _Source, numbers: Numbers, samples: Samples) -> None:
        for (topic, name), number in dict(numbers).items():
            metric = m.STANDING.get((source.kind, name)) or _OUTCOMES[source.kind]
            known = {
                m.TOPIC: self._capped(topic),
                m.GROUP: source.group,
                m.OUTCOME: name,
                m.STATE: name,
                m.SYSTEM: "kafka",
                m.OPERATION: _OPERATIONS.get(source.kind, ""),
            }
            labels = tuple(known[each] for each in metric.labels)
            before = samples[metric][labels]
            is_age = metric.name.endswith(".age")
            samples[metric][labels] = max(before, number) if is_age else before + number


def _samples() -> Samples:
    return defaultdict(lambda: defaultdict(float))
