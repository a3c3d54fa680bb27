"""Reads a dead-letter topic: the letters from a position on, and what comes back."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any

from confluent_kafka import OFFSET_INVALID, Consumer, TopicPartition

from kafkaguard._cluster.reports import make
from kafkaguard._delivery.dead_letters import ATTEMPTS
from kafkaguard._errors import ClientTimeoutError
from kafkaguard_adapters.guard import guard
from kafkaguard_adapters.replay.letters import Place

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from confluent_kafka import Message

    from kafkaguard_adapters.replay.letters import Entry

#: The beginning of a replay's ids: of its group, and of its transactions.
ID = "kafkaguard.replay."
#: Seconds for one look at the cluster.
LOOK_S = 30.0
#: Seconds of one read, and of one look at what came back.
_READ_S, _GLANCE_S = 0.5, 0.1
#: Seconds without a letter until the read of letters that are there fails.
_SILENCE_S = 60.0
#: Letters that are read at once.
_BATCH = 500
#: The most letters that wait in memory for their transaction.
_WAITING = 20_000
#: Seconds over which it is counted how fast letters come back.
_WINDOW_S = 10.0


class LetterReader:
    """Reads a dead-letter topic from the positions of its group.

    Args:
        config: confluent-kafka's settings.
        topic: The dead-letter topic.

    Attributes:
        starts: The first offset of each partition.
        ends: The end of each partition, when the replay began.
    """

    def __init__(self, config: Mapping[str, Any], topic: str) -> None:
        self.topic = topic
        self._waiting: dict[Place, Message] = {}
        self._paused: list[TopicPartition] = []
        self.client: Any = guard(
            factory=Consumer,
            policy="consumer",
            config={
                **config,
                "group.id": ID + topic,
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "error",
            },
        )
        self.starts: dict[int, int] = {}
        self.ends: dict[int, int] = {}

    def open(self, numbers: Sequence[int]) -> None:
        """Look up where partitions begin and end; what arrives later is not read.

        Args:
            numbers: The topic's partitions.

        Raises:
            KafkaGuardError: The topic cannot be read.
        """
        for number in numbers:
            self.starts[number], self.ends[number] = self.client.get_watermark_offsets(
                TopicPartition(self.topic, number), LOOK_S
            )

    def positions(self) -> dict[int, int]:
        """Return the committed positions, once open transactions have ended."""
        places = [TopicPartition(self.topic, number) for number in self.starts]
        committed = self.client.committed(places, LOOK_S)
        return {
            each.partition: max(self.starts[each.partition], each.offset)
            if each.offset != OFFSET_INVALID
            else self.starts[each.partition]
            for each in committed
        }

    def begin(self, positions: Mapping[int, int]) -> None:
        """Read from these positions on."""
        self._waiting.clear()
        self._paused = []
        self.client.assign(
            [TopicPartition(self.topic, *place) for place in positions.items()]
        )

    def read_all(self, positions: Mapping[int, int]) -> Iterator[Message]:
        """Read each letter between the positions and the ends.

        Raises:
            ClientTimeoutError: Nothing was read for a minute.
        """
        self.begin(positions)
        open_ones = {n for n, at in positions.items() if at < self.ends[n]}
        last = time.monotonic()
        while open_ones:
            messages = self.client.consume(_BATCH, _READ_S)
            for message in messages:
                if message.offset() < self.ends[message.partition()]:
                    yield message
            if messages:
                last = time.monotonic()
            self._check_silence(last)
            here = self.client.position(
                [TopicPartition(self.topic, number) for number in open_ones]
            )
            open_ones -= {
                each.partition
                for each in here
                if each.offset >= self.ends[each.partition]
            }

    def read(self, entries: Sequence[Entry]) -> list[Message]:
        """Read the letters of a transaction, in its order.

        Raises:
            ClientTimeoutError: Nothing was read for a minute.
        """
        missing = {entry.place for entry in entries} - self._waiting.keys()
        last = time.monotonic()
        while missing:
            if len(self._waiting) > _WAITING and not self._paused:
                wanted = {place.partition for place in missing}
                self._paused = [
                    TopicPartition(self.topic, number)
                    for number in self.starts
                    if number not in wanted
                ]
                self.client.pause(self._paused)
            for message in self.client.consume(_BATCH, _READ_S):
                place = Place(message.partition(), message.offset())
                self._waiting[place] = message
                missing.discard(place)
                last = time.monotonic()
            self._check_silence(last)
        if self._paused:
            self.client.resume(self._paused)
            self._paused = []
        return [self._waiting.pop(entry.place) for entry in entries]

    def _check_silence(self, last: float) -> None:
        if time.monotonic() - last > _SILENCE_S:
            raise make(
                ClientTimeoutError,
                f"no letter was read for {_SILENCE_S:g} s although some are there: "
                "nothing was lost, start the replay again",
                api="Fetch",
                topic=self.topic,
            )

    def close(self) -> None:
        """Close the client."""
        self.client.close()


class Returns:
    """Counts the replayed records that became letters again.

    Args:
        config: confluent-kafka's settings.
        reader: The reader; letters after its ends are looked at.
        own: The places to which the replay itself appended letters.
    """

    def __init__(
        self, config: Mapping[str, Any], reader: LetterReader, own: set[Place]
    ) -> None:
        self.count = 0
        self._own = own
        self._times: deque[float] = deque()
        self._client: Any = guard(
            factory=Consumer,
            policy="consumer",
            config={
                **config,
                "group.id": f"{ID}{reader.topic}.returns",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            },
        )
        self._client.assign(
            [TopicPartition(reader.topic, *place) for place in reader.ends.items()]
        )

    def look(self) -> int:
        """Read what has arrived; return the count."""
        while messages := self._client.consume(_BATCH, _GLANCE_S):
            for message in messages:
                place = Place(message.partition(), message.offset())
                names = {name for name, _ in message.headers() or ()}
                if place not in self._own and ATTEMPTS in names:
                    self.count += 1
                    self._times.append(time.monotonic())
        return self.count

    def rate(self) -> float:
        """Return how many came back a second, over the last ten seconds."""
        while self._times and self._times[0] < time.monotonic() - _WINDOW_S:
            self._times.popleft()
        return len(self._times) / _WINDOW_S

    def close(self) -> None:
        """Close the client."""
        self._client.close()
