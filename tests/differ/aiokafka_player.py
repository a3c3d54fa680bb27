"""aiokafka's clients, as a player calls them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import (
    StickyPartitionAssignor,
)

from aiokafka import (
    AIOKafkaConsumer,
    AIOKafkaProducer,
    ConsumerRebalanceListener,
    TopicPartition,
)
from tests.differ.player import AssignedReading, Player

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

#: Seconds until a call of the client counts as hung.
_MOST_S = 40.0


class _Looped(Player):
    """A player whose calls are awaited."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.loop = asyncio.new_event_loop()
        self.loop.set_exception_handler(lambda *_: None)
        asyncio.set_event_loop(self.loop)
        self.run(self.open())

    async def open(self) -> None:
        """Make and start the client."""
        raise NotImplementedError

    def run(self, work: Awaitable[Any], seconds: float = _MOST_S) -> Any:
        """Await a call."""
        return self.loop.run_until_complete(asyncio.wait_for(work, seconds))

    def pause(self, seconds: float) -> None:
        """Let the loop go on."""
        self.run(asyncio.sleep(seconds))


class Writer(_Looped):
    """A producer."""

    async def open(self) -> None:
        """Make and start it."""
        config: dict[str, Any] = {
            "bootstrap_servers": self.world["servers"],
            "linger_ms": self.settings["linger"],
            "request_timeout_ms": 6000,
            "retry_backoff_ms": 100,
            "max_request_size": 100_000,
        }
        if self.settings["role"] == "transactions":
            config["transactional_id"] = self.world["group"]
        else:
            config["enable_idempotence"] = self.settings["idempotent"]
            config["acks"] = "all"
        self.client = self.guard(AIOKafkaProducer, config)
        self.futures: list[Any] = []
        await self.client.start()

    def send(self, records: list[dict[str, Any]]) -> None:
        """Send records; a failure of one does not keep the others back."""
        self.run(self._send_all(records))

    async def _send_all(self, records: list[dict[str, Any]]) -> None:
        for name, record in self.named(records):
            try:
                future = await self._send(**record)
            except Exception as failure:
                self.told(name, None, failure)
                continue
            self.futures.append(future)
            future.add_done_callback(self._teller(name))

    def _send(
        self, form: str, topic: str, value: bytes, key: bytes | None, partition: Any
    ) -> Any:
        if form == "positional":
            return self.client.send(topic, value, key, partition)
        if form == "headers":
            headers = [("h", b"1")]
            return self.client.send(topic, value, key, partition, headers=headers)
        more = {"timestamp_ms": 1_700_000_000_000} if form == "timestamp" else {}
        return self.client.send(
            topic=topic, value=value, key=key, partition=partition, **more
        )

    def _teller(self, name: str) -> Any:
        def tell(future: Any) -> None:
            if future.cancelled():
                self.told(name, None, asyncio.CancelledError())
            elif failure := future.exception():
                self.told(name, None, failure)
            else:
                where = future.result()
                self.told(name, (where.topic, where.partition, where.offset))

        return tell

    def flush(self, seconds: float) -> Any:
        """Flush."""
        return self.run(self.client.flush(), seconds)

    def outcome(self, back: int, seconds: float) -> None:
        """Wait for the outcome of a record that was sent lately."""
        if len(self.futures) >= back:
            self.run(asyncio.shield(self.futures[-back]), seconds)

    def begin(self) -> None:
        """Begin a transaction."""
        self.run(self.client.begin_transaction())

    def commit(self) -> None:
        """Commit a transaction."""
        self.run(self.client.commit_transaction())

    def abort(self) -> None:
        """Abort a transaction."""
        self.run(self.client.abort_transaction())

    def close(self) -> None:
        """Stop."""
        self.run(self.client.stop())


class _Listener(ConsumerRebalanceListener):
    def on_partitions_revoked(self, revoked: Any) -> None:
        """Do nothing."""

    def on_partitions_assigned(self, assigned: Any) -> None:
        """Do nothing."""


class Reader(_Looped, AssignedReading):
    """A consumer, and a second one of its group."""

    async def open(self) -> None:
        """Make and start it."""
        self.client = self.guard(AIOKafkaConsumer, self._config(self.world["servers"]))
        self._second: Any = None
        await self.client.start()

    def pause_reading(self, partition: int) -> None:
        """Pause within the event loop: outside it the client's own call breaks."""
        self.run(self._within(super().pause_reading, partition))

    def resume_reading(self) -> None:
        """Resume within the event loop."""
        self.run(self._within(super().resume_reading))

    async def _within(self, call: Callable[..., object], *args: Any) -> None:
        call(*args)

    def _config(self, servers: str) -> dict[str, Any]:
        assignors = {
            "eager": (RangePartitionAssignor,),
            "cooperative": (StickyPartitionAssignor,),
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
            "request_timeout_ms": 3000,
            "retry_backoff_ms": 100,
        }

    def _places(self) -> list[TopicPartition]:
        return [TopicPartition(self.world["input"], number) for number in range(3)]

    def subscribe(self) -> None:
        """Subscribe."""
        self.client.subscribe([self.world["input"]], listener=_Listener())

    def assign(self) -> None:
        """Assign all partitions."""
        self.client.assign(self._places())

    def poll(self, seconds: float, most: int | None = None) -> Any:
        """Read what is there."""
        return self.run(self._poll(seconds, most))

    async def _poll(self, seconds: float, most: int | None) -> Any:
        if most == 1:
            try:
                record = await asyncio.wait_for(self.client.getone(), seconds or 0.05)
            except TimeoutError:
                return None
            self.handed("main", [(record.partition, record.offset)])
            return record
        answer = await self.client.getmany(
            timeout_ms=int(seconds * 1000), max_records=most
        )
        self.handed(
            "main", [(r.partition, r.offset) for b in answer.values() for r in b]
        )
        return answer

    def position(self, partition: int) -> Any:
        """Ask for a position."""
        for place in self.mine(partition):
            return self.run(self.client.position(place), 5)
        return None

    def committed(self, partition: int) -> Any:
        """Ask for a committed offset."""
        return self.run(self.client.committed(self._places()[partition]), 8)

    def commit_read(self, form: str) -> Any:
        """Commit what was handled."""
        if form == "all":
            return self.run(self.client.commit(), 8)
        mine = self.mine()
        offsets = {
            place: self.handled[place.partition]
            for place in mine
            if place.partition in self.handled
        }
        return self.run(self.client.commit(offsets), 8) if offsets else None

    def join(self) -> None:
        """Let a second, bare member join."""
        self._second = self.loop.create_task(self._read_second())

    async def _read_second(self) -> None:
        config = {**self._config(self.world["cluster"]), "enable_auto_commit": False}
        second = AIOKafkaConsumer(self.world["input"], **config)
        await second.start()
        try:
            while True:
                for place, batch in (await second.getmany(timeout_ms=200)).items():
                    self.handed("second", [(r.partition, r.offset) for r in batch])
                    await second.commit({place: batch[-1].offset + 1})
        finally:
            await second.stop()

    def leave(self) -> None:
        """Let it leave, while this one polls."""
        if self._second is not None:
            self._second.cancel()
            for _ in range(20):
                self.poll(0.2)
                if self._second.done():
                    break

    def close(self) -> None:
        """Stop."""
        self.run(self.client.stop())

    def end(self) -> None:
        """Let the second member go."""
        if self._second is not None and not self._second.done():
            self._second.cancel()
            self.run(asyncio.wait([self._second], timeout=5))
