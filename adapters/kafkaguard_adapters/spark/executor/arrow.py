"""A batch of records as Arrow columns."""

from __future__ import annotations

from functools import cached_property, reduce
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kafkaguard._delivery.dead_letters import NAMELESS, SOURCE, Reason
from kafkaguard._delivery.sizes import (
    BATCH_HEADER_BYTES,
    FIXED_BYTES,
    NUMBER_STEPS,
    batch_size,
    headers_size,
)
from kafkaguard_adapters.spark.columns import REFUSED
from kafkaguard_adapters.spark.executor.size_limits import Sizes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kafkaguard._delivery.facts import Header

#: Most bytes of a batch beside key and value, with one record without headers.
MOST_FRAMING_BYTES = BATCH_HEADER_BYTES + FIXED_BYTES + 4 * (1 + len(NUMBER_STEPS))
#: confluent-kafka's value for "the partitioner chooses the partition".
ANY_PARTITION = -1
#: Timestamps with another meaning: to librdkafka 0 is the time of sending, to Kafka -1
#: is no timestamp.
UNWRITABLE_TIMES = frozenset({0, -1})
_EMPTY = "{}"
#: The character at which librdkafka ends a header's name.
NUL = "\0"
_PICTURE_OF_NUL = "\N{SYMBOL FOR NULL}"


class SinkRecord(NamedTuple):
    """A record to send.

    Its timestamp is in milliseconds since 1970; None: the time of sending.
    """

    topic: str | None
    key: bytes | None
    value: bytes | None
    headers: list[Header] | None = None
    partition: int = ANY_PARTITION
    timestamp: int | None = None

    @property
    def sizes(self) -> Sizes:
        """The sizes of the record in bytes."""
        own = len(self.key or b"") + len(self.value or b"") + _size(self.headers)
        return Sizes(own, batch_size(self.key, self.value, self.headers or ()))


