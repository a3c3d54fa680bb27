"""One part of a steady load, until it is killed: KIND CLIENT SETTINGS TOPIC FOLDER.

It writes its number of records into a file of its folder, so that others see it work.
"""

from __future__ import annotations

import argparse
import itertools
import json
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path

from kafkaguard import guard, retry
from kafkaguard.errors import KafkaGuardError
from kafkaguard.policies import PolicyWatcher

KEYS, PACE_S, LAG_S, RELOAD_S = 50, 0.004, 0.2, 2.0
#: What a leak adds each time that lag is measured.
LEAK_BYTES = 1 << 18


class Progress:
    """Writes into a file how much was done, at most once in half a second."""

    def __init__(self, folder, name):
        self._file = Path(folder, name)
        self._due = 0.0

    def note(self, count):
        """Note a count."""
        if time.monotonic() > self._due:
            self._file.write_text(str(count))
            self._due = time.monotonic() + 0.5


class Outcome:
    """Forgets what becomes of a record."""

    def deliver(self, _):
        """It was delivered."""

    def fail(self, _):
        """It was not."""


def produce(chosen, progress):
    """Send numbered records by a guarded producer."""
    from tests.chaos.clients import CLIENTS

    client = CLIENTS[chosen.client](chosen.settings)
    outcome = Outcome()
    for number in itertools.count():
        with suppress(KafkaGuardError):
            key = b"k%d" % (number % KEYS)
            client.send(chosen.topic, b"%d" % number, key, None, outcome)
        progress.note(number)
        time.sleep(PACE_S)


def keep(chosen, progress):
    """Send by kafka-python, guarded or bare, and keep each future."""
    from kafka import KafkaProducer

    config = {
        **chosen.settings,
        "linger_ms": 5,
        "request_timeout_ms": 1_000,
        "delivery_timeout_ms": 4_000,
        "max_block_ms": 8_000,
    }
    if chosen.client == "guarded":
        producer = guard(factory=KafkaProducer, config=config, policy={"deadline": 20})
    else:
        producer = KafkaProducer(**config)
    futures = []
    for number in itertools.count():
        with suppress(Exception):  # the bare client raises its own
            key = b"k%d" % (number % KEYS)
            futures.append(producer.send(chosen.topic, b"x" * 100, key))
        progress.note(len(futures))
        time.sleep(PACE_S / 4)


def lag(chosen, progress):
    """Measure lag under a policy whose file changes; leak if that is asked for."""
    from kafka import KafkaAdminClient

    file = Path(chosen.folder, f"{chosen.client}.toml")
    write_policy(file, 0)
    kept = []
    with (
        guard(KafkaAdminClient(**chosen.settings)) as admin,
        PolicyWatcher(file, interval=RELOAD_S / 2) as watcher,
    ):

        @retry(watcher, api="OffsetFetch")
        def measure():
            return admin.lag(topics=chosen.topic)

        due = time.monotonic()
        for number in itertools.count():
            measure()
            progress.note(number)
            if chosen.leak:
                kept += leak()
            if time.monotonic() > due:
                write_policy(file, number)
                due = time.monotonic() + RELOAD_S
            time.sleep(LAG_S)


def write_policy(file, number):
    """Write a policy that differs from the one before."""
    fresh = file.with_suffix(".fresh")
    fresh.write_text(f'name = "steady"\ndeadline = {10 + number % 7}\n')
    fresh.rename(file)


def leak():
    """Return what a program with leaks would keep: one of each kind."""
    thread = threading.Thread(target=threading.Event().wait, daemon=True)
    thread.start()
    return [bytearray(LEAK_BYTES), thread, *socket.socketpair()]


def spark(chosen, progress):
    """Run a stream of each kind."""
    from kafkaguard.cli.spark_session import spark_session
    from tests.soak import outages

    folder = Path(chosen.folder)
    with spark_session("soak") as session:
        for kind in ("foreach_batch", "data source"):
            report = folder / f"{kind}.jsonl"
            outages.start(session, kind, chosen.topic, chosen.settings, report)
        for number in itertools.count():
            if all(query.isActive for query in session.streams.active):
                progress.note(number)
            if len(session.streams.active) < 2:
                raise SystemExit("a stream has ended")
            time.sleep(1)


KINDS = {"produce": produce, "keep": keep, "lag": lag, "spark": spark}


def main():
    """Work until it is killed."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak.steady_program")
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("client")
    parser.add_argument("settings", type=json.loads)
    parser.add_argument("topic")
    parser.add_argument("folder")
    parser.add_argument("--leak", action="store_true")
    chosen = parser.parse_args()
    name = "-".join(filter(None, (chosen.kind, chosen.client)))
    KINDS[chosen.kind](chosen, Progress(chosen.folder, name))


if __name__ == "__main__":
    main()
