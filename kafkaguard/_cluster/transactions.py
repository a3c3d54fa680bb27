"""Open transactions: who holds up readers of committed records (KIP-664)."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from kafkaguard._cluster.reports import TopicPartition
    from kafkaguard._errors import KafkaGuardError

#: A coordinator ends what is open for longer than its largest time limit (15 minutes by
#: default), so what is older and unknown to it hangs.
HANGING_S = 900.0


class OpenProducer(NamedTuple):
    """A producer with an open transaction in a partition, as the leader knows it.

    Attributes:
        producer_id: Its id.
        epoch: Its epoch.
        start_offset: The first offset of the transaction.
        written_at: When it last wrote here, in seconds since 1970.
        coordinator_epoch: The epoch of the coordinator's last marker; -1: none.
    """

    producer_id: int
    epoch: int
    start_offset: int
    written_at: float
    coordinator_epoch: int


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """An open transaction.

    Attributes:
        transactional_id: The id; None if no coordinator knows the transaction.
        producer_id: The producer's id.
        epoch: The producer's epoch.
        state: The coordinator's word: ``Ongoing``, ``PrepareCommit``, ``PrepareAbort``;
            ``Hanging`` if no coordinator knows it.
        since: When it began, in seconds since 1970; of one that hangs, when it last
            wrote; None if unknown.
        timeout: The seconds after which the coordinator aborts it; None if unknown.
        partitions: The partitions that it has written to.
        blocked: The offsets that readers of committed records cannot read because of
            it, by partition; those of partitions where this is known.
        coordinator: The broker that coordinates it; None if none does.
        producers: What the leaders know of it, by partition.
    """

    transactional_id: str | None
    producer_id: int
    epoch: int
    state: str
    since: float | None = None
    timeout: float | None = None
    partitions: tuple[TopicPartition, ...] = ()
    blocked: Mapping[TopicPartition, int] = field(default_factory=dict)
    coordinator: int | None = None
    producers: Mapping[TopicPartition, OpenProducer] = field(default_factory=dict)

    @property
    def is_hanging(self) -> bool:
        """Whether no coordinator will ever end it."""
        return self.coordinator is None

    def age(self, now: float) -> float | None:
        """Return the seconds since it began; None if unknown."""
        return None if self.since is None else max(0.0, now - self.since)

    @property
    def name(self) -> str:
        """The transactional id, or the producer's id."""
        return self.transactional_id or f"producer {self.producer_id}"


@dataclass(frozen=True, slots=True)
class TransactionsReport:
    """The open transactions of a cluster.

    Attributes:
        transactions: The oldest one first; those of unknown age last.
        taken_at: When it was taken, in seconds since 1970.
        errors: Why it may not be complete.
    """

    transactions: tuple[OpenTransaction, ...]
    taken_at: float
    errors: tuple[KafkaGuardError, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether each broker has answered everything."""
        return not self.errors

    def of_topics(self, topics: Collection[str]) -> TransactionsReport:
        """Return the report with only the transactions that write to some topics."""
        some = tuple(
            one
            for one in self.transactions
            if any(place.topic in topics for place in one.partitions)
        )
        return replace(self, transactions=some)


def find_hanging(
    known: Iterable[OpenTransaction],
    producers: Mapping[TopicPartition, Iterable[OpenProducer]],
    blocked: Mapping[TopicPartition, int],
    now: float,
) -> list[OpenTransaction]:
    """Add what leaders know to the transactions that coordinators know.

    What only a leader knows, and has not been written to for 15 minutes, hangs. A
    younger one may have begun after the coordinators were asked.

    Args:
        known: The transactions that coordinators know.
        producers: The producers with an open transaction, by partition.
        blocked: The offsets behind the last stable one, by partition.
        now: The time, in seconds since 1970.
    """
    by_producer: dict[tuple[int, int], dict[TopicPartition, OpenProducer]]
    by_producer = defaultdict(dict)
    for place, some in producers.items():
        for each in some:
            by_producer[each.producer_id, each.epoch][place] = each
    found = []
    for one in known:
        seen = by_producer.pop((one.producer_id, one.epoch), {})
        ours = {place: blocked[place] for place in one.partitions if place in blocked}
        found.append(replace(one, blocked=ours, producers=seen))
    for (producer_id, epoch), seen in by_producer.items():
        written_at = max(each.written_at for each in seen.values())
        if now - written_at >= HANGING_S:
            places = tuple(sorted(seen))
            hanging = OpenTransaction(
                None, producer_id, epoch, "Hanging", written_at, None, places
            )
            held = {place: blocked[place] for place in places if place in blocked}
            found.append(replace(hanging, blocked=held, producers=seen))
    found.sort(key=lambda one: now if one.since is None else one.since)
    return found
