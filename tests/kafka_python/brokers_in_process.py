"""Brokers for kafka-python's producers in this process, which keep epochs and numbers.

They stand where kafka-python's network client stands (``kafka_client=``): a request is
handled at once, and its answer may come later.
"""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

from kafka import TopicPartition
from kafka.future import Future
from kafka.record import MemoryRecords

#: How many of the last batches of a producer a broker takes for copies.
KEPT = 5


class Brokers:
    """A topic ``t`` on some brokers.

    Attributes:
        log: The values in each partition.
        fault: Called with kind, broker, request and client. It returns None, a code,
            ``("lost", error)`` if the request is handled and the answer lost, or for
            Produce a function from the partition to a code.
        delay: Called likewise; returns after how many seconds the answer comes.
        transactions: For each ``transactional.id``: the producer id, the epoch, the one
            before, and whether a transaction is open.
    """

    def __init__(self, partitions=1, brokers=1):
        self.partitions, self.brokers = range(partitions), brokers
        self.log = {number: [] for number in self.partitions}
        self.transactions = {}
        self.clients = []
        self.fault = lambda *_: None
        self.delay = lambda *_: 0.0
        self._producers = {}  # (partition, id): epoch, last number, last batches
        self._next_id = 7
        self._lock = threading.RLock()

    def config(self, **more):
        """Return the settings of a producer that is connected to them."""
        return {
            "kafka_client": lambda **_: Client(self),
            "bootstrap_servers": "127.0.0.1:1",
            "retry_backoff_ms": 10,
            **more,
        }

    def answer(self, kind, broker, request, client):
        """Handle a request."""
        with self._lock:
            fault = self.fault(kind, broker, request, client)
            lost = fault[1] if isinstance(fault, tuple) else None
            handle = getattr(self, f"_handle_{kind}")
            answer = handle(request, None if lost else fault)
            return lost or answer

    def _handle_FindCoordinator(self, _, code):
        return SimpleNamespace(coordinators=[SimpleNamespace(error_code=code or 0)])

    def _handle_InitProducerId(self, request, code):
        name = request.transactional_id
        shown = request.producer_id, request.producer_epoch
        state = self.transactions.get(name)
        if code:
            given = -1, -1
        elif state is None:
            given = self._next_id, 0
            self._next_id += 1
            if name is not None:
                self.transactions[name] = [*given, -1, False]
        elif shown == (state[0], state[2]):  # KIP-360: the same request once more
            given = state[0], state[1]
        elif shown[0] not in (-1, state[0]) or shown[1] not in (-1, state[1]):
            code, given = 90, (-1, -1)
        else:
            state[1:] = state[1] + 1, state[1], False
            given = state[0], state[1]
        return SimpleNamespace(
            error_code=code or 0, producer_id=given[0], producer_epoch=given[1]
        )

    def _handle_AddPartitionsToTxn(self, request, code):
        state = self.transactions[request.v3_and_below_transactional_id]
        shown = request.v3_and_below_producer_id, request.v3_and_below_producer_epoch
        if shown != (state[0], state[1]):
            code = 90
        elif not code:
            state[3] = True
        topics = [
            (each.name, [(number, code or 0) for number in each.partitions])
            for each in request.v3_and_below_topics
        ]
        return SimpleNamespace(results_by_topic_v3_and_below=topics)

    def _handle_EndTxn(self, request, code):
        state = self.transactions[request.transactional_id]
        if (request.producer_id, request.producer_epoch) != (state[0], state[1]):
            code = 90
        elif not code:
            code, state[3] = 0 if state[3] else 48, False
        return SimpleNamespace(error_code=code)

    def _handle_Produce(self, request, fault):
        topics = []
        for topic in request.topic_data:
            answers = []
            for each in topic.partition_data:
                code = fault(each.index) if callable(fault) else fault
                base = -1 if code else 0
                for batch in () if code else MemoryRecords(bytes(each.records)):
                    code, base = self._write(each.index, batch)
                answer = SimpleNamespace(
                    index=each.index,
                    error_code=code or 0,
                    base_offset=base,
                    log_append_time_ms=-1,
                    log_start_offset=0,
                    record_errors=(),
                    error_message=None,
                )
                answers.append(answer)
            topics.append(SimpleNamespace(name=topic.name, partition_responses=answers))
        return SimpleNamespace(responses=topics)

    def _write(self, partition, batch):
        values = [record.value for record in batch]
        first, base = batch.base_sequence, len(self.log[partition])
        last = first + len(values) - 1
        name = partition, batch.producer_id
        epoch, newest, batches = self._producers.get(name, (-1, -1, []))
        if batch.producer_epoch < epoch:
            return 47, -1
        if batch.producer_epoch > epoch:
            newest, batches = -1, []
        if (first, last) in (copies := dict(batches)):
            return 0, copies[first, last]
        if first != newest + 1:
            return 45, -1
        kept = [*batches, ((first, last), base)][-KEPT:]
        self._producers[name] = batch.producer_epoch, last, kept
        self.log[partition] += values
        return 0, base


