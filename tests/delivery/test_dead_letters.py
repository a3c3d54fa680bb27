"""The headers of a dead letter, and values too large for its topic."""

from __future__ import annotations

from dataclasses import replace

import pytest
from kafka.record.default_records import DefaultRecordBatchBuilder

from kafkaguard import errors
from kafkaguard._delivery.dead_letters import (
    CUT_BYTES,
    NO_ROOM,
    VALUE_BYTES,
    Reason,
    fitting,
    letter,
    letter_of_read,
    read_headers,
    reason_of,
    refusal_facts,
    without_reasons,
)
from kafkaguard._delivery.dialects import (
    NAMES,
    LetterFacts,
    letter_facts,
    read_dialect,
    read_facts,
    without_letter_headers,
    write_headers,
)
from kafkaguard._delivery.facts import Raw
from kafkaguard._delivery.sizes import batch_size
from tests.delivery.world.words import PlainErrors


def test_headers_say_why_and_where():
    """What is not known has no header."""
    error = errors.InvalidRecordError(code=87, topic="t", broker_message="no key")
    facts = refusal_facts(error, partition=0, reason=Reason.NULL_KEY)
    headers = write_headers(facts, "own")
    assert read_headers(headers) == {
        "reason": "NULL_KEY",
        "topic": "t",
        "partition": "0",
        "error": "INVALID_RECORD",
        "code": "87",
        "message": "no key",
    }
    assert write_headers(LetterFacts("X"), "own") == [("kafkaguard.reason", b"X")]


def test_what_the_guard_says_is_the_message_where_no_broker_said_anything():
    """As in the dialects of other tools."""
    error = errors.MessageTooLargeError("9 bytes, and the limit is 8")
    headers = write_headers(refusal_facts(error), "own")
    assert read_headers(headers)["message"] == "9 bytes, and the limit is 8"


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
    error = errors.InvalidRecordError(code=87, topic="t", broker_message="no key")
    facts = refusal_facts(error, partition=7, reason=Reason.NULL_KEY)
    assert expected == dict(write_headers(facts, dialect))
    assert len(write_headers(LetterFacts("X"), dialect)) == 1


@pytest.mark.parametrize("dialect", NAMES)
def test_each_dialect_is_read_back(dialect):
    """What a dialect has a header for is read as it was written."""
    facts = LetterFacts(
        reason=Reason.HANDLER_FAILED,
        topic="t",
        partition=7,
        offset=2**40,
        timestamp_ms=1_700_000_000_000,
        group="billing",
        exception="shop.OutOfStock",
        message="no: nothing left",
    )
    own = [("trace", b"1"), ("empty", None)]
    headers = [*own, *write_headers(facts, dialect)]
    assert read_dialect(headers) == dialect
    assert without_letter_headers(headers, dialect) == own
    read = read_facts(headers, dialect)
    for fact in NAMES[dialect]:
        assert getattr(read, fact) == getattr(facts, fact)
    assert read.reason == "HANDLER_FAILED"


def test_letters_of_other_programs_are_read():
    """Their messages have no reason of ours; a number that is none is None."""
    headers = [
        ("kafka_dlt-original-topic", b"t"),
        ("kafka_dlt-original-partition", b"12"),
        ("kafka_dlt-original-offset", b"\0\0\0\0\0\0\0\5"),
        ("kafka_dlt-exception-message", b"Listener failed: boom"),
        ("kafka_dlt-exception-stacktrace", b"..."),
    ]
    assert read_dialect(headers) == "spring"
    assert read_facts(headers, "spring") == LetterFacts(
        topic="t", offset=5, message="Listener failed: boom"
    )
    assert without_letter_headers(headers, "spring") == []
    assert read_dialect([("trace", b"1"), ("kafkaguard.attempts", b"2")]) is None


def test_last_dialect_decides_and_own_headers_first():
    """A letter of another tool that kafkaguard set aside again is kafkaguard's."""
    spring, connect = (
        ("kafka_dlt-original-topic", b"a"),
        ("__connect.errors.topic", b""),
    )
    assert read_dialect([spring, connect]) == "connect"
    assert read_dialect([("kafkaguard.reason", b"X"), spring]) == "own"


