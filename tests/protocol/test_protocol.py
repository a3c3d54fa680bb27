"""Kafka's messages: ids, headers, versions, and what is refused and how."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import tracemalloc
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaguard.errors import ProtocolError
from kafkaguard.protocol import (
    broker_registration,
    format_uuid,
    message,
    message_names,
    parse_uuid,
)

TEXT = "3MfdxWlNSn2UDYsmDP1pYg"


def refused(call, *arguments, **how):
    """Return the error with which a call refuses."""
    with pytest.raises(ProtocolError) as caught:
        call(*arguments, **how)
    return caught.value


def test_import_loads_no_engine():
    """The schemas are loaded when a message is used for the first time."""
    script = "import sys, kafkaguard.protocol; print('kafka' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60
    )
    assert done.stdout.strip() == "False", done.stderr


@pytest.mark.parametrize(
    "form",
    [
        lambda made: made,
        lambda made: made.bytes,
        lambda made: bytearray(made.bytes),
        str,
        lambda made: made.hex,
        format_uuid,
    ],
)
@given(made=st.uuids())
def test_ids_are_read_in_every_form(form, made):
    """Kafka prints 22 characters, programs hold bytes, Python has a class."""
    assert made == parse_uuid(form(made))


def test_id_that_kafka_printed_comes_back_as_the_same_text():
    """The text of the report, there and back, inside a message too."""
    assert format_uuid(parse_uuid(TEXT)) == TEXT
    content = {"log_dirs": [TEXT], "incarnation_id": None}
    sent = broker_registration.serialize_request(content, 4)
    read = broker_registration.deserialize_request(sent, 4)
    assert [parse_uuid(TEXT)] == read["log_dirs"]
    assert UUID(int=0) == read["incarnation_id"]


@pytest.mark.parametrize(
    "wrong",
    [
        *(TEXT[:-1], TEXT + "A", "", TEXT[:-1] + "h", "g" * 32, "!" * 22, "ä" * 22),
        *(b"", bytes(15), bytes(17), "0" * 31, "0" * 32 + "-", 7),
    ],
)
def test_what_is_no_id_is_refused(wrong):
    """21 or 23 characters, text that no id prints as, bytes of another number."""
    assert "a uuid cannot be made of" in str(refused(parse_uuid, wrong))
    with pytest.raises(ValueError, match="22 characters that Kafka prints"):
        format_uuid(wrong)


@pytest.mark.parametrize(
    ("version", "header"),
    [(1, "0023000100000007000161"), (2, "002300020000000700016100")],
)
def test_client_id_stays_old_and_tags_follow_it(version, header):
    """In flexible versions the header ends with tags; its string is as it was."""
    about = {"correlation_id": 7, "client_id": "a"}
    sent = message("DescribeLogDirs").serialize_request(
        {"topics": None}, version, request_header=about
    )
    assert sent.hex().startswith(header)
    assert len(sent) == len(header) // 2 + {1: 4, 2: 2}[version]
    read = message("DescribeLogDirs").deserialize_request(sent, version)
    assert about.items() <= read["header"].items()


def test_api_versions_response_has_the_old_header():
    """62 APIs, counted right after the error code: no byte of tags comes before."""
    apis = [{"api_key": n, "min_version": 0, "max_version": 1} for n in range(62)]
    sent = message("ApiVersions").serialize_response(
        {"api_keys": apis}, 3, response_header={"correlation_id": 1}
    )
    assert sent[:7].hex() == "00000001" + "0000" + f"{63:02x}"
    assert len(message("ApiVersions").deserialize_response(sent, 3)["api_keys"]) == 62


def test_answer_35_to_api_versions_has_the_layout_of_version_0():
    """A broker that does not know the version says in the oldest form what it knows."""
    answer = bytes.fromhex("00000001" + "0023" + "00000001" + "0012" + "0000" + "0002")
    read = message("ApiVersions").deserialize_response(answer, 4)
    assert read["error_code"] == 35
    assert read["api_keys"] == [{"api_key": 18, "min_version": 0, "max_version": 2}]
    assert answer == message("ApiVersions").serialize_response(read, 4)


def test_versions_that_kafka_removed_are_refused():
    """DescribeLogDirs 0 would be answered with a closed connection."""
    found = message("DescribeLogDirs")
    assert (found.min_supported_version(), found.max_supported_version()) == (1, 5)
    for version in (-1, 0, 6):
        error = refused(found.serialize_request, {}, version)
        assert "there are versions 1 to 5 (Kafka 4 removed older ones" in str(error)
        assert version == error.version
    assert "not NoneType" in str(refused(found.serialize_request, {}, None))


def test_header_comes_from_content_or_beside_it_or_is_the_default():
    """What is said beside the content counts most."""
    found = message("Heartbeat")
    assert {"correlation_id": 0, "client_id": "kafkaguard"}.items() <= (
        found.deserialize_request(found.serialize_request({}, 4), 4)["header"].items()
    )
    content = {"header": {"correlation_id": 5, "client_id": None}}
    sent = found.serialize_request(content, 4, request_header={"correlation_id": 6})
    header = found.deserialize_request(sent, 4)["header"]
    assert (header["correlation_id"], header["client_id"]) == (6, None)
    assert sent == found.serialize_request(
        {"header": header}, 4, request_header={"correlation_id": 6}
    )


def test_header_of_another_message_or_version_is_refused():
    """The first bytes say what it is."""
    sent = message("Heartbeat").serialize_request({}, 4)
    error = refused(message("LeaveGroup").deserialize_request, sent, 4)
    assert (error.field, error.offset) == ("header.request_api_key", 0)
    error = refused(message("Heartbeat").deserialize_request, sent, 3)
    assert error.field == "header.request_api_version"
    content = {"header": {"request_api_key": 13}}
    assert "12" in str(refused(message("Heartbeat").serialize_request, content, 4))


def test_null_and_empty_are_kept_apart():
    """Null topics are all topics, none are none; a string likewise."""
    found = message("DescribeLogDirs")
    for topics in (None, []):
        for version in (1, 4):
            sent = found.serialize_request({"topics": topics}, version, False)
            assert topics == found.deserialize_request(sent, version, False)["topics"]
    for rack in (None, ""):
        sent = broker_registration.serialize_request({"rack": rack}, 0)
        assert rack == broker_registration.deserialize_request(sent, 0)["rack"]


def test_tags_are_written_ascending_and_unknown_ones_kept():
    """Known and unknown tags are one list, by number."""
    content = {
        "cluster_id": "c",
        "unknown_tags": {300: b"later", 9: b""},
        "replica_state": {"replica_id": 1, "unknown_tags": {5: b"inner"}},
    }
    found = message("Fetch")
    sent = found.serialize_request(content, 15, with_header=False)
    assert sent.endswith(
        bytes.fromhex("04 00 02 0263 01 14")
        + bytes.fromhex("00000001 ffffffffffffffff 01 05 05") + b"inner"
        + bytes.fromhex("09 00 ac02 05") + b"later"
    )  # fmt: skip
    read = found.deserialize_request(sent, 15, with_header=False)
    assert read["unknown_tags"] == {9: b"", 300: b"later"}
    assert read["replica_state"]["unknown_tags"] == {5: b"inner"}
    assert sent == found.serialize_request(read, 15, with_header=False)


@pytest.mark.parametrize(
    ("tags", "words"),
    [
        ("02 0700 0600", "tag 6 after tag 7"),
        ("02 0700 0700", "tag 7 after tag 7"),
        ("01 0705", "tag 7 claims 5 bytes, 0 are left"),
        ("01 07ffffffff07", "tag 7 claims 2147483647 bytes"),
        ("01 ffffffff0f00", "more than 31 bits"),
        ("ffffffff07", "1 bytes needed, 0 are left"),
        ("ffffffff7f", "more than 31 bits"),
        ("ffffffffffff", "more than 5 bytes"),
    ],
)
def test_tags_that_no_kafka_writes_are_refused(tags, words):
    """Out of order, twice, too long, too many."""
    body = broker_registration.serialize_response({}, 0, with_header=False)
    data = body[:-1] + bytes.fromhex(tags)
    error = refused(broker_registration.deserialize_response, data, 0, False)
    assert words in str(error)
    assert len(body) - 1 <= error.offset <= len(data)


def test_known_tag_of_the_wrong_size_is_refused():
    """The size must be that of the value."""
    sent = message("Fetch").serialize_request({"cluster_id": "c"}, 12, False)
    longer = sent.replace(b"\x00\x02\x02c", b"\x00\x03\x02cX")
    error = refused(message("Fetch").deserialize_request, longer, 12, False)
    assert "1 bytes too many" in str(error)
    assert error.field == "cluster_id"
    shorter = sent.replace(b"\x00\x02\x02c", b"\x00\x01\x02")
    error = refused(message("Fetch").deserialize_request, shorter, 12, False)
    assert error.field == "cluster_id"


@pytest.mark.parametrize("code", [0, 35, 104, 119, 133, 134, 999, -1, -32768, 32767])
def test_error_codes_are_kept_whether_known_or_not(code):
    """A number that nobody knows is a number."""
    sent = broker_registration.serialize_response({"error_code": code}, 4)
    assert code == broker_registration.deserialize_response(sent, 4)["error_code"]


@pytest.mark.parametrize(
    ("content", "field", "words"),
    [
        ({"broker_idd": 1}, "broker_idd", "did you mean 'broker_id'?"),
        ({"zzz": 1}, "zzz", "known: ['broker_id'"),
        ({"broker_id": "1"}, "broker_id", "a whole number needed, not str"),
        ({"broker_id": True}, "broker_id", "a whole number needed, not bool"),
        ({"broker_id": 2**31}, "broker_id", "2147483648 does not fit int32"),
        ({"cluster_id": None}, "cluster_id", "None, and null is not allowed here"),
        ({"cluster_id": b"x"}, "cluster_id", "a string needed, not bytes"),
        ({"cluster_id": "\ud800"}, "cluster_id", "lone surrogate"),
        ({"incarnation_id": "x"}, "incarnation_id", "a uuid cannot be made of a text"),
        ({"listeners": "x"}, "listeners", "a list needed, not str"),
        ({"listeners": None}, "listeners", "None, and null is not allowed here"),
        ({"listeners": [{}, 1]}, "listeners[1]", "a dict needed, not int"),
        ({"listeners": [{"port": 65536}]}, "listeners[0].port", "65536 does not fit"),
        ({"listeners": [{"port": -1}]}, "listeners[0].port", "does not fit uint16"),
        ({"listeners": [{"prt": 1}]}, "listeners[0].prt", "did you mean 'port'?"),
        ({"log_dirs": [TEXT, 1]}, "log_dirs[1]", "a uuid cannot be made of"),
        ({"is_migrating_zk_broker": 1}, "is_migrating_zk_broker", "True or False"),
        ({"unknown_tags": {-1: b""}}, "unknown_tags", "a dict from tag numbers"),
        ({"unknown_tags": {True: b""}}, "unknown_tags", "a dict from tag numbers"),
        ({"unknown_tags": {1: "x"}}, "unknown_tags", "a dict from tag numbers"),
        ({"unknown_tags": [1]}, "unknown_tags", "a dict from tag numbers"),
        ({"header": 1}, "header", "a dict needed, not int"),
        ({"header": {"client_id": 1}}, "header.client_id", "a string needed"),
        ({"header": {"nonsense": 1}}, "header.nonsense", "no version has this"),
        ([], "", "a dict needed, not list"),
    ],
)
def test_content_that_cannot_be_written_is_named(content, field, words):
    """The field with its path, the problem, and nothing of a text's content."""
    error = refused(broker_registration.serialize_request, content, 4)
    assert field == error.field
    assert words in str(error)
    assert str(error).startswith("BrokerRegistrationRequest v4: ")
    assert error.offset is None


