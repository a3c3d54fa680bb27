"""The headers of a dead letter, and values too large for its topic."""

from __future__ import annotations

import pytest

from kafkaguard import errors
from kafkaguard._dead_letter import (
    CUT_BYTES,
    Reason,
    fit,
    fitting,
    read_headers,
    reason_headers,
    reason_of,
)


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


def test_value_that_fits_is_kept_whole():
    """Also where nobody knows how much fits, and where there is no value."""
    assert fit(b"abc", 3) == (b"abc", [])
    assert fit(b"abc", None) == (b"abc", [])
    assert fit(None, 0) == (None, [])


def test_value_that_does_not_fit_is_cut_and_its_size_is_kept():
    """So nobody takes the rest for the whole."""
    value, headers = fit(b"x" * 5000, 4999)
    assert value == b"x" * CUT_BYTES
    assert headers == [("kafkaguard.value_bytes", b"5000")]


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


def test_what_a_record_has_besides_its_value_takes_room():
    """Key and headers are kept, so the value must do with what is left."""
    why = [("kafkaguard.reason", b"X")]
    kept = ("h", b"y" * 1000)
    value, headers = fitting(b"x" * 5000, b"k" * 1000, [kept], why, 9100)
    assert (value, headers) == (b"x" * 5000, [kept, *why])
    value, headers = fitting(b"x" * 5000, b"k" * 1000, [kept], why, 9000)
    assert value == b"x" * CUT_BYTES
    assert headers == [kept, *why, ("kafkaguard.value_bytes", b"5000")]
