"""A model broker, with whose logs all reported outcomes are compared."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkaguard._delivery.sizes import batch_size

if TYPE_CHECKING:
    from kafkaguard._delivery.facts import Place
    from tests.delivery.world.batches import ModelBatch

INVALID_RECORD, TOO_LARGE, FENCED, OUT_OF_ORDER = 87, 10, 47, 45
#: Answers to a batch that was written all the same: a follower was too slow.
WRITTEN_ANYWAY = frozenset({7, 20})


@dataclass(frozen=True, slots=True)
class Reply:
    """A broker's answer to a batch.

    Attributes:
        code: The error code; 0: the batch was written.
        base_offset: The offset of its first record.
        named: The indexes of the refused records.
    """

    code: int
    base_offset: int = -1
    named: frozenset[int] = frozenset()


@dataclass
class Broker:
    """Writes batches; each batch of an idempotent client at most once.

    Attributes:
        compacted: Topics that refuse records without a key.
        limits: The largest batch of each topic, in bytes.
        validates_first: As in Kafka, records are validated before a duplicate is looked
            for: a batch that was written once is refused if its topic accepts it no
            longer.
        logs: The numbers of records, in the order in which they were written.
    """

    compacted: set[str]
    limits: dict[str, int]
    validates_first: bool = True
    logs: defaultdict[Place, list[int]] = field(
        default_factory=lambda: defaultdict(list)
    )
    _written: dict[ModelBatch, Reply] = field(default_factory=dict)
    _epochs: dict[tuple[int, Place], int] = field(default_factory=dict)

    def limit(self, topic: str) -> int:
        """Return the largest batch of a topic."""
        return self.limits.get(topic, 1 << 20)

    def produce(self, batch: ModelBatch) -> Reply:
        """Write a batch, or refuse it."""
        place, client = batch.at, batch.client
        reply = self._check(batch, place.topic)
        if reply.code and self.validates_first:
            return reply
        if client.is_idempotent:
            if (known := self._written.get(batch)) is not None:
                return known
            identity = client.identity, place
            if self._epochs.get(identity, 0) > client.epoch:
                return Reply(FENCED)
            if client.has_earlier(batch):
                return Reply(OUT_OF_ORDER)
            self._epochs[identity] = client.epoch
        if reply.code:
            return reply
        log = self.logs[place]
        reply = self._written[batch] = Reply(0, len(log))
        log += [item.number for item in batch.items]
        return reply

    def _check(self, batch: ModelBatch, topic: str) -> Reply:
        items = batch.items
        size = sum(batch_size(i.raw.key, i.raw.value, i.raw.headers) for i in items)
        if size > self.limit(topic):
            return Reply(TOO_LARGE)
        bad = [n for n, item in enumerate(items) if item.is_bad]
        if topic in self.compacted:
            bad += [n for n, item in enumerate(items) if item.raw.key is None]
        return Reply(INVALID_RECORD if bad else 0, named=frozenset(bad))