def test_field_that_a_version_lacks_is_an_error_unless_ignorable_or_the_default():
    """What Kafka calls ignorable is dropped; anything else would be lost unseen."""
    found = message("Produce")
    partition = {"current_leader": {}}
    content = {"responses": [{"partition_responses": [partition]}]}
    found.serialize_response(content, 9)
    partition["current_leader"] = {"leader_id": 1}
    error = refused(found.serialize_response, content, 9)
    where = "responses[0].partition_responses[0].current_leader"
    assert f"{where}: this version lacks the field, which only v10 to v13" in str(error)
    found = message("ListOffsets")
    found.serialize_request({"isolation_level": 0}, 1)
    dropped = found.serialize_response({"throttle_time_ms": 5}, 1)
    assert dropped == found.serialize_response({}, 1)
    error = refused(found.serialize_request, {"isolation_level": 1}, 1)
    assert "isolation_level: this version lacks the field, which only v2 to v11" in str(
        error
    )
    error = refused(message("LeaveGroup").serialize_request, {"member_id": "m"}, 3)
    assert "member_id: this version lacks the field, which only v0 to v2" in str(error)


def test_tags_in_a_version_without_tags_are_an_error():
    """Tags in a version without tags raise an error instead of being dropped."""
    error = refused(
        message("Heartbeat").serialize_request, {"unknown_tags": {1: b""}}, 3
    )
    assert "this version is not flexible" in str(error)
    error = refused(message("Fetch").serialize_request, {"unknown_tags": {0: b""}}, 12)
    assert "tag 0 is the field cluster_id" in str(error)


