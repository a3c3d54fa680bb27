"""The bound of records that librdkafka writes twice, against a model of it.

The model numbers its records anew while some are on their way, logs that, and writes any
of these again. Lines of its log and reports come from one queue, in their order.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError
from hypothesis import example, given
from hypothesis import strategies as st

from kafkaguard._delivery.counters import Counters
from kafkaguard._delivery.facts import Place
from kafkaguard_adapters.confluent.callbacks import Callbacks
from kafkaguard_adapters.confluent.producer_settings import ProducerSettings, prepare
from kafkaguard_adapters.confluent.shell import ConfluentShell
from tests.confluent.test_shell_alone import Builder, Quiet, View
from tests.confluent.test_windows import message

IDEMPOTENT = {"bootstrap.servers": "127.0.0.1:1", "enable.idempotence": True}
TOO_LARGE = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
LINE = "Idempotent producer state change Assigned -> DrainBump"


class Librdkafka:
    """The records of a producer on their way, and what a poll will bring.

    Args:
        tells: Whether its log tells when it numbers its records anew.
    """

    def __init__(self, *, tells):
        config = prepare(IDEMPOTENT) if tells else IDEMPOTENT
        self.shell = ConfluentShell(
            Quiet(), Builder(), ProducerSettings(config), Callbacks(print), view=View()
        )
        self.shell.poll_while_troubled = lambda: None
        self.counters = Counters()
        self.shell.listen(
            SimpleNamespace(
                began=lambda _: None,
                accepted=lambda batch: self.counters.count_batch(batch, batch.count),
                failed=lambda batch, refusals: self.counters.count_batch(
                    batch, batch.count - len(refusals)
                ),
            )
        )
        self.tells = tells
        self.on_their_way, self.queue, self.twice = [], [], set()
        self.delivered = self.maybe_twice = self.number = 0
        self.queue.append("Idempotent producer state change WaitPID -> Assigned")
        self.poll(1)

    def produce(self, topic):
        """Take a record."""
        window, index = None, None
        while index is None:
            window = self.shell.window(topic, lambda _: False)
            index = next(window.slots, None)
        self.number += 1
        window.mark(index, b"k", b"%d" % self.number)
        self.on_their_way.append((self.number, window.on_delivery, topic))

    def answer(self, place):
        """Let a record be answered."""
        if self.on_their_way:
            place %= len(self.on_their_way)
            self.queue.append(self.on_their_way.pop(place))

    def renumber(self, place):
        """Fail a record, and write the others again."""
        if self.on_their_way:
            place %= len(self.on_their_way)
            failed = self.on_their_way.pop(place)
            self.queue += [LINE, (*failed[:2], None)]
            self.twice |= {number for number, _, _ in self.on_their_way}

    def poll(self, count):
        """Serve so many of what there is, as a guarded poll does."""
        for _ in range(min(count, len(self.queue))):
            event = self.queue.pop(0)
            if isinstance(event, str):
                if self.tells:
                    log = self.shell._attempts.log
                    log(7, "%s", "IDEMPSTATE", "rdkafka#producer-1", event)
                continue
            number, on_delivery, topic = event
            error = None if topic else TOO_LARGE
            on_delivery(error, message(b"k", b"%d" % number, offset=number))
            if error is not None:
                self.twice.discard(number)
            self.delivered += error is None
        self.shell.hear_errors()

    def report(self, _=0):
        """Take the counts so far, as ``report()`` does."""
        for window, count in self.shell.delivered().items():
            if window.ended is None:
                self.counters.count_batch(window, count)
        self.maybe_twice += self.counters.report(0).maybe_twice

    def end(self):
        """Answer all, and close."""
        while self.on_their_way:
            self.answer(0)
        self.poll(len(self.queue))
        self.shell._close_windows()
        self.report()


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("produce"), st.sampled_from(["a", "b"])),
        st.tuples(
            st.sampled_from(["answer", "renumber", "poll", "report"]),
            st.integers(0, 200),
        ),
    ),
    max_size=60,
)
LOADS = st.lists(st.sampled_from(["a", "b"]), max_size=200)


@pytest.mark.parametrize("tells", [True, False])
@given(load=LOADS, steps=STEPS)
@example(load=["a"] * 65, steps=[("renumber", 0), ("poll", 9), ("report", 0)])
def test_no_record_that_is_there_twice_is_outside_the_bound(tells, load, steps):
    """Whatever is on its way when the client numbers anew; and 0 where it does not."""
    client = Librdkafka(tells=tells)
    for topic in load:
        client.produce(topic)
    for name, argument in steps:
        getattr(client, name)(argument)
    client.end()
    assert len(client.twice) <= client.maybe_twice <= client.delivered
    if not client.twice and not any(name == "renumber" for name, _ in steps):
        assert client.maybe_twice == 0


def window_from(doubtful):
    """Return a window of which the records from this one on are in doubt."""
    return SimpleNamespace(
        counted=0, counted_twice=0, doubtful_from=doubtful, place=Place("t", 0)
    )


@given(st.integers(0, 50), st.integers(0, 50), st.lists(st.integers(0, 100)))
def test_what_follows_a_doubt_is_counted_once(before, after, reports):
    """However often a report is taken meanwhile."""
    counters, window = Counters(), window_from(before)
    total = 0
    for delivered in sorted(min(each, before + after) for each in reports):
        counters.count_batch(window, delivered)
        total += counters.report(0).maybe_twice
    counters.count_batch(window, before + after)
    assert total + counters.report(0).maybe_twice == after


def test_a_record_that_was_sent_again_counts_in_its_batch():
    """It is counted as delivered by itself, and as perhaps there twice with the rest."""
    counters = Counters()
    window = window_from(0)
    counters.count_batch(window, 3, resent=2)
    report = counters.report(0)
    assert (report.delivered, report.maybe_twice) == (1, 3)
