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
    from collections.abc import Callable, Collection, Iterable, Iterator

    from kafkaguard._delivery.facts import Header

#: Most bytes of a batch beside key and value, with one record without headers.
MOST_FRAMING_BYTES = BATCH_HEADER_BYTES + FIXED_BYTES + 4 * (1 + len(NUMBER_STEPS))
#: confluent-kafka's value for "the partitioner chooses the partition".
ANY_PARTITION = -1
#: Timestamps with another meaning: to librdkafka 0 is the time of sending, to Kafka -1
#: is no timestamp.
UNWRITABLE_TIMES = frozenset({0, -1})
_EMPTY = "{}"
_HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
#: The types of columns that a batch does not have; then all their values are null.
_TYPES = {
    "topic": pa.string(),
    "key": pa.binary(),
    "value": pa.binary(),
    "headers": pa.list_(_HEADER),
    "partition": pa.int32(),
    "timestamp": pa.timestamp("us"),
    REFUSED: pa.struct([("reason", pa.string()), ("source", pa.string())]),
}
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
        own = len(self.key or b"") + len(self.value or b"") + _count_bytes(self.headers)
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

    def without(self, refused: Collection[int]) -> Columns:
        """Return the columns without some rows."""
        rows = [row for row in range(len(self)) if row not in refused]
        return Columns(self._batch.take(pa.array(rows, pa.int64())), self._topic)

    def records(self) -> Iterator[SinkRecord]:
        """Yield the records."""
        partitions = pc.fill_null(self._column("partition"), ANY_PARTITION)
        columns = (
            *(self._topics(), self._bytes("key"), self._bytes("value"), self._headers),
            *(partitions.to_pylist(), self._timestamps.to_pylist()),
        )
        for values in zip(*columns, strict=False):
            yield SinkRecord(*values)

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
        refusal = self._column(REFUSED)[row].as_py()
        if refusal is None or refusal["source"] is None:
            return record
        headers = [*(record.headers or []), (SOURCE, refusal["source"].encode())]
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

    def has_no_key(self) -> Any:
        """Return the mask of the rows without a key."""
        return pc.is_null(self._column("key"))

    def collapsed_keys(self) -> int:
        """Count the rows whose key is an empty JSON object."""
        column = self._column("key")
        return pc.sum(pc.equal(column, pa.scalar(_EMPTY, column.type))).as_py() or 0

    def is_outside(self, partitions: int) -> Any:
        """Return the mask of the rows with a partition that a topic does not have."""
        column = self._column("partition")
        beyond = pc.or_(pc.less(column, 0), pc.greater_equal(column, partitions))
        return pc.fill_null(beyond, fill_value=False)

    def get_earlier_refusals(self) -> dict[int, Reason]:
        """Return the rows that were refused before the sink, each with the reason."""
        column = self._column(REFUSED)
        rows = pc.indices_nonzero(pc.is_valid(column)).to_pylist()
        reasons = pc.struct_field(column, "reason")
        return {row: Reason(reasons[row].as_py()) for row in rows}

    def has_nameless_header(self) -> Any:
        """Return the mask of the rows with a header that has no name."""
        return self._has_header_name(pc.is_null)

    def has_cut_name(self) -> Any:
        """Return the mask of the rows with a name that librdkafka would cut."""
        return self._has_header_name(lambda names: pc.match_substring(names, NUL))

    def has_unwritable_time(self) -> Any:
        """Return the mask of the rows whose timestamp would get another meaning."""
        times = pa.array(UNWRITABLE_TIMES, pa.int64())
        return pc.is_in(self._timestamps, times)

    def bound_size(self) -> float:
        """Return an upper bound of the rows' sizes, cheaper than all sizes."""
        if "headers" in self._names:
            return float("inf")
        longest = (
            pc.max(self._lengths(name)).as_py() or 0 for name in ("key", "value")
        )
        return sum(longest) + MOST_FRAMING_BYTES

    def sizes(self) -> dict[str, Any]:
        """Return the sizes of each row: the columns of :class:`Sizes`, by name."""
        key, value = self._lengths("key"), self._lengths("value")
        own = self._measure_headers(_count_bytes)
        fields = [_field(key), _field(value), self._measure_headers(headers_size)]
        record = reduce(pc.add, fields, pa.scalar(FIXED_BYTES))
        batch = pc.add(_field(record), BATCH_HEADER_BYTES)
        return Sizes(pc.add(pc.add(key, value), own), batch)._asdict()

    def _column(self, name: str) -> Any:
        """Return a column; if the batch does not have it, a column of nulls."""
        if name in self._names:
            return self._batch.column(name)
        return pa.nulls(len(self), _TYPES[name])

    def _lengths(self, name: str) -> Any:
        """Return the bytes of each value of a column; 0 for null."""
        lengths = pc.binary_length(self._column(name)).cast(pa.int64())
        return pc.fill_null(lengths, 0)

    def _measure_headers(self, measure: Callable[[list[Header]], int]) -> Any:
        sizes = [measure(headers or []) for headers in self._headers]
        return pa.array(sizes, pa.int64())

    def _has_header_name(self, is_wrong: Callable[[Any], Any]) -> Any:
        """Return the mask of the rows that have a header with a wrong name."""
        rows = pa.array(range(len(self)), pa.int64())
        column = self._column("headers")
        names = pc.struct_field(pc.list_flatten(column), "key")
        wrong = pc.fill_null(is_wrong(names), fill_value=False)
        return pc.is_in(rows, pc.list_parent_indices(column).filter(wrong))

    @cached_property
    def _headers(self) -> list[list[Header] | None]:
        """The headers of each record."""
        return [_pairs(row) for row in self._column("headers").to_pylist()]

    def _bytes(self, name: str) -> Iterable[bytes | None]:
        values: list[bytes | None] = self._column(name).cast(pa.binary()).to_pylist()
        return values

    @cached_property
    def _timestamps(self) -> Any:
        """Each record's timestamp, in milliseconds since 1970, or null."""
        column = self._column("timestamp")
        whole = pc.floor_temporal(column, unit="millisecond")  # a cast rounds up to 0
        return whole.cast(pa.timestamp("ms", column.type.tz)).cast(pa.int64())

    def _topics(self) -> Iterable[str | None]:
        if "topic" in self._names:
            topics: list[str | None] = self._column("topic").to_pylist()
            return topics
        return repeat(self._topic, len(self))


def _count_bytes(headers: list[Header] | None) -> int:
    return sum(len(name.encode()) + len(value or b"") for name, value in headers or ())


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
