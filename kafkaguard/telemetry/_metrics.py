"""All metrics: name, kind, unit, meaning, attributes.

Names follow OpenTelemetry's semantic conventions for messaging where these have one.
The conventions are not stable, so their version is fixed here.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Final, Literal

from kafkaguard._common.attributes import attribute

#: The version of the semantic conventions that the names are from.
CONVENTIONS: Final = "1.44.0"

SYSTEM: Final = "messaging.system"
OPERATION: Final = "messaging.operation.name"
OPERATION_TYPE: Final = "messaging.operation.type"
TOPIC: Final = attribute("topic")
PARTITION: Final = attribute("partition")
GROUP: Final = attribute("group")
COUNT: Final = "messaging.batch.message_count"
ERROR: Final = attribute("error")
ACTION: Final = attribute("action")
EVENT: Final = attribute("event")
KIND: Final = attribute("kind")
ON_REJECT: Final = attribute("on_reject")
OUTCOME: Final = attribute("outcome")
POLICY: Final = attribute("policy")
REASON: Final = attribute("reason")
STATE: Final = attribute("state")
#: The value of ``TOPIC`` for the topics beyond ``max_topics``.
OTHER: Final = "_OTHER"
#: Upper bounds of histograms in seconds: those of the conventions, and longer waits.
BOUNDS: Final = (
    *(0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
    *(30.0, 60.0, 300.0),
)


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric.

    Attributes:
        name: Its name for OpenTelemetry.
        kind: What it is.
        unit: Its unit, as UCUM writes it.
        text: What it counts or measures.
        labels: The attributes of its values.
    """

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    unit: str
    text: str
    labels: tuple[str, ...] = ()

    @property
    def prometheus_name(self) -> str:
        """Its name for Prometheus, as OpenTelemetry's exporter makes it."""
        name = to_prometheus(self.name) + ("_seconds" if self.unit == "s" else "")
        return name + ("_total" if self.kind == "counter" else "")


#: Values by metric and attributes.
Samples = defaultdict[Metric, defaultdict[tuple[str, ...], float]]


def to_prometheus(name: str) -> str:
    """Return the name of a metric or an attribute with underscores."""
    return name.replace(".", "_")


def _counter(name: str, unit: str, text: str, *labels: str) -> Metric:
    return Metric(name, "counter", unit, text, labels)


def _gauge(name: str, unit: str, text: str, *labels: str) -> Metric:
    return Metric(name, "gauge", unit, text, labels)