class Cluster:
    """What a client knows of the topic."""

    def __init__(self, brokers):
        self._brokers = brokers
        self._lock, self._future = threading.Lock(), None
        self.unauthorized_topics = set()

    @property
    def _last_successful_refresh_ms(self):
        return time.monotonic() * 1000

    def leader_for_partition(self, place):
        """Return the leader."""
        return place.partition % self._brokers.brokers

    def partitions_for_broker(self, broker):
        """Return the partitions that a broker leads."""
        places = [TopicPartition("t", number) for number in self._brokers.partitions]
        return [each for each in places if self.leader_for_partition(each) == broker]

    def partitions_for_topic(self, _):
        """Return the numbers of the partitions."""
        return {*self._brokers.partitions}

    available_partitions_for_topic = partitions_for_topic

    def topics(self, **_):
        """Return the names of the topics."""
        return {"t"}

    def add_topic(self, _):
        """Know it already."""
        return Future().success(True)

    def request_update(self):
        """Know everything already."""
        return Future().success(True)

    def brokers(self):
        """Return the brokers."""
        return [SimpleNamespace(node_id=n) for n in range(self._brokers.brokers)]

    def add_coordinator(self, *_, **__):
        """Return the broker that leads groups and transactions."""
        return 0


class Client:
    """Stands for kafka-python's network client."""

    def __init__(self, brokers):
        self._brokers = brokers
        self.number = len(brokers.clients)
        brokers.clients.append(self)
        self.cluster = Cluster(brokers)
        self._manager = SimpleNamespace(
            broker_version_data=True, broker_version=(4, 0), cluster=self.cluster
        )
        self._waiting, self._answers, self._is_woken = threading.Condition(), [], False
        self.is_closed = False

    def send(self, broker, request, wakeup=True):
        """Let a broker handle a request; its answer comes with a poll."""
        kind, future = type(request).__name__.removesuffix("Request"), Future()
        given = kind, broker, request, self
        due = time.monotonic() + self._brokers.delay(*given)
        answer = self._brokers.answer(*given)
        with self._waiting:
            self._answers.append((due, future, answer))
        return future

    def poll(self, timeout_ms=None, future=None):
        """Hand out the answers that are due."""
        end = time.monotonic() + min((timeout_ms or 0) / 1000, 0.05)
        with self._waiting:
            while True:
                now = time.monotonic()
                due = [each for each in self._answers if each[0] <= now]
                if due or self._is_woken or now >= end:
                    break
                first = min([end, *(each[0] for each in self._answers)])
                self._waiting.wait(max(0.001, first - now))
            self._is_woken = False
            self._answers = [each for each in self._answers if each not in due]
        for _, waiter, answer in due:
            is_error = isinstance(answer, BaseException)
            waiter.failure(answer) if is_error else waiter.success(answer)
        if not due:
            time.sleep(0.001)

    def wakeup(self):
        """End a poll."""
        with self._waiting:
            self._is_woken = True
            self._waiting.notify_all()

    def is_ready(self, _):
        """Be connected to all."""
        return True

    def connection_delay(self, _):
        """Return how many milliseconds to wait for a connection."""
        return 10

    def maybe_connect(self, _, wakeup=False):
        """Be connected already."""

    connected = is_ready

    def await_ready(self, node_id, timeout_ms=30_000):
        """Be connected to all."""
        return True

    def bootstrap_connected(self):
        """Be connected."""
        return True

    def least_loaded_node(self):
        """Return any broker."""
        return 0

    def in_flight_request_count(self):
        """Return how many answers are still to come."""
        return len(self._answers)

    def close(self):
        """Take note that it is closed."""
        self.is_closed = True
