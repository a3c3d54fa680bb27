"""confluent-kafka's clients, as a player calls them."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, Producer, TopicPartition

from kafkaguard.errors import DeliveryFailed
from tests.differ import trace
from tests.differ.player import Player

if TYPE_CHECKING:
    from collections.abc import Iterator


class Writer(Player):
    """A producer."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        config: dict[str, Any] = {
            "bootstrap.servers": self.world["servers"],
            "linger.ms": self.settings["linger"],
            "request.timeout.ms": 1500,
            "socket.timeout.ms": 2000,
            "delivery.timeout.ms": 6000,
            "retry.backoff.ms": 100,
            "message.max.bytes": 100_000,
            "log_level": 0,
            "error_cb": lambda _: None,
        }
        if self.settings["role"] == "transactions":
            config["transactional.id"] = self.world["group"]
        else:
            config["enable.idempotence"] = self.settings["idempotent"]
        self.client = self.guard(Producer, config)
        if self.settings["role"] == "transactions":
            self.client.init_transactions(10)

    def send(self, records: list[dict[str, Any]]) -> None:
        """Produce records; a failure of one does not keep the others back."""
        for name, record in self.named(records):
            try:
                self._send(**record, tell=self._teller(name))
            except Exception as failure:
                self.told(name, None, failure)
        self.client.poll(0)

    def _send(
        self, form: str, topic: str, value: bytes, key: Any, partition: Any, tell: Any
    ) -> None:
        more = {} if partition is None else {"partition": 0}
        if form == "positional" and not more:
            self.client.produce(topic, value, key, on_delivery=tell)
        elif form == "headers":
            headers = [("h", b"1")]
            self.client.produce(
                topic, value, key, headers=headers, callback=tell, **more
            )
        else:
            if form == "timestamp":
                more["timestamp"] = 1_700_000_000_000
            self.client.produce(
                topic=topic, value=value, key=key, on_delivery=tell, **more
            )

    def _teller(self, name: str) -> Any:
        def tell(error: Any, message: Any) -> None:
            if error is None:
                where = message.topic(), message.partition(), message.offset()
                self.told(name, where)
            else:
                self.told(name, None, getattr(error, "error", error))

        return tell

    def flush(self, seconds: float) -> Any:
        """Flush."""
        with self._counting():
            return self.client.flush(seconds)

    @contextlib.contextmanager
    def _counting(self) -> Iterator[None]:
        """Write how many of the delivered records may be twice in their topic."""
        try:
            yield
        except DeliveryFailed as failed:
            trace.write("maybe_twice", count=failed.report.maybe_twice)
            raise
        finally:
            if self.guarded:
                trace.write("maybe_twice", count=self.client.report().maybe_twice)

    def pause(self, seconds: float) -> None:
        """Poll, as an application does."""
        self.client.poll(seconds)

    def outcome(self, back: int, seconds: float) -> None:
        """Poll."""
        del back
        self.client.poll(min(seconds, 0.5))

    def purge(self) -> None:
        """Drop what is queued."""
        self.client.purge()

    def begin(self) -> None:
        """Begin a transaction."""
        self.client.begin_transaction()

    def commit(self) -> None:
        """Commit a transaction."""
        self.client.commit_transaction(8)

    def abort(self) -> None:
        """Abort a transaction."""
        self.client.abort_transaction(8)

    def close(self) -> None:
        """Flush, then close."""
        if self.guarded:
            with self._counting():
                self.client.close(15)
        else:
            self.client.flush(15)


