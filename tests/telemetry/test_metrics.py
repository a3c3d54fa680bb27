"""Counts of events and drivers, exported by both kinds of telemetry."""

from __future__ import annotations

import gc
import logging
import time
from collections import Counter
from types import SimpleNamespace

import pytest
from opentelemetry.semconv._incubating.attributes import messaging_attributes
from opentelemetry.semconv._incubating.metrics import messaging_metrics
from opentelemetry.semconv.schemas import Schemas
from prometheus_client import CollectorRegistry, generate_latest

from kafkaguard import Action, events, retry, telemetry
from kafkaguard._cluster.remote_storage import RemoteStorageEvent
from kafkaguard._cluster.reports import TopicPartition
from kafkaguard._common.attributes import attribute
from kafkaguard._common.observing import observer_of
from kafkaguard._delivery.time_limit import TimeLimit
from kafkaguard._retries.breaker import BreakerState
from kafkaguard._retries.machine import CallContext
from kafkaguard.errors import for_code
from kafkaguard.telemetry import _metrics as m
from kafkaguard_adapters.consuming.driver import Driver as ConsumerDriver
from kafkaguard_adapters.producing.driver_base import DriverBase
from tests.telemetry.exporting import exporting

BASE = {"policy": "p", "policy_id": "1", "context": CallContext(topic="t")}
PLACE = {**BASE, "topic": "t", "partition": 0, "position": 5}
RECORD = {**BASE, "topic": "t", "partition": 0, "offset": 5, "attempts": 2}
ERROR = for_code(7)(topic="t")


class Driver:
    """A driver with numbers of its own."""

    def __init__(self, totals=(), gauges=()):
        self.totals, self._gauges = dict(totals), dict(gauges)

    def gauges(self):
        """Return how it stands."""
        return self._gauges


def test_every_event_is_counted_with_its_attributes(export):
    """Waits are a histogram, by the event that began them."""
    tell, value = export.telemetry, export.value
    attempt = {"number": 1, "elapsed": 0.1}
    tell(events.AttemptEvent(**BASE, **attempt, error="X", action=Action.RETRY))
    tell(events.RetryEvent(**BASE, number=2, wait=0.5, action=Action.RETRY))
    tell(events.WaitEvent(**BASE, wait=1.5))
    tell(events.RefreshEvent(**BASE))
    give_up = {"attempts": 2, "elapsed": 1.0, "error": "X"}
    tell(events.GiveUpEvent(**BASE, **give_up, reason="deadline"))
    tell(events.RejectEvent(**BASE, error="X", on_reject="dead_letter"))
    tell(events.DeadLetterEvent(**BASE, error="X", dead_letter_topic="d"))
    tell(events.RecreateEvent(**BASE))
    tell(events.BudgetEvent(**BASE, cost=5.0))
    for problem in (None, "bad"):
        reload = {"source": "f", "old_policy_id": "0", "problem": problem}
        tell(events.ReloadEvent(**BASE, **reload))
    assert value("kafkaguard.attempts", topic="t", error="X", action="RETRY") == 1
    assert value("kafkaguard.retries", topic="t", action="RETRY") == 1
    assert value("kafkaguard.give_ups", error="X", reason="deadline") == 1
    assert value("kafkaguard.rejections", error="X", on_reject="dead_letter") == 1
    assert value("kafkaguard.dead_letters", topic="t", error="X") == 1
    assert value("kafkaguard.client.replacements") == 1
    assert value("kafkaguard.budget.refusals", policy="p") == 1
    assert value("kafkaguard.policy.reloads", outcome="refused") == 1
    waits = {
        place: v for place, v in export.values().items() if place[0] == m.WAIT_S.name
    }
    assert waits == {
        (m.WAIT_S.name, frozenset([(m.EVENT, "retry")])): (1, 0.5),
        (m.WAIT_S.name, frozenset([(m.EVENT, "wait")])): (1, 1.5),
    }