def test_strings_of_old_versions_end_at_32767_bytes():
    """The length has two bytes there; a compact one has more."""
    found = message("Heartbeat")
    found.serialize_request({"group_id": "ä" * 16383}, 3)
    error = refused(found.serialize_request, {"group_id": "ä" * 16384}, 3)
    assert "group_id: a length of 32768, and the maximum is 32767" in str(error)
    sent = found.serialize_request({"group_id": "ä" * 16384}, 4)
    assert found.deserialize_request(sent, 4)["group_id"] == "ä" * 16384


@pytest.mark.parametrize("data", [None, "text", 7, [1]])
def test_what_is_no_bytes_is_refused(data):
    """With the same error as bad bytes, at the start."""
    error = refused(broker_registration.deserialize_request, data, 4)
    assert "bytes needed" in str(error)
    assert error.offset == 0


def test_bytes_of_every_kind_are_read():
    """A bytearray or a memoryview is as good."""
    sent = broker_registration.serialize_request({"broker_id": 3}, 4)
    for kind in (bytearray, memoryview):
        assert broker_registration.deserialize_request(kind(sent), 4)["broker_id"] == 3
    content = {"auth_bytes": memoryview(b"abc")}
    sent = message("SaslAuthenticate").serialize_request(content, 2)
    read = message("SaslAuthenticate").deserialize_request(sent, 2)
    assert read["auth_bytes"] == b"abc"


