"""Records of kafka-python that the application's deserializers cannot decode.

The client decodes a fetch in a generator, which has ended once a deserializer raised:
the next ``poll`` never returns. It also decodes the records before the position again,
so a seek behind such a record does not help. If decoding fails, the guard therefore
reads the rest of the fetch again as bytes, from the position on, and decodes it itself.
A record that cannot be decoded stays the next one until its error has left ``poll``.
"""

# ruff: noqa: SLF001 - this module is for the use of private attributes

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self

from kafka.record import MemoryRecords
from kafka.structs import OffsetAndMetadata

from kafkaguard_adapters.kafka_python.errors import errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkaguard._errors import KafkaGuardError


class UndecodedError(Exception):
    """Stops the client at a record that cannot be decoded.

    Args:
        rest: The records from this one on.
        record: The record, with its bytes.
        part: What cannot be decoded.
    """

    def __init__(self, rest: _Rest, record: Any, part: Literal["key", "value"]) -> None:
        super().__init__(record.offset)
        self.rest = rest
        self.record = record
        self.part = part

    def passed(self, subscription: Any) -> KafkaGuardError:
        """Go on behind the record, and return the error for the application."""
        self.rest.go_on_behind(self.record, subscription)
        cause, record = self.__cause__, self.record
        assert cause is not None
        return errors.undecoded(
            cause,
            self.part,
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            key=record.key,
            value=record.value,
            headers=record.headers,
        )


def decoded(
    records: Iterator[Any], part: Any, fetch: Any, config: Any
) -> Iterator[Any]:
    """Yield the records of a fetch; what is left after a failure is decoded singly.

    Args:
        records: The client's iterator over them.
        part: The object that the client keeps for the fetch.
        fetch: The fetch.
        config: The fetcher's settings.
    """
    try:
        yield from records
    except (Exception, KeyboardInterrupt) as error:
        part.record_iterator = rest = _Rest(part, fetch, config)
        if isinstance(error, KeyboardInterrupt):
            raise
        yield from rest


class _Rest:
    """The records of a fetch that are not read yet, decoded one by one."""

    def __init__(self, part: Any, fetch: Any, config: Any) -> None:
        self._part = part
        self._config = config
        data = fetch.partition_data
        self._raw = type(part)(
            max(part.fetch_offset, part.next_fetch_offset),
            part.topic_partition,
            MemoryRecords(data.records),
            check_crcs=part.check_crcs,
            isolation_level=part.isolation_level,
            aborted_transactions=data.aborted_transactions,
        )
        self._records = self._raw.record_iterator
        self._stop: UndecodedError | None = None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        if self._stop is not None:
            raise self._stop
        part = self._part
        try:
            record = next(self._records)
        except StopIteration:
            part.next_fetch_offset = self._raw.next_fetch_offset
            part.drain()
            raise
        except Exception:
            part.drain()  # the client fetches the same again
            raise
        decoded: dict[Literal["key", "value"], Any] = {}
        for name in ("key", "value"):
            try:
                decoded[name] = part._deserialize(
                    self._config[f"{name}_deserializer"],
                    record.topic,
                    record.headers,
                    getattr(record, name),
                )
            except Exception as error:
                self._stop = UndecodedError(self, record, name)
                raise self._stop from error
        part.leader_epoch = record.leader_epoch
        part.next_fetch_offset = record.offset + 1
        return record._replace(**decoded)

    def go_on_behind(self, record: Any, subscription: Any) -> None:
        """Set the position behind a record."""
        part, state = (
            self._part,
            subscription.assignment.get(self._part.topic_partition),
        )
        behind = record.offset + 1
        if (
            state is not None
            and state.position is not None
            and state.position.offset == part.next_fetch_offset
        ):
            state.position = OffsetAndMetadata(behind, "", record.leader_epoch)
        part.next_fetch_offset = behind
        self._stop = None