def test_time_of_the_first_letter_is_kept():
    """A letter that was read and set aside again has the time of its record."""
    facts = LetterFacts("X", topic="dlq", timestamp_ms=2)
    once = [("kafkaguard.reason", b"X"), ("kafkaguard.timestamp", b"1")]
    again = letter(
        Raw(None, b"v", once), facts, topic="d", size_limit=None, errors=PlainErrors()
    )
    assert [v for n, v in again.headers if n == "kafkaguard.timestamp"] == [b"1"]


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
    """The computed size equals that of kafka-python's own encoder."""
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
    """If there is room for less than 1,024 bytes, the cut value fills it."""
    cut, said = fitting(b"v" * 5000, b"key", [], WHY, limit)
    size = batch_size(b"key", cut, said)
    assert limit - 3 <= size <= limit or len(cut) == CUT_BYTES


def test_nothing_is_left_of_a_value_where_the_key_takes_all_room():
    """The letter is as small as it can be."""
    assert fitting(b"v" * 5000, b"k" * 900, [], WHY, 500)[0] == b""


@pytest.mark.parametrize("value", [None, b"", b"tiny"])
def test_what_would_not_be_smaller_is_not_cut(value):
    """The header with the full size takes room as well."""
    assert fitting(value, b"k" * 900, [], WHY, 900) == (value, WHY)


class TestAgainAndAgain:
    """A dead letter that is sent back and refused once more is a dead letter again."""

    def letters(self, rounds, dialect="own", topics=("orders",)):
        """Refuse a record, and what comes back, so often; return the last letter."""
        raw = Raw(b"k", b"v", [("trace", b"1"), ("empty", None)], 7)
        for number in range(rounds):
            error = errors.InvalidRecordError(
                code=87,
                topic=topics[number % len(topics)],
                partition=number,
                broker_message=f"refusal {number}",
            )
            raw = letter(
                raw,
                refusal_facts(error),
                topic="dlq",
                size_limit=1000,
                errors=PlainErrors(),
                dialect=dialect,
            )
        return raw

    def test_what_was_said_before_is_replaced(self):
        """After 50 rounds it is as large as after two, and counts them."""
        twice, often = self.letters(2), self.letters(50)
        assert {name for name, _ in twice.headers} == {n for n, _ in often.headers}
        assert len({name for name, _ in often.headers}) == len(often.headers)
        said = read_headers(often.headers)
        assert (said["attempts"], said["message"]) == ("50", "refusal 49")
        assert (said["first_topic"], said["first_partition"]) == ("orders", "0")

    def test_the_first_letter_counts_nothing(self):
        """It has the headers that it always had."""
        assert {"attempts", "first_topic"}.isdisjoint(
            read_headers(self.letters(1).headers)
        )

    def test_the_first_origin_is_kept_where_it_is_sent_elsewhere(self):
        """A dead letter of a dead letter has the first topic and the last one."""
        said = read_headers(self.letters(3, topics=("a", "b", "c")).headers)
        assert (said["first_topic"], said["topic"], said["attempts"]) == ("a", "c", "3")

    @pytest.mark.parametrize("count", [b"\xff", b"many", b"", None])
    def test_a_count_that_cannot_be_read_begins_anew(self, count):
        """Someone else may have written the header."""
        earlier = [("kafkaguard.attempts", count)]
        assert without_reasons(earlier) == ([], [("kafkaguard.attempts", b"2")])

    def test_all_else_is_left_alone(self):
        """Bytes, time, other headers; one without a value stays null."""
        last = self.letters(9)
        assert (last.key, last.value, last.timestamp_ms) == (b"k", b"v", 7)
        assert last.headers[:2] == [("trace", b"1"), ("empty", None)]

    @pytest.mark.parametrize("dialect", ["spring", "connect", "streams", "kip-1191"])
    def test_other_dialects_keep_the_first_place_and_the_last_words(self, dialect):
        """Their names say "original"; nothing is there twice."""
        names = [name for name, _ in self.letters(9, dialect).headers]
        assert sorted(set(names)) == sorted(names)
        topics = "abcdefghi"  # one after the other
        first, last = (self.letters(n, dialect, topics) for n in (1, 9))
        place = [n for n, _ in first.headers if n.endswith(("topic", "partition"))]
        assert len(place) == 2
        assert [dict(first.headers)[n] for n in place] == [
            dict(last.headers)[n] for n in place
        ]
        assert b"refusal 8" in b"".join(v or b"" for _, v in last.headers)

    def test_a_value_that_was_cut_says_its_first_size(self):
        """Also where the cut value is cut again."""
        facts = refusal_facts(errors.InvalidRecordError(code=87, topic="t"))
        known = {"topic": "dlq", "errors": PlainErrors()}
        once = letter(Raw(b"k", b"v" * 5000), facts, size_limit=1500, **known)
        again = letter(once, facts, size_limit=600, **known)
        assert len(again.value) < len(once.value) < 5000
        assert [h for h in again.headers if h[0] == VALUE_BYTES] == [
            (VALUE_BYTES, b"5000")
        ]

    def test_one_without_room_is_refused_with_both_sizes(self):
        """It is never sent: it would cost whatever is in the same batch."""
        error = errors.InvalidRecordError(code=87, topic="t")
        with pytest.raises(
            errors.MessageTooLargeError, match="takes 500 bytes"
        ) as caught:
            letter(
                Raw(b"k" * 900, b"v"),
                refusal_facts(error),
                topic="dlq",
                size_limit=500,
                errors=PlainErrors(),
            )
        assert caught.value.verdict is NO_ROOM


