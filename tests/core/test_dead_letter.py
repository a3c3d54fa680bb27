"""The headers of a dead letter, and values too large for its topic."""

from __future__ import annotations

from kafkaguard import errors
from kafkaguard._dead_letter import CUT_BYTES, Reason, cut, read_headers, reason_headers


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


def test_value_that_does_not_fit_is_cut_and_its_size_is_kept():
    """So nobody takes the rest for the whole."""
    value, header = cut(b"x" * 5000)
    assert value == b"x" * CUT_BYTES
    assert header == ("kafkaguard.value_bytes", b"5000")
