"""The parts of the protocol engine one by one, where whole messages say too little."""

from __future__ import annotations

import uuid

import pytest

from kafkaguard.errors import ProtocolError
from kafkaguard.protocol import message
from kafkaguard.protocol._errors import MalformedError
from kafkaguard.protocol._guess import guess_request, guess_version, split_frames
from kafkaguard.protocol._layout import layout
from kafkaguard.protocol._nodes import Array, Nullable, Slot, Struct
from kafkaguard.protocol._scalars import (
    Blob,
    Float,
    Integer,
    Length,
    Source,
    Text,
    put_unsigned,
)
from kafkaguard.protocol._uuids import format_uuid, parse_uuid

INT8 = Integer("int8", "b")


def written(node, value):
    """Write a value."""
    target = bytearray()
    node.write(target, value)
    return bytes(target)


# --- frames and guesses ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "messages"),
    [
        (b"\0\0\0\2ab\0\0\0\1c", [b"ab", b"c"]),
        (b"\0\0\0\2ab\0\0\0\0", [b"ab", b""]),
        (b"\0\0\0\0", [b""]),
        (b"\0\0\0\2ab", [b"ab"]),
        (b"\0\0\0\2abc", [b"\0\0\0\2abc"]),  # a byte is left over
        (b"\0\0\0\3ab", [b"\0\0\0\3ab"]),  # one is missing
        (b"\0\0\0", [b"\0\0\0"]),
        (b"", [b""]),
    ],
)
def test_frames_are_split_where_all_of_it_is_frames(data, messages):
    """Data that does not consist of frames is a single message."""
    assert split_frames(data) == messages


def test_a_request_is_told_by_its_first_four_bytes():
    """Number and version; fewer bytes are none, an unknown number neither."""
    found, version = guess_request(b"\0\x12\0\4")
    assert (found.name, version) == ("ApiVersions", 4)
    assert guess_request(b"\0\x12\xff\xff")[1] == -1
    with pytest.raises(ProtocolError, match="3 bytes are not a Kafka message") as short:
        guess_request(b"\0\x12\0")
    assert short.value.offset == 0
    with pytest.raises(ProtocolError, match="no header of a request") as unknown:
        guess_request(b"\xff\xfe\0\0")
    assert unknown.value.offset == 0


def test_the_newest_version_that_fits_is_found():
    """If none does, what the newest says."""
    found = message("ApiVersions")

    def read(version):
        if version > 2:
            raise ProtocolError(f"not {version}")
        return {"read": version}

    assert guess_version(found, read) == (2, {"read": 2})
    last = found.max_supported_version()
    with pytest.raises(ProtocolError, match=f"the newest says: not {last}") as caught:
        guess_version(found, lambda v: read(v + 100) if v < last else read(last))
    assert caught.value.message == "ApiVersions"


# --- errors ---------------------------------------------------------------------------


def test_an_error_has_its_place_in_text_and_attributes():
    """The text of a ProtocolError has only the parts of the place that are known."""
    error = ProtocolError("bad", message="M", version=3, field="a[0].b", offset=7)
    assert str(error) == "M v3: a[0].b, offset 7: bad"
    assert (error.message, error.version) == ("M", 3)
    assert (error.field, error.offset) == ("a[0].b", 7)
    assert str(ProtocolError("bad", offset=0)) == "offset 0: bad"
    assert str(ProtocolError("bad", version=0)) == "v0: bad"


@pytest.mark.parametrize("version", [-1, 99])
def test_a_version_that_there_is_not_is_refused_both_ways(version):
    """Encoding and decoding name the versions that exist."""
    api = message("ApiVersions")
    for call, given in (
        (api.serialize_request, {}),
        (api.deserialize_request, b""),
        (api.deserialize_response, b""),
    ):
        with pytest.raises(ProtocolError, match="there are versions 0 to ") as caught:
            call(given, version)
        assert caught.value.version == version
        assert caught.value.message.startswith("ApiVersionsRe")


@pytest.mark.parametrize("version", [True, "1", None, 1.0])
def test_a_version_is_a_whole_number(version):
    """True is not accepted as a version."""
    with pytest.raises(ProtocolError, match="a version is a number, not") as caught:
        message("ApiVersions").deserialize_request(b"", version)
    assert caught.value.message == "ApiVersionsRequest"


@pytest.mark.parametrize("name", [None, 1.5, b"Fetch"])
def test_a_message_is_looked_up_by_name_or_number(name):
    """message() raises TypeError for anything but a name or a number."""
    with pytest.raises(TypeError, match=r"message\(\) takes a name"):
        message(name)


def test_only_api_versions_answers_35_in_its_oldest_layout():
    """The same code of another message has the layout that was asked for."""
    one = message("DescribeLogDirs")
    content = {"error_code": 35, "throttle_time_ms": 1, "results": []}
    data = one.serialize_response(content, 4)
    assert one.deserialize_response(data, 4)["error_code"] == 35


# --- scalars --------------------------------------------------------------------------


@pytest.mark.parametrize("value", [True, "1", None, [1.0]])
def test_what_is_no_number_is_no_float(value):
    """A text and a truth value are none."""
    with pytest.raises(MalformedError) as caught:
        written(Float(), value)
    assert caught.value.problem.startswith("a number needed, not ")


def test_a_float_may_be_given_as_a_whole_number():
    """A float64 field takes an int, unless it is too large."""
    assert Float().read(Source(written(Float(), 3))) == 3.0
    with pytest.raises(MalformedError) as caught:
        written(Float(), 10**400)
    assert caught.value.problem == "the number does not fit float64"


