"""Dead letters that cannot be made: said beforehand, with what would be right."""

from __future__ import annotations

import contextlib

import pytest

from kafkaguard._delivery import dead_letters
from kafkaguard._delivery.dead_letters import Reason
from kafkaguard._errors.base import Action
from kafkaguard.errors import MessageTooLargeError
from kafkaguard_adapters.confluent.errors import errors
from kafkaguard_adapters.spark.executor.arrow import SinkRecord
from kafkaguard_adapters.spark.executor.sent_records import raw_of
from kafkaguard_adapters.spark.verdicts import record_error


def letter(record, limit):
    """Make the dead letter of a record that is too large."""
    error = record_error(Reason.TOO_LARGE, record.topic)
    return dead_letters.letter(
        raw_of(record),
        dead_letters.refusal_facts(error),
        topic="dead",
        size_limit=limit,
        errors=errors,
    )


@pytest.mark.parametrize(
    "record",
    [
        SinkRecord("t", b"k" * 9000, b"v"),
        SinkRecord("t", b"k" * 9000, None),
        SinkRecord("t", b"k" * 9000, b""),
        SinkRecord("t", None, b"v" * 9000, [("h", b"x" * 9000)]),
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