READ = LetterFacts(None, "t", 7, 2**40, 1_700_000_000_000, "g")


@pytest.mark.parametrize(
    ("dialect", "unknown"),
    [
        ("own", []),
        ("spring", []),
        ("connect", ["timestamp_ms", "group"]),
        ("streams", ["timestamp_ms", "group"]),
        ("kip-1191", ["timestamp_ms", "exception"]),
    ],
)
def test_letter_of_a_record_that_was_read_says_where_it_was(dialect, unknown):
    """Each dialect can be read back; what it has no header for is None."""
    raw = Raw(None, b"", [("trace", None)], 5)
    made = letter_of_read(raw, READ, ValueError("no total"), dialect=dialect)
    assert (made.key, made.value, made.timestamp_ms) == (None, b"", 5)
    assert made.headers[0] == ("trace", None)
    expected = replace(
        READ,
        reason="HANDLER_FAILED",
        exception="builtins.ValueError",
        message="no total",
    )
    expected = replace(expected, **dict.fromkeys(unknown))
    assert letter_facts(made.headers) == expected


def test_letter_of_a_handler_has_its_reason():
    """A Kafka error has Kafka's name; another exception says that the handler failed."""
    made = letter_of_read(Raw(b"k", b"v"), READ, KeyError("x"))
    assert read_headers(made.headers)["reason"] == "HANDLER_FAILED"
    made = letter_of_read(Raw(b"k", b"v"), READ, errors.InvalidRecordError())
    assert read_headers(made.headers)["reason"] == "INVALID_RECORD"


def test_letter_that_is_set_aside_again_has_the_new_reason_once():
    """The headers are replaced, and the count goes on."""
    first = letter_of_read(Raw(b"k", b"v", [("a", b"1")]), READ, KeyError("x"))
    again = letter_of_read(first, READ, ValueError("y"))
    names = [name for name, _ in again.headers]
    assert sorted(set(names)) == sorted(names)
    assert letter_facts(again.headers).exception == "builtins.ValueError"
    assert read_headers(again.headers)["attempts"] == "2"


@pytest.mark.parametrize("headers", [None, [], [("kafkaguard.offset", b"1")]])
def test_what_says_no_topic_is_no_letter(headers):
    """So a record that was never set aside is told from a letter."""
    assert letter_facts(headers) is None
