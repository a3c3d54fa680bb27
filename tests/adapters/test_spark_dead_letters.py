"""Dead letters: what fits is kept whole, and what does not is said beforehand."""

from __future__ import annotations

import contextlib

import pytest
from kafka.record.default_records import DefaultRecordBatchBuilder

from kafkaguard._dead_letter import Reason
from kafkaguard._verdict import Action
from kafkaguard.errors import MessageTooLargeError
from kafkaguard_adapters.spark._arrow import Record
from kafkaguard_adapters.spark._dead_letters import dead_letter
from kafkaguard_adapters.spark._delivery import refusal
from kafkaguard_adapters.spark._wire_size import batch_size

HEADERS = [("trace", b"1"), ("ö", None), ("empty", b"")]


@pytest.mark.parametrize("headers", [None, HEADERS, HEADERS * 50, [("h", b"x" * 9000)]])
@pytest.mark.parametrize("key", [None, b"", b"k" * 63, b"k" * 64, b"k" * 20_000])
@pytest.mark.parametrize("value", [None, b"", b"v" * 8191, b"v" * 8192, b"v" * 2**20])
def test_size_of_a_record_is_that_of_its_batch_on_the_wire(headers, key, value):
    """kafka-python's own encoder is the oracle."""
    builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 10**8)
    builder.append(0, 1_700_000_000_000, key, value, headers or [])
    assert batch_size(Record("t", key, value, headers)) == len(builder.build())


def letter(record, limit):
    """Make the dead letter of a record that is too large."""
    error = refusal(Reason.TOO_LARGE, record.topic)
    return dead_letter(record, "dead", Reason.TOO_LARGE, error, limit)


@pytest.mark.parametrize("headers", [None, HEADERS * 100])
def test_value_is_kept_whole_up_to_the_last_byte_that_fits(headers):
    """The record's own headers count, and the reason's take what they take."""
    record = Record("t", b"key", b"v" * 5000, headers)
    size = batch_size(letter(record, 10**6))
    assert letter(record, size).value == record.value
    shorter = letter(record, size - 1)
    assert shorter.value == b"v" * 1024
    assert shorter.headers[-1] == ("kafkaguard.value_bytes", b"5000")
    assert shorter.headers[: len(headers or [])] == (headers or [])


@pytest.mark.parametrize("limit", range(400, 1400, 7))
def test_cut_value_fits_as_well(limit):
    """Of less room than 1,024 bytes all is used but what a length may take."""
    shorter = letter(Record("t", b"key", b"v" * 5000), limit)
    assert len(shorter.value) == 1024 or limit - 3 <= batch_size(shorter)
    assert batch_size(shorter) <= limit


@pytest.mark.parametrize(
    "record",
    [
        Record("t", b"k" * 9000, b"v"),
        Record("t", b"k" * 9000, None),
        Record("t", b"k" * 9000, b""),
        Record("t", None, b"v" * 9000, [("h", b"x" * 9000)]),
    ],
)
def test_key_and_headers_without_room_are_said_with_both_sizes(record):
    """With the size that the text asks for there is room, and not with a byte less."""
    with pytest.raises(
        MessageTooLargeError, match="the dead letter of a record for t:"
    ):
        letter(record, 5000)
    for needed in range(9000, 9600):
        with contextlib.suppress(MessageTooLargeError):
            letter(record, needed)
            break
    with pytest.raises(MessageTooLargeError) as caught:
        letter(record, needed - 1)
    text = str(caught.value)
    assert f"topic dead takes {needed - 1:,} bytes" in text
    assert f"key and headers need {needed:,} with" in text
    assert "raise its max.message.bytes" in text
    assert caught.value.topic == "dead"
    assert caught.value.verdict.action is Action.CONFIGURE