def test_lengths_take_their_own_bytes():
    """A compact length takes one byte or more, an old one two or four."""
    sizes = [Length(size, nullable=False).smallest for size in (0, 2, 4)]
    assert sizes == [1, 2, 4]


def test_a_length_is_held_against_the_bytes_of_its_elements():
    """Two of two bytes do not lie in three."""
    length = Length(2, nullable=False)
    assert length.read(Source(b"\0\2abcd"), 2) == 2
    with pytest.raises(MalformedError) as caught:
        length.read(Source(b"\0\2abc"), 2)
    assert caught.value.problem.startswith(
        "a length of 2 needs at least 4 bytes, and 3 "
    )
    assert caught.value.offset == 0


@pytest.mark.parametrize("size", [32_767, 32_768])
def test_the_longest_text_of_an_old_version(size):
    """A text of 32,767 bytes fits, and one byte more does not."""
    text = Text(Length(2, nullable=False))
    if size == 32_767:
        assert len(written(text, "x" * size)) == size + 2
    else:
        with pytest.raises(MalformedError) as caught:
            written(text, "x" * size)
        assert caught.value.problem == "a length of 32768, and the maximum is 32767"


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_bytes_of_every_kind_are_written(kind):
    """In a field, in a tag, as an id."""
    blob = Blob(Length(4, nullable=False))
    assert written(blob, kind(b"ab")) == b"\0\0\0\2ab"
    flexible = Struct([], {}, [], frozenset())
    assert written(flexible, {"unknown_tags": {5: kind(b"ab")}}) == b"\1\5\2ab"
    assert parse_uuid(kind(b"\1" * 16)) == uuid.UUID(bytes=b"\1" * 16)
    with pytest.raises(ProtocolError, match="cannot be made of 3 bytes;"):
        parse_uuid(kind(b"abc"))


def test_what_are_no_bytes_is_refused_by_its_type():
    """The error for a value that is not bytes has its type, not its content."""
    with pytest.raises(MalformedError) as caught:
        written(Blob(Length(4, nullable=False)), "secret")
    assert caught.value.problem == "bytes needed, not str"
    with pytest.raises(ProtocolError, match="of a value of type int;"):
        parse_uuid(3)


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (0, b"\0"),
        (127, b"\x7f"),
        (128, b"\x80\1"),
        (300, b"\xac\2"),
        (16384, b"\x80\x80\1"),
    ],
)
def test_varints_have_seven_bits_a_byte(value, data):
    """A varint is read back as the number that was written."""
    target = bytearray()
    put_unsigned(target, value)
    assert bytes(target) == data
    assert Source(data).unsigned() == value


def test_ids_are_written_without_padding_and_read_only_so():
    """What Kafka would not print is none."""
    one = uuid.UUID(int=7)
    assert format_uuid(one) == "AAAAAAAAAAAAAAAAAAAABw"
    assert parse_uuid("AAAAAAAAAAAAAAAAAAAABw") == one
    for wrong in ("AAAAAAAAAAAAAAAAAAAABx", "AAAAAAAAAAAAAAAAAAAAB!", "!" * 22):
        with pytest.raises(ProtocolError, match="a text of 22 characters"):
            parse_uuid(wrong)


# --- arrays and structs ---------------------------------------------------------------


def test_a_tuple_is_a_list_and_a_text_is_none():
    """A generator's length would not be known."""
    array = Array(Length(4, nullable=False), INT8)
    assert written(array, (1, 2)) == written(array, [1, 2]) == b"\0\0\0\2\1\2"
    for wrong in ("ab", iter([1])):
        with pytest.raises(MalformedError) as caught:
            written(array, wrong)
        assert caught.value.problem.startswith("a list needed, not ")


@pytest.mark.parametrize(
    ("first", "is_null"), [(0x7F, False), (0x80, True), (0, False)]
)
def test_a_negative_byte_says_null(first, is_null):
    """A struct is null if its byte is negative; 127 is not."""
    nullable = Nullable(Struct([], None, [], frozenset()))
    assert (nullable.read(Source(bytes([first]))) is None) is is_null


def test_tags_take_a_byte_where_there_may_be_some():
    """Versions without tags have no byte for them."""
    slots = [Slot("a", INT8, int, b"\0")]
    assert Struct(slots, {}, [], frozenset()).smallest == 2
    assert Struct(slots, None, [], frozenset()).smallest == 1


def test_a_field_whose_default_cannot_be_written_must_be_given():
    """The error names a missing field whose default is null and not allowed."""
    slot = Slot("a", Text(Length(2, nullable=False)), lambda: None, None)
    with pytest.raises(MalformedError) as caught:
        slot.bytes_of({})
    assert caught.value.field == "a"
    assert slot.bytes_of({"a": "b"}) == b"\0\1b"


@pytest.mark.parametrize("tag", ["1", True, -1, 2**31, 1.0, None])
def test_a_tag_is_a_number_of_31_bits(tag):
    """An unknown tag is a number from 0 to 2**31 - 1."""
    flexible = Struct([], {}, [], frozenset())
    with pytest.raises(MalformedError) as caught:
        written(flexible, {"unknown_tags": {tag: b""}})
    assert caught.value.field == "unknown_tags"
    assert written(flexible, {"unknown_tags": {2**31 - 1: b""}}).endswith(b"\x07\0")


def test_what_is_left_out_is_a_default_of_its_own_each_time():
    """Who changes one has not changed the next."""
    fetch = layout("FetchRequest", 17)
    first, second = (fetch.read(Source(written(fetch, {}))) for _ in range(2))
    first["topics"].append(1)
    assert second["topics"] == []