def test_events_of_consumers_and_handlers_are_counted(export):
    """A record that a handler's policy sets aside counts as a dead letter."""
    tell, value = export.telemetry, export.value
    read = {"error": ERROR, "action": Action.REJECT}
    tell(events.PartitionWaitsEvent(**PLACE, **read, wait=2.0))
    tell(events.PartitionResumesEvent(**PLACE, waited=3.0, tries=2))
    tell(events.ReadFailedEvent(**PLACE, **read, raised=True))
    reset = {"earliest": 1, "latest": 9, "lost": 0, "skipped": 0, "outcome": "reset"}
    tell(events.OffsetResetEvent(**PLACE, **reset))
    tell(events.CommitFailedEvent(**BASE, **read, errors={}, kind="auto"))
    tell(events.HandlerFailedEvent(**RECORD, error="KeyError", wait=1.0))
    for topic in ("d", None):
        aside = {"on_reject": "dead_letter", "dead_letter_topic": topic}
        tell(events.RecordSetAsideEvent(**RECORD, error="KeyError", **aside))
    tell(events.HandlerSlowEvent(**RECORD, error="", running=9.0))
    tell(events.DependencyEvent(**RECORD, error="", state="back", waited=4.0))
    tell(RemoteStorageEvent("t", 0, 5, 60.0, ERROR))
    error = ERROR.name
    assert value("kafkaguard.consumer.failed_reads", topic="t", error=error) == 1
    assert value("kafkaguard.consumer.offset_resets", topic="t", outcome="reset") == 1
    assert value("kafkaguard.consumer.failed_commits", error=error, kind="auto") == 1
    assert value("kafkaguard.dead_letters", topic="t", error="KeyError") == 1
    assert value("kafkaguard.process.slow_handlers", topic="t") == 1
    assert value("kafkaguard.remote_storage.stalls", topic="t", error=error) == 1
    waits = {
        dict(place)[m.EVENT]: v[1]
        for (name, place), v in export.values().items()
        if name == m.WAIT_S.name
    }
    assert waits == {
        "partition_waits": 2.0,
        "partition_resumes": 3.0,
        "handler_failed": 1.0,
        "dependency": 4.0,
    }


def test_open_breakers_are_a_gauge(export):
    """A change takes one away from the old state."""
    closed, is_open, half = BreakerState
    for old, new in ((closed, is_open), (is_open, half), (closed, is_open)):
        export.telemetry(events.BreakerEvent(**BASE, old=old, new=new))
    assert export.value("kafkaguard.breakers", policy="p", state="open") == 1
    assert export.value("kafkaguard.breakers", policy="p", state="half-open") == 1


def test_drivers_are_read_at_each_scrape_and_their_counts_outlive_them(export):
    """Counts never go back when a client is gone; its state is gone with it."""
    first, second = (
        Driver({("t", "delivered"): n, ("t", "held"): 0.5}) for n in (3, 4)
    )
    first._gauges = {("", "pending"): 2}
    observer = observer_of(export.telemetry)
    for driver in (first, second):
        observer.watch("producer", driver, driver.totals)
    name = "messaging.client.sent.messages"
    assert export.value(name, topic="t", outcome="delivered", system="kafka") == 7
    assert export.value("kafkaguard.producer.pending") == 2
    second.totals["t", "failed"] = 1
    assert export.value(name, outcome="failed") == 1
    del first, driver
    gc.collect()
    assert export.value(name, outcome="delivered") == 7
    assert export.value("kafkaguard.producer.pending") == 0
    del second
    gc.collect()
    assert export.value(name) == 8
    assert export.value("kafkaguard.producer.hold.duration") == 1.0
    assert observer._sources == []


def test_a_driver_that_changes_while_it_is_read_costs_only_its_state(export):
    """As a run in an event loop, which nothing locks; its counts are exported."""
    driver = Driver({("t", "processed"): 3})
    driver.gauges = fails
    observer_of(export.telemetry).watch("process", driver, driver.totals, "g")
    name = "messaging.client.consumed.messages"
    assert export.value(name, topic="t", group="g", outcome="processed") == 3


def fails():
    """Fail as a dict does that is changed while another thread iterates over it."""
    raise RuntimeError("dictionary changed size during iteration")


def test_states_and_ages_of_runs(export):
    """Records of two runs add up; of their ages the largest counts."""
    drivers = [
        Driver({}, {("", "running"): 1, ("", "oldest_age"): age, ("", "outages"): True})
        for age in (3.0, 5.0)
    ]
    for driver in drivers:
        observer_of(export.telemetry).watch("process", driver, {}, "g")
    assert export.value("kafkaguard.process.records", group="g", state="running") == 2
    assert export.value("kafkaguard.process.oldest.age", group="g") == 5.0
    assert export.value("kafkaguard.process.outages", group="g") == 2


def test_partitions_that_wait_are_those_of_a_consumer_now(export):
    """A partition that can be read again, or is revoked, is not counted any more."""
    waiting = {TopicPartition("t", n): ERROR for n in range(2)}
    machine = SimpleNamespace(waiting=lambda: waiting)
    driver = ConsumerDriver(machine, None, None, None, export.telemetry)
    assert export.value("kafkaguard.consumer.waiting_partitions", topic="t") == 2
    waiting.clear()
    assert export.value("kafkaguard.consumer.waiting_partitions", topic="t") == 0
    del driver