SENT = _counter(
    "messaging.client.sent.messages",
    "{message}",
    "Records of guarded producers, by outcome",
    *(TOPIC, OUTCOME, SYSTEM, OPERATION),
)
CONSUMED = _counter(
    "messaging.client.consumed.messages",
    "{message}",
    "Records of process(), by outcome",
    *(TOPIC, GROUP, OUTCOME, SYSTEM, OPERATION),
)
PROCESS_S = Metric(
    "messaging.process.duration",
    "histogram",
    "s",
    "How long handlers took, for each chunk of consecutive records or batch",
    (TOPIC, GROUP, SYSTEM, OPERATION),
)
#: The counts and states of drivers, by the kind of driver and their name there.
STANDING: Final[dict[tuple[str, str], Metric]] = {
    ("producer", "held"): _counter(
        "kafkaguard.producer.hold.duration",
        "s",
        "How long calls of send waited while records of their topic were sent again",
        TOPIC,
    ),
    ("producer", "pending"): _gauge(
        "kafkaguard.producer.pending", "{message}", "Records without an outcome yet"
    ),
    ("process", "retried"): _counter(
        "kafkaguard.process.retries",
        "{message}",
        "Further attempts of records whose handler raised",
        *(TOPIC, GROUP),
    ),
    ("process", "committed"): _counter(
        "kafkaguard.process.committed",
        "{message}",
        "Records that are done and below a committed offset",
        *(TOPIC, GROUP),
    ),
    ("process", "redelivered"): _counter(
        "kafkaguard.process.redelivered",
        "{message}",
        "Records that this process had handled before",
        *(TOPIC, GROUP),
    ),
    ("process", "oldest_age"): _gauge(
        "kafkaguard.process.oldest.age",
        "s",
        "Age of the oldest unfinished record since it was read",
        GROUP,
    ),
    ("process", "outages"): _gauge(
        "kafkaguard.process.outages",
        "{run}",
        "Runs of process() that wait for a dependency of their handler",
        GROUP,
    ),
    ("consumer", "waiting"): _gauge(
        "kafkaguard.consumer.waiting_partitions",
        "{partition}",
        "Partitions that cannot be read and wait",
        TOPIC,
    ),
    **dict.fromkeys(
        (("process", state) for state in ("running", "waiting", "parked")),
        _gauge(
            "kafkaguard.process.records",
            "{message}",
            "Unfinished records of process(): with a worker, waiting for their next "
            "attempt, or behind a waiting one",
            *(GROUP, STATE),
        ),
    ),
}
WAIT_S = Metric(
    "kafkaguard.wait.duration",
    "histogram",
    "s",
    "Waits of retried calls, handlers and partitions",
    (EVENT,),
)
DEAD_LETTERS = _counter(
    "kafkaguard.dead_letters",
    "{message}",
    "Records in a dead-letter topic, by their own topic and the reason",
    *(TOPIC, ERROR),
)
#: The counter of each event; its attributes are fields of the event.
EVENTS: Final = {
    "kafkaguard.attempt": _counter(
        "kafkaguard.attempts",
        "{attempt}",
        "Attempts of calls that failed at least once; no error: it succeeded",
        *(TOPIC, ERROR, ACTION),
    ),
    "kafkaguard.retry": _counter(
        "kafkaguard.retries", "{attempt}", "Further attempts of calls", TOPIC, ACTION
    ),
    "kafkaguard.give_up": _counter(
        "kafkaguard.give_ups",
        "{call}",
        "Calls and records that were given up",
        *(TOPIC, ERROR, REASON),
    ),
    "kafkaguard.reject": _counter(
        "kafkaguard.rejections",
        "{message}",
        "Records that can never be written, by what the policy does with them",
        *(TOPIC, ERROR, ON_REJECT),
    ),
    "kafkaguard.dead_letter": DEAD_LETTERS,
    "kafkaguard.recreate": _counter(
        "kafkaguard.client.replacements", "{client}", "Dead clients that were replaced"
    ),
    "kafkaguard.budget_exhausted": _counter(
        "kafkaguard.budget.refusals",
        "{attempt}",
        "Retries that the retry budget refused",
        POLICY,
    ),
    "kafkaguard.read_failed": _counter(
        "kafkaguard.consumer.failed_reads",
        "{read}",
        "Reads of partitions that failed for good",
        *(TOPIC, ERROR),
    ),
    "kafkaguard.offset_reset": _counter(
        "kafkaguard.consumer.offset_resets",
        "{reset}",
        "Positions that were out of range, by what happened",
        *(TOPIC, OUTCOME),
    ),
    "kafkaguard.commit_failed": _counter(
        "kafkaguard.consumer.failed_commits", "{commit}", "Failed commits", ERROR, KIND
    ),
    "kafkaguard.handler_slow": _counter(
        "kafkaguard.process.slow_handlers",
        "{call}",
        "Handlers that ran longer than handler.timeout",
        TOPIC,
    ),
    "kafkaguard.remote_storage": _counter(
        "kafkaguard.remote_storage.stalls",
        "{partition}",
        "Consumers that wait for remote storage; no error: one continues",
        *(TOPIC, ERROR),
    ),
    "kafkaguard.reload": _counter(
        "kafkaguard.policy.reloads",
        "{file}",
        "Changed policy files, by whether the new policy is used",
        OUTCOME,
    ),
}
BREAKERS = _gauge(
    "kafkaguard.breakers",
    "{breaker}",
    "Circuit breakers that are open or half-open",
    *(POLICY, STATE),
)
SPARK_RECORDS = _counter(
    "kafkaguard.spark.records",
    "{message}",
    "Records of Spark's micro-batches, by outcome and reason",
    *(TOPIC, OUTCOME, ERROR),
)
SPARK_S = Metric(
    "kafkaguard.spark.batch.duration",
    "histogram",
    "s",
    "How long a micro-batch took to write",
    (TOPIC,),
)
_PLACE = (GROUP, TOPIC, PARTITION)
#: The gauges of lag, by the attribute of ``PartitionLag``.
LAG: Final = {
    "lag": _gauge(
        "kafkaguard.group.lag", "{offset}", "Offsets that a group is behind", *_PLACE
    ),
    "committed": _gauge(
        "kafkaguard.group.committed",
        "{offset}",
        "Offset that a group has committed",
        *_PLACE,
    ),
    "end": _gauge(
        "kafkaguard.group.end",
        "{offset}",
        "Offset that lag is measured against",
        *_PLACE,
    ),
    "lost": _gauge(
        "kafkaguard.group.lost",
        "{offset}",
        "Offsets that retention took unread",
        *_PLACE,
    ),
    "blocked": _gauge(
        "kafkaguard.group.blocked",
        "{offset}",
        "Offsets behind open transactions",
        *_PLACE,
    ),
    "time_lag": _gauge(
        "kafkaguard.group.time_lag", "s", "Age of the next record", *_PLACE
    ),
}
UNKNOWN = _gauge(
    "kafkaguard.group.unknown",
    "{partition}",
    "Partitions and groups without a lag, by reason",
    *(GROUP, REASON),
)
LAG_FAILURES = _counter(
    "kafkaguard.group.read_failures", "{read}", "Readings of lag that failed", ERROR
)
METRICS: Final = tuple(
    dict.fromkeys(
        (
            *(SENT, CONSUMED, PROCESS_S),
            *STANDING.values(),
            *EVENTS.values(),
            *(WAIT_S, BREAKERS, SPARK_RECORDS, SPARK_S),
            *LAG.values(),
            *(UNKNOWN, LAG_FAILURES),
        )
    )
)
