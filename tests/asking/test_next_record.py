"""The next record that a reader sees, in bytes as a Fetch brings them."""

from __future__ import annotations

import struct
from types import SimpleNamespace

import pytest
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from kafkaguard_adapters.asking.fetch_probe import Next, Onward, find_next

ABORT, COMMIT = 0, 1
CORRUPT = 2
OFFSET_AT = 0
GZIP = 1


def batch(base, *times, producer=-1, transactional=False, compression=0):
    """Build a batch of records, with their times in milliseconds, at an offset."""
    builder = DefaultRecordBatchBuilder(
        2,
        compression,
        is_transactional=transactional,
        producer_id=producer,
        producer_epoch=0 if producer >= 0 else -1,
        base_sequence=0 if producer >= 0 else -1,
        batch_size=10_000,
    )
    for number, time in enumerate(times):
        builder.append(number, time, b"k", b"v" * 200, [])
    built = bytearray(builder.build())
    struct.pack_into(">q", built, OFFSET_AT, base)  # not under the checksum
    return bytes(built)


def marker(base, kind, producer):
    """Build the control batch at the end of a transaction."""
    made = bytearray(batch(base, 0, producer=producer, transactional=True))
    body = struct.pack(">hh", 0, kind)
    head = DefaultRecordBatch.HEADER_STRUCT
    fields = list(head.unpack_from(made))
    record = b"\x00\x00\x00" + bytes([len(body) * 2]) + body + b"\x01\x00"
    record = bytes([len(record) * 2]) + record
    fields[1] = head.size - 12 + len(record)
    fields[5] |= DefaultRecordBatch.CONTROL_MASK
    built = bytearray(head.pack(*fields) + record)
    return sealed(built)


def sealed(built):
    """Put the right checksum into a batch."""
    from kafka.record.util import calc_crc32c

    at = DefaultRecordBatch.ATTRIBUTES_OFFSET
    crc = calc_crc32c(memoryview(built)[at:])
    struct.pack_into(">I", built, DefaultRecordBatch.CRC_OFFSET, crc)
    return bytes(built)


def answer(*batches, aborted=()):
    """Make a partition of a Fetch answer; ``aborted`` are producers and offsets."""
    transactions = [SimpleNamespace(producer_id=p, first_offset=o) for p, o in aborted]
    return SimpleNamespace(
        records=b"".join(batches), aborted_transactions=transactions or None
    )


@pytest.mark.parametrize(
    ("offset", "written"), [(0, 1.0), (10, 1.0), (11, 2.0), (12, 3.0), (13, 9.0)]
)
@pytest.mark.parametrize("compression", [0, GZIP])
def test_record_at_an_offset(offset, written, compression):
    """Its own time counts, whatever stands before it in its batch."""
    first = batch(10, 1000, 2000, 3000, compression=compression)
    found = find_next(answer(first, batch(13, 9000)), offset, 14)
    assert Next(written) == found


def test_record_without_a_timestamp_has_no_time():
    """CreateTime -1 is no second before 1970."""
    assert Next(None) == find_next(answer(batch(0, -1)), 0, 1)


def test_markers_are_no_records():
    """A marker at the end: there is nothing left; behind one: the record behind it."""
    end = marker(4, COMMIT, 7)
    assert Next(exists=False) == find_next(answer(end), 4, 5)
    assert Next(6.0) == find_next(answer(end, batch(5, 6000)), 4, 6)
    assert Onward(5) == find_next(answer(end), 4, 9)


def test_aborted_records_are_none_for_a_reader_that_does_not_see_them():
    """The broker names the producer; its next transaction is seen again."""
    lost = batch(0, 1000, 2000, producer=7, transactional=True)
    other = batch(2, 3000, producer=8, transactional=True)
    good = batch(4, 5000, producer=7, transactional=True)
    log = (lost, other, marker(3, ABORT, 7), good)
    assert Next(3.0) == find_next(answer(*log, aborted=[(7, 0)]), 0, 5)
    assert Next(5.0) == find_next(answer(*log, aborted=[(7, 0)]), 3, 5)
    assert Next(1.0) == find_next(answer(*log), 0, 5)
    ends = (lost, marker(2, ABORT, 7))
    assert Next(exists=False) == find_next(answer(*ends, aborted=[(7, 0)]), 0, 3)


def test_records_that_compaction_took_are_skipped():
    """A batch keeps its last offset when its records are gone."""
    emptied = bytearray(batch(0, 1000)[: DefaultRecordBatch.HEADER_STRUCT.size])
    fields = list(DefaultRecordBatch.HEADER_STRUCT.unpack_from(emptied))
    fields[1], fields[6], fields[12] = len(emptied) - 12, 4, 0
    emptied = sealed(bytearray(DefaultRecordBatch.HEADER_STRUCT.pack(*fields)))
    assert Next(exists=False) == find_next(answer(emptied), 2, 5)
    assert Next(9.0) == find_next(answer(emptied, batch(5, 9000)), 2, 6)


def test_batch_that_is_damaged_is_where_a_reader_stumbles():
    """A wrong checksum, a wrong length: 2, as a reader would be told."""
    for at in (25, 40, -1):
        damaged = bytearray(batch(0, 1000))
        damaged[at] ^= 0x5A
        assert find_next(answer(bytes(damaged)), 0, 1) == CORRUPT
    short = struct.pack(">qi", 0, 3) + b"abc"
    assert find_next(answer(short), 0, 1) == CORRUPT


def test_batch_that_cannot_be_opened_here_has_a_time_that_is_marked(monkeypatch):
    """Its beginning is known, the record's own time is not."""
    packed = batch(3, 4000, 9000, compression=GZIP)
    monkeypatch.setattr("kafka.codec.has_gzip", lambda: False)
    assert Next(4.0, is_of_batch=True) == find_next(answer(packed), 4, 5)


def test_batch_that_cannot_be_opened_here_has_the_time_that_the_broker_set(monkeypatch):
    """LogAppendTime is in its header, and the same for each of its records."""
    packed = bytearray(batch(3, 4000, 9000, compression=GZIP))
    head = DefaultRecordBatch.HEADER_STRUCT
    fields = list(head.unpack_from(packed))
    fields[5] |= DefaultRecordBatch.TIMESTAMP_TYPE_MASK
    packed = sealed(bytearray(head.pack(*fields)) + packed[head.size :])
    monkeypatch.setattr("kafka.codec.has_gzip", lambda: False)
    assert Next(9.0) == find_next(answer(packed), 4, 5)


@pytest.mark.parametrize("magic", [0, 1])
def test_records_from_before_kafka_0_11(magic):
    """Their batches know nothing of producers; those of 0.9 have no time."""
    builder = LegacyRecordBatchBuilder(magic, 0, 10_000)
    for offset in (5, 6):
        builder.append(offset, 1000 * offset, b"k", b"v")
    written = 6.0 if magic else None
    assert Next(written) == find_next(answer(bytes(builder.build())), 6, 7)


def test_nothing_came():
    """An answer without records says where to look again."""
    empty = SimpleNamespace(records=None, aborted_transactions=None)
    assert Onward(3) == find_next(empty, 3, 9)