class Reader(Player):
    """A consumer, and a second one of its group."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.client = self.guard(Consumer, self._config(self.world["servers"]))
        self._second: threading.Thread | None = None
        self._leaves = threading.Event()
        self._paused: list[TopicPartition] = []
        self._last: Any = None

    def _config(self, servers: str) -> dict[str, Any]:
        strategies = {"eager": "range", "cooperative": "cooperative-sticky"}
        return {
            "bootstrap.servers": servers,
            "group.id": self.world["group"],
            "auto.offset.reset": "earliest",
            "enable.auto.commit": self.settings["automatic"],
            "auto.commit.interval.ms": self.settings["interval"],
            "partition.assignment.strategy": strategies[self.settings["strategy"]],
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 300,
            "socket.timeout.ms": 2000,
            "retry.backoff.ms": 100,
            "log_level": 0,
            "error_cb": lambda _: None,
        }

    def _places(self) -> list[TopicPartition]:
        return [TopicPartition(self.world["input"], number) for number in range(3)]

    def subscribe(self) -> None:
        """Subscribe."""
        self.client.subscribe([self.world["input"]])

    def assign(self) -> None:
        """Assign all partitions, from their start."""
        for place in (places := self._places()):
            place.offset = 0
        self.client.assign(places)

    def poll(self, seconds: float, most: int | None = None) -> Any:
        """Poll once."""
        del most
        message = self.client.poll(seconds)
        self._take([] if message is None else [message])
        return message

    def consume(self, most: int, seconds: float) -> Any:
        """Consume several."""
        messages = self.client.consume(most, seconds)
        self._take(messages)
        return messages

    def _take(self, messages: list[Any]) -> None:
        good = [m for m in messages if m.error() is None]
        if good:
            self._last = good[-1]
        self.handed("main", [(m.partition(), m.offset()) for m in good])

    def pause_reading(self, partition: int) -> None:
        """Pause a partition that is assigned."""
        self.client.pause(self._mine(partition))

    def _mine(self, partition: int | None = None) -> list[TopicPartition]:
        mine = self.client.assignment()
        return [p for p in mine if partition in (None, p.partition)]

    def resume_reading(self) -> None:
        """Resume all."""
        self.client.resume(self._mine())

    def seek_back(self, partition: int) -> None:
        """Read a partition again from its start."""
        for place in self._mine(partition):
            self.client.seek(TopicPartition(place.topic, place.partition, 0))

    def position(self, partition: int) -> Any:
        """Ask for a position."""
        return self.client.position(self._mine(partition))

    def committed(self, partition: int) -> Any:
        """Ask for a committed offset."""
        return self.client.committed([self._places()[partition]], timeout=2)

    def commit_read(self, form: str) -> Any:
        """Commit what was handled."""
        offsets = [
            TopicPartition(self.world["input"], partition, offset)
            for partition, offset in self.handled.items()
        ]
        if form == "message":
            if self._last is None:
                return None
            return self.client.commit(message=self._last, asynchronous=False)
        if form == "all":
            return self.client.commit(asynchronous=False)
        if form == "offsets":
            return self.client.commit(offsets=offsets, asynchronous=False)
        return self.client.commit(offsets=offsets)

    def join(self) -> None:
        """Let a second, bare member join."""
        self._leaves.clear()
        self._second = threading.Thread(target=self._read_second, daemon=True)
        self._second.start()

    def _read_second(self) -> None:
        config = {**self._config(self.world["cluster"]), "enable.auto.commit": False}
        second = Consumer(config)
        second.subscribe([self.world["input"]])
        try:
            while not self._leaves.is_set():
                message = second.poll(0.1)
                if message is not None and message.error() is None:
                    where = message.partition(), message.offset()
                    self.handed("second", [where])
                    with contextlib.suppress(Exception):
                        second.commit(message=message)
        finally:
            second.close()

    def leave(self) -> None:
        """Let it leave, while this one polls."""
        self._leaves.set()
        if self._second is not None:
            end = time.monotonic() + 4
            while self._second.is_alive() and time.monotonic() < end:
                self.poll(0.2)
            self._second.join(5)

    def close(self) -> None:
        """Close."""
        self.client.close()

    def end(self) -> None:
        """Let the second member go."""
        self._leaves.set()
        if self._second is not None:
            self._second.join(5)