def test_the_time_that_a_send_is_held_is_counted_when_it_ends():
    """By its topic; a send that was not held costs nothing."""
    held = [True]
    machine = SimpleNamespace(lost=None, totals=Counter())
    driver = SimpleNamespace(
        machine=machine, is_held=lambda _: bool(held), _waiting_sends=0
    )
    waiting = DriverBase._wait_until_free(driver, "t", TimeLimit(5.0, "max_block_ms"))
    next(waiting)
    time.sleep(0.05)
    held.clear()
    with pytest.raises(StopIteration):
        waiting.send(True)
    assert 0.04 < machine.totals["t", "held"] < 4.0


@pytest.mark.parametrize("kind", ["otel", "prometheus"])
def test_topics_beyond_the_limit_are_one_and_a_warning_says_so_once(kind, caplog):
    """The counts of all topics add up as before."""
    with exporting(kind, max_topics=2) as export:
        for topic in "abcda":
            context = CallContext(topic=topic)
            export.telemetry(
                events.RetryEvent(
                    **{**BASE, "context": context},
                    number=2,
                    wait=0,
                    action=Action.RETRY,
                )
            )
        assert export.value("kafkaguard.retries", topic="a") == 2
        assert export.value("kafkaguard.retries", topic="_OTHER") == 2
    assert caplog.text.count("max_topics") == 1


def test_batches_of_spark_are_counted(export):
    """Records by what became of them and why, and the seconds."""
    for delivered in (7, 5):
        report = SimpleNamespace(
            topic="t",
            delivered=delivered,
            dead_lettered={"NULL_KEY": 2},
            dropped={},
            in_doubt={"CLIENT_TIMEOUT": 1},
            seconds=0.5,
        )
        export.telemetry(report, 0)
    name = "kafkaguard.spark.records"
    assert export.value(name, topic="t", outcome="delivered") == 12
    assert export.value(name, outcome="dead_lettered", error="NULL_KEY") == 4
    assert export.value(name, outcome="in_doubt") == 2
    place = "kafkaguard.spark.batch.duration", frozenset([(m.TOPIC, "t")])
    assert export.values()[place] == (2, 1.0)


def test_telemetry_hears_retried_calls_and_passes_events_on():
    """A hook of the application's own is called with each event, too."""
    heard = []
    with exporting("otel", on_event=heard.append) as export:

        @retry("default", hooks=[export.telemetry])
        def call(errors):
            if errors:
                raise errors.pop()

        call([for_code(6)(api="Fetch", topic="t")])
        assert export.value("kafkaguard.retries") == 1
        assert export.value("kafkaguard.attempts") == 2
    assert [event.name for event in heard].count("kafkaguard.attempt") == 2


def test_prometheus_refuses_a_second_one_in_a_registry():
    """Otherwise each value would be exported twice. No driver is read for that."""
    registry = CollectorRegistry()
    telemetry.prometheus(registry)
    with pytest.raises(ValueError, match="Duplicated"):
        telemetry.prometheus(registry)
    assert b"# TYPE messaging_client_sent_messages_total counter" in generate_latest(
        registry
    )


@pytest.mark.parametrize("argument", [{"max_topics": 0}, {"on_event": 5}])
def test_arguments_are_checked(argument):
    """Before anything is registered."""
    registry = CollectorRegistry()
    with pytest.raises((TypeError, ValueError), match=next(iter(argument))):
        telemetry.prometheus(registry, **argument)
    assert list(registry.collect()) == []


def test_names_are_those_of_the_conventions():
    """Each name and attribute of messaging exists in the pinned version."""
    assert Schemas[f"V{m.CONVENTIONS.replace('.', '_')}"].value.endswith(m.CONVENTIONS)
    known = {v for k, v in vars(messaging_metrics).items() if k.isupper()}
    attributes = {v for k, v in vars(messaging_attributes).items() if k.isupper()}
    ours = {metric.name for metric in m.METRICS}
    assert {name for name in ours if not name.startswith("kafkaguard.")} <= known
    labels = {label for metric in m.METRICS for label in metric.labels}
    labels |= {m.OPERATION_TYPE, m.COUNT, attribute("offset")}
    own = {label for label in labels if label.startswith("kafkaguard.")}
    assert labels - own - {"error.type"} <= attributes


def test_the_logger_is_quiet_without_a_limit(caplog):
    """No warning for few topics."""
    caplog.set_level(logging.DEBUG, "kafkaguard")
    with exporting("otel") as export:
        export.telemetry(
            events.RetryEvent(**BASE, number=2, wait=0, action=Action.RETRY)
        )
    assert caplog.records == []
