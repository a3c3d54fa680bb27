"""Plays cells in a process of its own: ``python -m tests.atlas.worker``.

The first line on standard input has the addresses of the broker, each further line is a
cell; each line on standard output is what a cell showed. Several cells wait at the same
time, each in a thread, since most of their time is waiting.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import queue
import sys
import threading
import time
import uuid
import warnings
from collections import deque
from importlib import import_module
from itertools import product

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from kafkaguard.errors import KafkaGuardError
from kafkaguard.testing import FaultProxy
from tests.atlas import aio, confluent, kafka_python
from tests.atlas.caller import LASTS_S, OF_CONNECTIONS, OF_TRANSACTIONS, role
from tests.atlas.cells import Cell

MODULES = {
    "kafka-python": kafka_python,
    "confluent-kafka": confluent,
    "aiokafka": aio,
}
#: Seconds until a cell is left behind with what it has shown.
MOST_S = 60.0
#: Cells that wait at the same time in one process.
AT_ONCE = 8
#: Requests after whose answers the records of the call are counted.
WRITING = ("Produce", "Metadata", "InitProducerId", *OF_TRANSACTIONS, *OF_CONNECTIONS)
#: Requests that change something else.
CHANGING = (
    "OffsetCommit",
    "CreateTopics",
    "DeleteTopics",
    "IncrementalAlterConfigs",
    "DeleteGroups",
)
#: Further calls that a client has to show that it lives: aiokafka raises the error of
#: its group to the read that waits, and to the next one.
AGAIN = 2
#: Seconds between two looks at the clock.
_WAKE_S = 0.05
#: Topics that are made with one request.
_BATCH = 20


class Lag(threading.Thread):
    """Measures how late this process wakes up, on a machine that is busy."""

    def __init__(self):
        super().__init__(daemon=True)
        self._seen = deque(maxlen=2000)

    def run(self):
        """Wake up again and again."""
        before = time.monotonic()
        while True:
            time.sleep(_WAKE_S)
            now = time.monotonic()
            self._seen.append((now, now - before - _WAKE_S))
            before = now

    def since(self, began):
        """Return the longest delay since then, in seconds."""
        return max((late for at, late in list(self._seen) if at >= began), default=0.0)


class World:
    """Topics of the broker, and a bare client that looks what was written."""

    def __init__(self, servers):
        self.servers = servers["plain"]
        self.access = servers
        self._admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        self._writer = Producer({"bootstrap.servers": self.servers, "linger.ms": 0})
        self._ready = []
        self._lock = threading.Lock()

    def topic(self):
        """Return a new topic with a record in it, made beside others."""
        with self._lock:
            if not self._ready:
                names = [f"t-{uuid.uuid4().hex[:10]}" for _ in range(_BATCH)]
                made = self._admin.create_topics([NewTopic(n, 1, 1) for n in names])
                for future in made.values():
                    future.result(30)
                for name in names:
                    self._writer.produce(name, b"there", partition=0)
                assert not self._writer.flush(30)
                self._ready = names
            return self._ready.pop()

    def feed(self, topic):
        """Write a record for a consumer."""
        writer = Producer({"bootstrap.servers": self.servers, "linger.ms": 0})
        writer.produce(topic, b"fed", partition=0)
        assert not writer.flush(10), "no record could be written"

    def make_group(self, group, topic):
        """Make an empty group with a committed offset."""
        reader = Consumer({"bootstrap.servers": self.servers, "group.id": group})
        reader.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
        reader.close()

    def changed(self, cell, world):
        """Say whether the call has changed what it was made for."""
        topic = world["topic"]
        if cell.api == "OffsetCommit":
            return self._committed(world["group"], topic)
        if cell.api == "DeleteGroups":
            return not self._committed(world["group"], topic)
        if cell.api == "IncrementalAlterConfigs":
            resource = ConfigResource("topic", topic)
            (future,) = self._admin.describe_configs([resource]).values()
            return future.result(10)["retention.ms"].value == "3600000"
        name = world["spare"] if cell.api == "CreateTopics" else topic
        exists = name in self._admin.list_topics(timeout=10).topics
        return exists == (cell.api == "CreateTopics")

    def _committed(self, group, topic):
        reader = Consumer({"bootstrap.servers": self.servers, "group.id": group})
        try:
            (place,) = reader.committed([TopicPartition(topic, 0)], timeout=10)
        finally:
            reader.close()
        return place.offset >= 0

    def records(self, cell, topic):
        """Count the first call's records, as a reader of committed ones sees them."""
        level = "committed" if role(cell.api) == "Transacting" else "uncommitted"
        reader = Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": "reader",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": f"read_{level}",
                "fetch.wait.max.ms": 10,
            }
        )
        reader.assign([TopicPartition(topic, 0, 0)])
        count = 0
        try:
            while (message := reader.poll(10)) is not None and not message.error():
                count += message.value() == b"first"
        finally:
            reader.close()
        return count


