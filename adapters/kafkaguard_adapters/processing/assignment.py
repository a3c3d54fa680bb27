"""What the shells of kafka-python and aiokafka share: records, pauses, topics."""

from __future__ import annotations

from inspect import isawaitable
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from kafkaguard._cluster.reports import TopicPartition, as_partition
from kafkaguard._delivery.facts import Raw

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from kafkaguard._delivery.dialects import LetterFacts


async def chain(listener: Any, name: str, partitions: Any) -> None:
    """Call a method of the application's listener, if there is one."""
    method: Callable[[Any], Any] | None = getattr(listener, name, None)
    result = None if method is None else method(partitions)
    if isawaitable(result):
        await result


class Pauses:
    """Keeps the pauses of a run apart from those of the application.

    A partition is read if neither has paused it. This replaces methods of the client's
    subscription state until ``stop``, as ``KeptPauses`` does, which sees only the
    application's pauses.

    Args:
        subscription: The client's subscription state.

    Attributes:
        of_user: The partitions that the application has paused.
    """

    def __init__(self, subscription: Any) -> None:
        self._subscription = subscription
        self._of_run: set[Any] = set()
        self.of_user: set[Any] = set(subscription.paused_partitions())
        self._pause, self._resume = subscription.pause, subscription.resume
        subscription.pause = self._user_pauses
        subscription.resume = self._user_resumes

    def stop(self) -> None:
        """End the pauses of the run."""
        self.resume(set(self._subscription.assigned_partitions()))
        self._subscription.pause, self._subscription.resume = self._pause, self._resume

    def _user_pauses(self, place: Any) -> None:
        self._pause(place)
        self.of_user.add(place)

    def _user_resumes(self, place: Any) -> None:
        self.of_user.discard(place)
        self._resume(place)
        if place in self._of_run:
            self.pause({place})

    def pause(self, places: Collection[Any]) -> None:
        """Pause partitions for the run."""
        state = self._subscription
        self._of_run.update(places)
        for place in places:
            type(state).pause(state, place)

    def resume(self, places: Collection[Any]) -> None:
        """Resume those of some partitions that only the run has paused."""
        for place in self._of_run.intersection(places) - self.of_user:
            self._resume(place)
        self._of_run.difference_update(places)

    def assigned(self, places: Collection[Any]) -> None:
        """Record new partitions, which the run has not paused."""
        state = self._subscription
        self._of_run.difference_update(places)
        kept = self.of_user.intersection(state.assigned_partitions()).difference(places)
        self.of_user = kept | (state.paused_partitions() - self._of_run)


class AssignmentShell:
    """The part of a shell about records, and about the partitions that are read.

    Args:
        client: The client's consumer.
        partition: The client's class of partitions.
    """

    errors: Any
    #: Returns a copy of a record, with changes.
    _replaced: Callable[..., Any]
    _deserialisers: Any
    _rebalances: Any = None
    offset_of = staticmethod(attrgetter("offset"))
    key_of = staticmethod(attrgetter("key"))

    def __init__(self, client: Any, partition: Callable[[str, int], Any]) -> None:
        self._client = client
        self._partition = partition

    # --- records ----------------------------------------------------------------------

    @property
    def decode(self) -> Callable[[Any], Any] | None:
        """Calls the application's deserialisers; None: there are none."""
        return self._decode if self._deserialisers.are_there else None

    def _decode(self, record: Any) -> Any:
        decoded = {}
        part: Any
        for part in ("key", "value"):
            try:
                decoded[part] = self._deserialisers.call(part, record)
            except Exception as error:
                raise self.errors.undecoded(
                    error,
                    part,
                    topic=record.topic,
                    partition=record.partition,
                    offset=record.offset,
                    key=record.key,
                    value=record.value,
                    headers=record.headers,
                ) from error
        return self._replaced(record, **decoded)

    def raw(self, record: Any) -> Raw:
        """Return a record's bytes."""
        return Raw(record.key, record.value, list(record.headers), record.timestamp)

    def restore(self, record: Any, facts: LetterFacts, raw: Raw) -> Any:
        """Return a dead letter as the record that was first read."""
        return self._replaced(
            record,
            topic=facts.topic,
            partition=facts.partition,
            offset=facts.offset,
            timestamp=raw.timestamp_ms,
            value=raw.value,
            headers=type(record.headers)(raw.headers),
        )

    # --- partitions -------------------------------------------------------------------

    def _assignment(self) -> set[TopicPartition]:
        return set(map(as_partition, self._client.assignment()))

    def _partitions(self, places: Iterable[TopicPartition]) -> list[Any]:
        return [self._partition(*place) for place in places]

    def unlisten(self) -> None:
        """Leave the client to the application again."""
        if self._rebalances is not None:
            self._rebalances.stop()
        self._deserialisers.put_back()

    def pause(self, places: Iterable[TopicPartition]) -> None:
        """Pause partitions."""
        mine = self._partitions(self._assignment().intersection(places))
        self._rebalances.pauses.pause(mine)

    def resume(self, places: Iterable[TopicPartition]) -> None:
        """Resume the partitions that ``pause`` has paused, and not the application."""
        mine = self._partitions(self._assignment().intersection(places))
        self._rebalances.pauses.resume(mine)

    def seek(self, place: TopicPartition, offset: int) -> None:
        """Set the position of a partition, if it is still assigned."""
        if place in self._assignment():
            self._client.seek(self._partition(*place), offset)

    def topics(self) -> Collection[str]:
        """Return the topics that are read, as far as they are known."""
        subscribed = self._client.subscription() or ()
        return {*subscribed, *(place.topic for place in self._assignment())}