@pytest.mark.parametrize(
    ("digits", "field", "offset", "words"),
    [
        ("0000", "broker_id", 0, "4 bytes needed, 2 are left"),
        ("00000001 0361", "cluster_id", 4, "a length of 2 needs at least 2 bytes"),
        ("00000001 00", "cluster_id", 4, "null, which is not allowed here"),
        ("00000001 02ff", "cluster_id", 5, "not UTF-8"),
        ("00000001 0361ff", "cluster_id", 6, "not UTF-8"),
        (
            "00000001 01" + "00" * 16 + "02 036161 01 ffff 00",
            "listeners[0].security_protocol",
            28,
            "2 bytes needed, 1 are left",
        ),
    ],
)
def test_input_that_is_wrong_says_where(digits, field, offset, words):
    """The field, the offset and the problem."""
    data = bytes.fromhex(digits)
    error = refused(broker_registration.deserialize_request, data, 0, False)
    assert (error.field, error.offset) == (field, offset)
    assert f"{field}, offset {offset}: {words}" in str(error)


def test_negative_lengths_other_than_null_are_refused():
    """A length below -1 in an old version is malformed."""
    data = bytes.fromhex("fffffffe")
    error = refused(message("DescribeLogDirs").deserialize_request, data, 1, False)
    assert "topics, offset 0: a negative length, -2" in str(error)


