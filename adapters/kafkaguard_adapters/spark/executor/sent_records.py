"""The records of a topic between two flushes, for the delivery machine.

A delivery report does not say which record it is about. If records are equal, the last
of them counts as failed, so that the newest record is never lost.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from kafkaguard._delivery.facts import Batch, Place, Raw, Refusal

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence

    from kafkaguard_adapters.spark.executor.arrow import SinkRecord

#: The time limit of a batch: none, because librdkafka itself lets records expire.
_FOREVER = float("inf")


class SentRecords(Batch):
    """Records of a topic that were sent, in their order.

    Args:
        topic: The records' topic.
        number: The number of this batch, from 1.
        records: The records.
        failed: The records that failed, each with the client's error.
        tokens: The records' tokens in the machine; None: they are new to the machine.
    """

    __slots__ = ("_failed", "_keys", "_number", "_tokens")

    def __init__(
        self,
        topic: str,
        number: int,
        records: Iterable[SinkRecord],
        failed: Sequence[tuple[Any, SinkRecord]],
        tokens: Sequence[Hashable] | None = None,
    ) -> None:
        super().__init__(Place(topic), (number,), _FOREVER)
        keyed = list(records)
        self._number = number
        self._keys = [record.key for record in keyed]
        self._failed = dict(_match_failures(keyed, failed))
        self._tokens = tokens

    @property
    def count(self) -> int:
        """How many records the batch has."""
        return len(self._keys)

    def tokens(self) -> Sequence[Hashable]:
        """Return each record's token in the machine."""
        return self._tokens or [self._token(index) for index in range(self.count)]

    def _token(self, index: int) -> Hashable:
        return self._tokens[index] if self._tokens else (self._number, index)

    def keys(self) -> Sequence[bytes | None]:
        """Return each record's key."""
        return self._keys

    def raws(self) -> Sequence[Any]:
        """Return the bytes of each failed record at its index, else None."""
        raws: list[Raw | None] = [None] * len(self._keys)
        for index, (_, record) in self._failed.items():
            raws[index] = raw_of(record)
        return raws

    def refusals(self) -> Iterator[Refusal]:
        """Yield why each failed record has failed; which one is to blame is unknown."""
        for index, (error, record) in self._failed.items():
            yield Refusal(
                self._token(index),
                index,
                error,
                blame="unknown",
                sent="answered",
                null_key=record.key is None,
                partition=record.partition if record.partition >= 0 else None,
            )


def raw_of(record: SinkRecord) -> Raw:
    """Return a record's bytes."""
    return Raw(record.key, record.value, record.headers or (), record.timestamp)


def split_superseded(
    records: Sequence[SinkRecord], failed: Sequence[tuple[Any, SinkRecord]]
) -> tuple[list[tuple[Any, SinkRecord]], list[tuple[Any, SinkRecord]]]:
    """Separate the failures that a later record of the same key supersedes.

    As ``Resends._without_superseded``, before there is a machine.

    Args:
        records: All records that were sent, in their order.
        failed: The records that failed, each with the client's error; the others were
            accepted.

    Returns:
        The superseded failures, and the others in the order of the records.
    """
    by_index = dict(_match_failures(records, failed))
    newer: set[tuple[str | None, bytes]] = set()
    late, others = [], []
    for index in range(len(records) - 1, -1, -1):
        record = records[index]
        failure = by_index.get(index)
        if record.key is None:
            others += [] if failure is None else [failure]
        elif failure is None:
            newer.add((record.topic, record.key))
        elif (record.topic, record.key) in newer:
            late.append(failure)
        else:
            others.append(failure)
    return late, others[::-1]


def _match_failures(
    records: Sequence[SinkRecord], failed: Sequence[tuple[Any, SinkRecord]]
) -> Iterator[tuple[int, tuple[Any, SinkRecord]]]:
    """Find the index of each failed record, from the last record to the first."""
    unmatched = defaultdict(list)
    for failure in failed:
        unmatched[identity(failure[1])].append(failure)
    keys = {record.key for _, record in failed}
    for index in range(len(records) - 1, -1, -1):
        record = records[index]
        if record.key in keys and (failures := unmatched.get(identity(record))):
            yield index, failures.pop()


def identity(record: SinkRecord) -> tuple[Any, ...]:
    """Return what equal records have in common."""
    headers = tuple(map(tuple, record.headers or ()))
    return record.topic, record.key, record.value, headers
