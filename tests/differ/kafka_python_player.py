"""kafka-python's clients, as a player calls them."""

from __future__ import annotations

import threading
from typing import Any

from kafka import (
    ConsumerRebalanceListener,
    KafkaConsumer,
    KafkaProducer,
    OffsetAndMetadata,
    TopicPartition,
)
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from tests.differ.player import AssignedReading, Player


class Writer(Player):
    """A producer."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        config: dict[str, Any] = {
            "bootstrap_servers": self.world["servers"],
            "linger_ms": self.settings["linger"],
            "request_timeout_ms": 1500,
            "delivery_timeout_ms": 6000,
            "max_block_ms": 4000,
            "retry_backoff_ms": 100,
            "max_request_size": 100_000,
        }
        if self.settings["role"] == "transactions":
            config["transactional_id"] = self.world["group"]
        else:
            config["enable_idempotence"] = self.settings["idempotent"]
            config["acks"] = "all"
        self.client = self.guard(KafkaProducer, config)
        self.futures: list[Any] = []
        if self.settings["role"] == "transactions":
            self.client.init_transactions()

    def send(self, records: list[dict[str, Any]]) -> None:
        """Send records; a failure of one does not keep the others back."""
        for name, record in self.named(records):
            try:
                future = self._send(**record)
            except Exception as failure:
                self.told(name, None, failure)
                continue
            self.futures.append(future)
            future.add_callback(self._delivered, name)
            future.add_errback(self._failed, name)

    def _send(
        self, form: str, topic: str, value: bytes, key: bytes | None, partition: Any
    ) -> Any:
        if form == "positional":
            return self.client.send(topic, value, key, None, partition)
        if form == "headers":
            headers = [("h", b"1")]
            return self.client.send(topic, value, key, headers, partition=partition)
        more = {"timestamp_ms": 1_700_000_000_000} if form == "timestamp" else {}
        return self.client.send(
            topic=topic, value=value, key=key, partition=partition, **more
        )

    def _delivered(self, name: str, where: Any) -> None:
        self.told(name, (where.topic, where.partition, where.offset))

    def _failed(self, name: str, failure: Any) -> None:
        self.told(name, None, failure)

    def flush(self, seconds: float) -> Any:
        """Flush."""
        return self.client.flush(timeout=seconds)

    def outcome(self, back: int, seconds: float) -> None:
        """Wait for the outcome of a record that was sent lately."""
        if len(self.futures) >= back:
            self.futures[-back].get(timeout=seconds)

    def begin(self) -> None:
        """Begin a transaction."""
        self.client.begin_transaction()

    def commit(self) -> None:
        """Commit a transaction."""
        self.client.commit_transaction()

    def abort(self) -> None:
        """Abort a transaction."""
        self.client.abort_transaction()

    def close(self) -> None:
        """Close."""
        self.client.close(timeout=15)


class _Listener(ConsumerRebalanceListener):
    def on_partitions_revoked(self, revoked: Any) -> None:
        """Do nothing."""

    def on_partitions_assigned(self, assigned: Any) -> None:
        """Do nothing."""


class Reader(AssignedReading):
    """A consumer, and a second one of its group."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.client = self.guard(KafkaConsumer, self._config(self.world["servers"]))
        self._second: threading.Thread | None = None
        self._leaves = threading.Event()

    def _config(self, servers: str) -> dict[str, Any]:
        assignors = {
            "eager": [RangePartitionAssignor],
            "cooperative": [StickyPartitionAssignor],
        }
        return {
            "bootstrap_servers": servers,
            "group_id": self.world["group"],
            "auto_offset_reset": "earliest",
            "enable_auto_commit": self.settings["automatic"],
            "auto_commit_interval_ms": self.settings["interval"],
            "partition_assignment_strategy": assignors[self.settings["strategy"]],
            "session_timeout_ms": 6000,
            "heartbeat_interval_ms": 300,
            "request_timeout_ms": 7000,
            "retry_backoff_ms": 100,
        }

    def _places(self) -> list[TopicPartition]:
        topic = self.world["input"]
        return [TopicPartition(topic, number) for number in range(3)]

    def subscribe(self) -> None:
        """Subscribe."""
        self.client.subscribe([self.world["input"]], listener=_Listener())

    def assign(self) -> None:
        """Assign all partitions."""
        self.client.assign(self._places())

    def poll(self, seconds: float, most: int | None = None) -> Any:
        """Poll once."""
        answer = self.client.poll(timeout_ms=int(seconds * 1000), max_records=most)
        self.handed(
            "main", [(r.partition, r.offset) for b in answer.values() for r in b]
        )
        return answer

    def position(self, partition: int) -> Any:
        """Ask for a position."""
        for place in self.mine(partition):
            return self.client.position(place, timeout_ms=2000)
        return None

    def committed(self, partition: int) -> Any:
        """Ask for a committed offset."""
        return self.client.committed(self._places()[partition], timeout_ms=2000)

    def commit_read(self, form: str) -> Any:
        """Commit what was handled."""
        offsets = {
            TopicPartition(self.world["input"], partition): OffsetAndMetadata(
                offset, "", -1
            )
            for partition, offset in self.handled.items()
        }
        if form == "all":
            return self.client.commit(timeout_ms=3000)
        if form == "offsets":
            return self.client.commit(offsets, timeout_ms=3000)
        self.client.commit_async(offsets)
        return None

    def join(self) -> None:
        """Let a second, bare member join."""
        self._leaves.clear()
        self._second = threading.Thread(target=self._read_second, daemon=True)
        self._second.start()

    def _read_second(self) -> None:
        config = {**self._config(self.world["cluster"]), "enable_auto_commit": False}
        second = KafkaConsumer(self.world["input"], **config)
        try:
            while not self._leaves.is_set():
                for place, batch in second.poll(200).items():
                    self.handed("second", [(r.partition, r.offset) for r in batch])
                    end = OffsetAndMetadata(batch[-1].offset + 1, "", -1)
                    second.commit_async({place: end})
        finally:
            second.close(autocommit=False)

    def leave(self) -> None:
        """Let it leave, while this one polls."""
        self._leaves.set()
        if self._second is not None:
            for _ in range(20):
                self.poll(0.2)
                if not self._second.is_alive():
                    break
            self._second.join(5)

    def close(self) -> None:
        """Close."""
        self.client.close(timeout_ms=8000)

    def end(self) -> None:
        """Let the second member go."""
        self._leaves.set()
        if self._second is not None:
            self._second.join(5)
