"""The headers of a dead letter, and values too large for its topic."""

from __future__ import annotations

import pytest
from kafka.record.default_records import DefaultRecordBatchBuilder

from kafkaguard import errors
from kafkaguard._delivery.dead_letters import (
    CUT_BYTES,
    Reason,
    fitting,
    read_headers,
    reason_headers,
    reason_of,
)
from kafkaguard._delivery.sizes import batch_size


def test_headers_say_why_and_where():
    """What is not known has no header."""
    error = errors.InvalidRecordError(code=87, broker_message="no key")
    headers = reason_headers(Reason.NULL_KEY, topic="t", partition=0, error=error)
    assert read_headers(headers) == {
        "reason": "NULL_KEY",
        "topic": "t",
        "partition": "0",
        "error": "INVALID_RECORD",
        "code": "87",
        "message": "no key",
    }
    assert reason_headers("X", topic=None) == [("kafkaguard.reason", b"X")]


def test_other_headers_are_left_alone():
    """A record may have had headers of its own, and none at all."""
    assert read_headers([("trace", b"1"), ("kafkaguard.topic", None)]) == {"topic": ""}
    assert read_headers(None) == {}


@pytest.mark.parametrize(
    ("dialect", "expected"),
    [
        (
            "spring",
            {
                "kafka_dlt-original-topic": b"t",
                "kafka_dlt-original-partition": b"\x00\x00\x00\x07",
                "kafka_dlt-exception-message": b"NULL_KEY: no key",
                "kafka_dlt-exception-fqcn": b"kafkaguard.errors.InvalidRecordError",
            },
        ),
        (
            "connect",
            {
                "__connect.errors.topic": b"t",
                "__connect.errors.partition": b"7",
                "__connect.errors.exception.message": b"NULL_KEY: no key",
                "__connect.errors.exception.class.name": (
                    b"kafkaguard.errors.InvalidRecordError"
                ),
            },
        ),
        (
            "streams",
            {
                "__streams.errors.topic": b"t",
                "__streams.errors.partition": b"7",
                "__streams.errors.message": b"NULL_KEY: no key",
                "__streams.errors.exception": b"kafkaguard.errors.InvalidRecordError",
            },
        ),
        (
            "kip-1191",
            {
                "__dlq.errors.topic": b"t",
                "__dlq.errors.partition": b"7",
                "__dlq.errors.message": b"NULL_KEY: no key",
            },
        ),
    ],
)
def test_each_dialect_says_why_and_where(dialect, expected):
    """Names and values as the tools of that dialect write them; Spring's are binary."""
    error = errors.InvalidRecordError(code=87, broker_message="no key")
    said = reason_headers(
        Reason.NULL_KEY, topic="t", partition=7, error=error, dialect=dialect
    )
    assert expected == dict(said)
    assert len(reason_headers("X", topic=None, dialect=dialect)) == 1


def test_reasons_of_errors():
    """A word for what is common, else the error's own name."""
    assert reason_of(errors.InvalidRecordKeyError()) == Reason.NULL_KEY
    assert reason_of(errors.MessageTooLargeError()) == Reason.TOO_LARGE
    assert reason_of(errors.InvalidTimestampError()) == "INVALID_TIMESTAMP"


WHY = [("kafkaguard.reason", b"X")]
HEADERS = [("trace", b"1"), ("ö", None), ("empty", b"")]


@pytest.mark.parametrize("headers", [[], HEADERS, HEADERS * 50, [("h", b"x" * 9000)]])
@pytest.mark.parametrize("key", [None, b"", b"k" * 63, b"k" * 64, b"k" * 20_000])
@pytest.mark.parametrize("value", [None, b"", b"v" * 8191, b"v" * 8192, b"v" * 2**20])
def test_size_of_a_record_is_that_of_its_batch_on_the_wire(headers, key, value):
    """kafka-python's own encoder is the oracle."""
    builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 10**8)
    builder.append(0, 1_700_000_000_000, key, value, headers)
    assert batch_size(key, value, headers) == len(builder.build())


@pytest.mark.parametrize("headers", [[], HEADERS * 100])
def test_value_is_kept_whole_up_to_the_last_byte_that_fits(headers):
    """The record's own headers count, and the reason's take what they take."""
    value, size = b"v" * 5000, batch_size(b"k", b"v" * 5000, [*headers, *WHY])
    for limit in (size, None):
        assert fitting(value, b"k", headers, WHY, limit) == (value, [*headers, *WHY])
    cut, said = fitting(value, b"k", headers, WHY, size - 1)
    assert cut == value[:CUT_BYTES]
    assert said == [*headers, *WHY, ("kafkaguard.value_bytes", b"5000")]


@pytest.mark.parametrize("limit", range(200, 1400, 7))
def test_cut_value_fits_as_well(limit):
    """Of less room than 1,024 bytes all is used but what a length may take."""
    cut, said = fitting(b"v" * 5000, b"key", [], WHY, limit)
    size = batch_size(b"key", cut, said)
    assert limit - 3 <= size <= limit or len(cut) == CUT_BYTES


@pytest.mark.parametrize("value", [None, b"", b"tiny"])
def test_what_would_not_be_smaller_is_not_cut(value):
    """The header with the full size takes room as well."""
    assert fitting(value, b"k" * 900, [], WHY, 900) == (value, WHY)