@pytest.mark.parametrize(
    ("api", "side", "version", "data"),
    [
        ("BrokerRegistration", "request", 0, "00000001 ffffffff07"),
        ("BrokerRegistration", "request", 0, "00000001 01" + "0" * 32 + "ffffffff07"),
        ("DescribeLogDirs", "request", 1, "7fffffff"),
        ("SaslAuthenticate", "request", 0, "7fffffff"),
        ("SaslAuthenticate", "request", 2, "ffffffff07"),
        ("Heartbeat", "request", 0, "7fff"),
        ("BrokerRegistration", "response", 0, "0" * 28 + "01 07 ffffffff07"),
        ("BrokerRegistration", "response", 0, "0" * 28 + "ffffffff07"),
    ],
)
def test_length_that_claims_gigabytes_allocates_nothing(api, side, version, data):
    """What is left bounds every length before anything is made for it."""
    deserialize = getattr(message(api), f"deserialize_{side}")
    data = bytes.fromhex(data) + bytes(8)
    refused(deserialize, data, version, False)
    tracemalloc.start()
    try:
        refused(deserialize, data, version, False)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_memory_grows_with_the_input_and_no_faster():
    """A megabyte of the smallest elements stays far below a hundred."""
    count = 300_000
    data = bytes(16) + (count + 1).to_bytes(4, "big") + bytes(4 * count)
    found = message("Metadata")
    topics = b"\x7f\xff\xff\xff" + bytes(2 * count)
    tracemalloc.start()
    try:
        refused(found.deserialize_request, topics, 1, False)
        refused(found.deserialize_response, data, 1, False)
        assert tracemalloc.get_traced_memory()[1] < 100 * len(data)
    finally:
        tracemalloc.stop()


def test_message_is_found_by_any_spelling_and_by_number():
    """Kafka's name, the name in Python's style, the API key."""
    for name in ("DescribeLogDirs", "describe_log_dirs", "describe-log-dirs", 35):
        assert message("DescribeLogDirs") is message(name)
    assert repr(message(35)) == "<Message DescribeLogDirs v1 to v5>"
    assert message(35).api_key() == 35
    assert len(message_names()) == 53


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("DescribeLogDir", "did you mean 'DescribeLogDirs'?"),
        ("", "Kafka has no request named ''"),
        (12345, "Kafka has no request named 12345"),
        ("Vote", "the schema of Vote (52) is not known here"),
    ],
)
def test_message_that_is_not_there_is_named(name, words):
    """With the nearest name, or the reason."""
    assert words in str(refused(message, name))


def test_error_survives_pickle_and_copy():
    """A pickled ProtocolError has its text, message, version, field and offset."""
    error = refused(broker_registration.deserialize_request, b"", 4, False)
    for other in (pickle.loads(pickle.dumps(error)), copy.deepcopy(error)):
        assert str(error) == str(other)
        assert vars(error) == vars(other)


def test_error_shows_no_credential():
    """Bytes and strings may be passwords, keys or records."""
    found = message("SaslAuthenticate")
    for wrong in ("hunter2", {"hunter2": 1}):
        error = refused(found.serialize_request, {"auth_bytes": wrong}, 2)
        assert "hunter2" not in str(error) + repr(error) + repr(vars(error))