class Columns:
    """The columns of a batch.

    Args:
        batch: The Arrow batch from Spark.
        topic: The topic of all records, if no column names it.
    """

    def __init__(self, batch: Any, topic: str | None) -> None:
        self._batch = batch
        self._topic = topic
        self._names = batch.schema.names

    def __len__(self) -> int:
        """Count the records."""
        rows: int = self._batch.num_rows
        return rows

    def without(self, refused: Iterable[int]) -> Columns:
        """Return the columns without some rows."""
        gone = set(refused)
        kept = [row for row in range(len(self)) if row not in gone]
        return Columns(self._batch.take(pa.array(kept, pa.int64())), self._topic)

    def records(self) -> Iterator[SinkRecord]:
        """Yield the records."""
        keys, headers = self._bytes("key"), self._headers or repeat(None)
        times = self._timestamps.to_pylist()
        rest = zip(headers, self._partitions(), times, strict=False)
        for topic, key, value, others in zip(
            self._topics(), keys, self._bytes("value"), rest, strict=False
        ):
            yield SinkRecord(topic, key, value, *others)

    @property
    def are_plain(self) -> bool:
        """Whether there are no columns headers, partition and timestamp."""
        return not {"headers", "partition", "timestamp"} & set(self._names)

    def plain(self) -> Iterator[tuple[Any, ...]]:
        """Yield topic, value and key only, which is the fastest way."""
        columns = self._topics(), self._bytes("value"), self._bytes("key")
        return zip(*columns, strict=False)

    def record(self, row: int) -> SinkRecord:
        """Return one record, with a header that names its source file if known."""
        record = next(Columns(self._batch.slice(row, 1), self._topic).records())
        source = self._source(row)
        if source is None:
            return record
        headers = [*(record.headers or []), (SOURCE, source.encode())]
        return record._replace(headers=headers)

    def by_topic(self) -> Iterator[tuple[str | None, Any]]:
        """Yield each topic with a mask of its rows; the mask None means all rows."""
        if "topic" not in self._names:
            yield self._topic, None
            return
        topics = self._batch.column("topic")
        for topic in pc.unique(topics).to_pylist():
            rows = pc.is_null(topics) if topic is None else pc.equal(topics, topic)
            yield topic, pc.fill_null(rows, fill_value=False)

    def no_key(self) -> Any:
        """Return the mask of the rows without a key."""
        if "key" not in self._names:
            return pa.array([True] * len(self), pa.bool_())
        return pc.is_null(self._batch.column("key"))

    def collapsed_keys(self) -> int:
        """Count the rows whose key is an empty JSON object."""
        if "key" not in self._names:
            return 0
        column = self._batch.column("key")
        return pc.sum(pc.equal(column, pa.scalar(_EMPTY, column.type))).as_py() or 0

    def outside(self, partitions: int) -> Any:
        """Return the mask of the rows with a partition that a topic does not have."""
        if "partition" not in self._names:
            return self._no_row
        column = self._batch.column("partition")
        beyond = pc.or_(pc.less(column, 0), pc.greater_equal(column, partitions))
        return pc.fill_null(beyond, fill_value=False)

    def refused_before(self) -> dict[int, Reason]:
        """Return the rows that were refused before the sink, each with the reason."""
        if REFUSED not in self._names:
            return {}
        column = self._batch.column(REFUSED)
        rows = pc.indices_nonzero(pc.is_valid(column)).to_pylist()
        reasons = pc.struct_field(column, "reason")
        return {row: Reason(reasons[row].as_py()) for row in rows}

    def nameless(self) -> Any:
        """Return the mask of the rows with a header that has no name."""
        return self._with_header_name(pc.is_null)

    def cut_names(self) -> Any:
        """Return the mask of the rows with a name that librdkafka would cut."""
        return self._with_header_name(lambda names: pc.match_substring(names, NUL))

    def unwritable_times(self) -> Any:
        """Return the mask of the rows whose timestamp would get another meaning."""
        times = pa.array(UNWRITABLE_TIMES, pa.int64())
        return pc.is_in(self._timestamps, times)

    def at_most(self) -> float:
        """Return an upper bound of the rows' sizes, cheaper than all sizes."""
        if "headers" in self._names:
            return float("inf")
        longest = 0
        for name in {"key", "value"} & set(self._names):
            lengths = pc.binary_length(self._batch.column(name))
            longest += pc.max(lengths).as_py() or 0
        return longest + MOST_FRAMING_BYTES

    def sizes(self) -> dict[str, Any]:
        """Return the sizes of each row: the columns of :class:`Sizes`, by name."""
        key, value = self._lengths("key"), self._lengths("value")
        own = self._of_headers(_size)
        fields = [_field(key), _field(value), self._of_headers(_wire_size)]
        record = reduce(pc.add, fields, pa.scalar(FIXED_BYTES))
        batch = pc.add(_field(record), BATCH_HEADER_BYTES)
        return Sizes(pc.add(pc.add(key, value), own), batch)._asdict()

    def _source(self, row: int) -> str | None:
        if REFUSED not in self._names:
            return None
        why = self._batch.column(REFUSED)[row].as_py()
        return None if why is None else why["source"]

    def _lengths(self, name: str) -> Any:
        """Return the bytes of each value of a column; 0 for null."""
        if name not in self._names:
            return pa.repeat(pa.scalar(0, pa.int64()), len(self))
        lengths = pc.binary_length(self._batch.column(name)).cast(pa.int64())
        return pc.fill_null(lengths, 0)

    def _of_headers(self, measure: Callable[[list[Header] | None], int]) -> Any:
        if not self._headers:
            return pa.scalar(measure(None), pa.int64())
        return pa.array(map(measure, self._headers), pa.int64())

    def _with_header_name(self, is_wrong: Callable[[Any], Any]) -> Any:
        """Return the mask of the rows that have a header with a wrong name."""
        if "headers" not in self._names:
            return self._no_row
        rows = pa.array(range(len(self)), pa.int64())
        column = self._batch.column("headers")
        names = pc.struct_field(pc.list_flatten(column), "key")
        wrong = pc.fill_null(is_wrong(names), fill_value=False)
        return pc.is_in(rows, pc.list_parent_indices(column).filter(wrong))

    @cached_property
    def _no_row(self) -> Any:
        return pa.array([False] * len(self), pa.bool_())

    @cached_property
    def _headers(self) -> list[list[Header] | None]:
        """The headers of each record; empty if there is no such column."""
        if "headers" not in self._names:
            return []
        return [_pairs(row) for row in self._batch.column("headers").to_pylist()]

    def _bytes(self, name: str) -> Iterable[bytes | None]:
        if name not in self._names:
            return repeat(None, len(self))
        column = self._batch.column(name)
        values: list[bytes | None] = column.cast(pa.binary()).to_pylist()
        return values

    def _partitions(self) -> Iterable[int]:
        if "partition" not in self._names:
            return repeat(ANY_PARTITION, len(self))
        column = pc.fill_null(self._batch.column("partition"), ANY_PARTITION)
        partitions: list[int] = column.to_pylist()
        return partitions

    @cached_property
    def _timestamps(self) -> Any:
        """Each record's timestamp, in milliseconds since 1970, or null."""
        if "timestamp" not in self._names:
            return pa.nulls(len(self), pa.int64())
        column = self._batch.column("timestamp")
        whole = pc.floor_temporal(column, unit="millisecond")  # a cast rounds up to 0
        return whole.cast(pa.timestamp("ms", column.type.tz)).cast(pa.int64())

    def _topics(self) -> Iterable[str | None]:
        if "topic" not in self._names:
            return repeat(self._topic, len(self))
        topics: list[str | None] = self._batch.column("topic").to_pylist()
        return topics


def _size(headers: list[Header] | None) -> int:
    return sum(len(name.encode()) + len(value or b"") for name, value in headers or ())


def _wire_size(headers: list[Header] | None) -> int:
    return headers_size(headers or ())


def _field(lengths: Any) -> Any:
    """Return the lengths plus the bytes that encode each length."""
    longer = [pc.greater_equal(lengths, step).cast(pa.int64()) for step in NUMBER_STEPS]
    return reduce(pc.add, longer, pc.add(lengths, 1))


def _pairs(headers: list[dict[str, Any] | None] | None) -> list[Header] | None:
    """Return headers in the form that the producer accepts.

    A record with a nameless header is refused; in its dead letter, the header's name is
    its position. A NUL in a name is replaced by the symbol for NUL, because librdkafka
    would cut the name there.
    """
    if headers is None:
        return None
    return [_pair(index, header or {}) for index, header in enumerate(headers)]


def _pair(index: int, header: dict[str, Any]) -> Header:
    name = header.get("key")
    if name is None:
        return f"{NAMELESS}{index}", header.get("value")
    return name.replace(NUL, _PICTURE_OF_NUL), header.get("value")
