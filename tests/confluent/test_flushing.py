"""No flush runs while records are sent again, because it would split their batch."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, Producer

from kafkaguard._delivery.facts import Place, Raw
from kafkaguard._delivery.records import Record
from kafkaguard_adapters.confluent import shell as shell_module
from kafkaguard_adapters.confluent.callbacks import Callbacks
from kafkaguard_adapters.confluent.producer_settings import ProducerSettings
from kafkaguard_adapters.confluent.shell import ConfluentShell
from tests.confluent.test_windows import message

LONG_S = 60.0
#: What a shell reports to its driver.
FACTS = ("began", "accepted", "failed", "died", "fault")
CONFIG = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}


class Recorded(Producer):
    """A producer without a broker, whose first flush takes until it may end."""

    def __init__(self):
        super().__init__(CONFIG)
        self.log = []
        self.begun, self.may_end = threading.Event(), threading.Event()

    def flush(self, timeout):
        """Flush; only the first one takes a time."""
        is_first = not self.begun.is_set()
        self.begun.set()
        if is_first:
            self.may_end.wait(LONG_S)
        self.log.append("flushed")
        return 0

    def poll(self, timeout):
        """Poll."""
        self.log.append("polled")
        return 0


@pytest.fixture
def client():
    """A producer; what it still has at the end is given up.

    It keeps the callbacks of its records, and these keep it, until they are called.
    """
    client = Recorded()
    yield client
    client.purge()
    Producer.flush(client, LONG_S)


@pytest.fixture
def shell(client, monkeypatch):
    """Its shell, which waits for a flush as long as that takes."""
    monkeypatch.setattr(shell_module, "CALM_S", LONG_S)
    settings = ProducerSettings(CONFIG)
    builder = SimpleNamespace(can_build=False)
    made = ConfluentShell(client, builder, settings, Callbacks(print), view=None)
    made.listen(SimpleNamespace(**dict.fromkeys(FACTS, lambda *_: None)))
    made.use(SimpleNamespace(is_troubled=False), None)
    return made


def hand_over(shell, client):
    """Send a record again, and write it down."""
    record = Record(1, None, 0, Place("t"), 0.0, Raw(b"k", b"v", (), None))
    shell.hand_over(record, time.monotonic() + LONG_S)
    client.log.append("handed over")


def test_a_record_is_sent_again_after_a_running_flush(shell, client):
    """Meanwhile no other flush begins: who serves polls."""
    flush = threading.Thread(target=shell.serve, args=(0.0,))
    flush.start()
    assert client.begun.wait(LONG_S)
    again = threading.Thread(target=hand_over, args=(shell, client))
    again.start()
    end = time.monotonic() + LONG_S
    while "polled" not in client.log:
        assert time.monotonic() < end
        shell.serve(0.0)
    assert "handed over" not in client.log
    client.log.clear()
    client.may_end.set()
    flush.join(LONG_S)
    again.join(LONG_S)
    assert client.log == ["flushed", "handed over"]


def test_it_is_flushed_again_once_all_records_are_handed_over(shell, client):
    """Without a second flush the last records would linger."""
    client.may_end.set()
    hand_over(shell, client)
    shell.serve(0.0)
    shell.send_now()
    shell.serve(0.0)
    assert client.log == ["handed over", "polled", "flushed"]


def test_records_that_the_client_never_reports_hide_no_reported_failure(
    shell, client, monkeypatch
):
    """Of three records one is delivered, one has failed, and one is lost track of."""
    monkeypatch.setattr(shell_module, "STOP_S", 0.0)
    told, faults = [], []
    listeners = dict.fromkeys(FACTS, lambda *_: None)
    listeners["failed"] = lambda _, refusals: told.extend(
        (r.index, r.sent) for r in refusals
    )
    listeners["fault"] = lambda what, _: faults.append(what)
    shell.listen(SimpleNamespace(**listeners))
    window = shell.window("t", lambda topic: False)
    for number in range(3):
        window.mark(next(window.slots), b"k", b"%d" % number)
    window.on_delivery(None, message(b"k", b"1"))
    window.on_delivery(KafkaError(87), message(b"k", b"0"))
    client.may_end.set()
    shell.stop()
    assert told == [(0, "answered"), (2, "maybe")]
    assert faults == ["the client never reported these records"]
    assert shell.open_windows() == []