class Play:
    """Plays one cell; ``result`` has at each moment what it has shown.

    Args:
        cell: The cell.
        broker: The world that all cells of the process share.
    """

    def __init__(self, cell, broker):
        self.cell = cell
        self._broker = broker
        self.result = {"error": "Hung", "step": "open", "lives": None, "ended": False}

    def run(self):
        """Open, call, call again, close, and look."""
        cell = self.cell
        name = f"atlas-{uuid.uuid4().hex[:10]}"
        world = {
            "api": cell.api,
            "name": name,
            "topic": self._broker.topic(),
            "spare": f"{name}-new",
            "group": f"{name}-group",
            "direct": self._broker.servers,
        }
        if cell.api in ("DescribeGroups", "DeleteGroups"):
            self._broker.make_group(world["group"], world["topic"])
        access = dict(self._broker.access[cell.client])
        servers = self._broker.servers
        if cell.api in OF_CONNECTIONS:
            servers = self._broker.access["sasl"]
        else:
            access = {}
        key = (
            "bootstrap.servers"
            if cell.client == "confluent-kafka"
            else "bootstrap_servers"
        )
        with FaultProxy(servers) as proxy:
            world["access"] = {**access, key: proxy.bootstrap_servers}
            caller = getattr(MODULES[cell.client], role(cell.api))(
                world, guarded=cell.guarded
            )
            caller.feed = lambda: self._broker.feed(world["topic"])
            with warnings.catch_warnings():
                self._play(caller, proxy, world)
        if cell.api in WRITING:
            self.result["written"] = self._broker.records(cell, world["topic"])

    def _play(self, caller, proxy, world):
        cell, result = self.cell, self.result
        caller.open()
        fault, seen = self._arm(proxy, world)
        caller.met = lambda: fault.fired
        end = threading.Timer(LASTS_S, fault.remove)
        end.daemon = True
        result["step"] = "call"
        began = time.monotonic()
        end.start()
        error = None
        try:
            caller.call()
        except Exception as failure:
            error = failure
        result["seconds"] = round(time.monotonic() - began, 2)
        end.cancel()
        fault.remove()
        result["requests"] = seen()
        result["met"] = fault.fired
        result.update(_described(error, cell))
        if cell.api in CHANGING:
            result["written"] = int(self._is_changed(world))
        caller.failed = error is not None
        result["step"] = "again"
        for _ in range(AGAIN if caller.client is not None else 0):
            try:
                caller.again()
            except Exception as failure:
                result["lives"] = False
                result["again"] = _described(failure, cell)["error"]
            else:
                result["lives"] = True
                break
        result["step"] = "close"
        began = time.monotonic()
        if caller.client is not None:
            with contextlib.suppress(Exception):
                caller.close()
        result["ended"] = time.monotonic() - began < LASTS_S
        result["step"] = "end"

    def _is_changed(self, world):
        """Say whether the call has had its effect, which a broker may show later."""
        for _ in range(20 if self.cell.executed else 1):
            if self._broker.changed(self.cell, world):
                return True
            time.sleep(0.1)
        return False

    def _arm(self, proxy, world):
        """Set the fault; return it, and a function that counts the requests since."""
        chosen = {"topic": world["topic"]} if self.cell.api == "Metadata" else {}
        before = len(proxy.requests(self.cell.api))
        fault = proxy.on(self.cell.api, **chosen).fail(
            self.cell.code,
            times=None if self.cell.ever else 1,
            written=self.cell.executed,
        )
        mine = {**chosen, "client_id": world["name"]}
        before = len(proxy.requests(self.cell.api, **mine))
        return fault, lambda: len(proxy.requests(self.cell.api, **mine)) - before


def _described(error, cell):
    """Describe what was raised: class, code, flag, and the verdict of a guarded client."""
    if error is None:
        return {"error": None, "raised": None, "retriable": None}
    inner = error.args[0] if error.args else None
    is_theirs = callable(getattr(inner, "code", None))
    code = inner.code() if is_theirs else getattr(error, "errno", None)
    retriable = getattr(error, "retriable", None)
    if is_theirs:
        retriable = inner.retriable()
    name = type(error).__name__
    described = {"error": name, "raised": code if isinstance(code, int) else None}
    described["retriable"] = retriable if isinstance(retriable, bool) else None
    if isinstance(error, KafkaGuardError):
        verdict = error.verdict
        described["raised"] = error.code
        described["action"] = str(verdict.action)
        described["told"] = verdict.written
    return described


def _serve(cells, broker, lag, write):
    """Play cells until there are no more; one that hangs is left behind."""
    while (cell := cells.get()) is not None:
        play = Play(cell, broker)
        problem, began = [], time.monotonic()

        def run(play=play, problem=problem):
            try:
                play.run()
            except BaseException as error:
                problem.append(f"{type(error).__name__}: {error}"[:200])

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(MOST_S)
        result = dict(play.result)
        if thread.is_alive():
            result["hung"] = result["step"]
        if problem:
            result["problem"] = problem[0]
        result["lag"] = round(lag.since(began), 2)
        write({**cell.as_json(), **result})


def _warm_up(broker):
    """Load all that the first cells would wait for."""
    for client, kind in product(
        ("aiokafka", "confluent", "kafka_python"), ("producer", "consumer", "admin")
    ):
        import_module(f"kafkaguard_adapters.{client}.{kind}")
    for client, api in product(MODULES, ("Produce", "OffsetFetch")):
        with contextlib.suppress(Exception):  # the coordinator may still load
            Play(Cell(client, True, api, 6, False), broker).run()


def main():
    """Play the cells of standard input."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    threading.excepthook = lambda _: None
    out, lock = os.fdopen(os.dup(1), "w"), threading.Lock()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)

    def write(line):
        with lock:
            out.write(json.dumps(line) + "\n")
            out.flush()

    broker = World(json.loads(sys.stdin.readline()))
    _warm_up(broker)
    lag, cells = Lag(), queue.Queue()
    lag.start()
    threads = [
        threading.Thread(target=_serve, args=(cells, broker, lag, write), daemon=True)
        for _ in range(AT_ONCE)
    ]
    for thread in threads:
        thread.start()
    for line in sys.stdin:
        cells.put(Cell(**json.loads(line)))
    for _ in threads:
        cells.put(None)
    for thread in threads:
        thread.join()
    os._exit(0)  # threads of clients that hang may still run


if __name__ == "__main__":
    main()
