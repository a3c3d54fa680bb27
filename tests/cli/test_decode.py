"""`kafkaguard decode`, as a person types it."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from kafkaguard.cli.content import from_hex
from kafkaguard.cli.group import cli
from kafkaguard.protocol import broker_registration, message

ID = "3MfdxWlNSn2UDYsmDP1pYg"
CONTENT = {"broker_id": 5, "log_dirs": [ID], "unknown_tags": {9: b"\xff"}}
REQUEST = broker_registration.serialize_request(CONTENT, 4)
FRAME = len(REQUEST).to_bytes(4, "big") + REQUEST
XXD = """00000000: 0023 0004 0000 0007 0001 6100  .#........a.
0000000c: 0000                                     ..
"""
HEXDUMP = """00000000  00 23 00 04 00 00 00 07  00 01 61 00 00 00        |.#........a...|
0000000e
"""
TCPDUMP = """\t0x0000:  0023 0004 0000 0007 0001 6100  .#........a.
\t0x000c:  0000                                ..
"""


def invoke(*arguments, given=None, code=0):
    """Run the command and return what it printed."""
    result = CliRunner().invoke(cli, ["decode", *arguments], input=given)
    assert result.exit_code == code, result.output
    return result.output


def decoded(*arguments, given=None):
    """The JSON form of the one message."""
    return json.loads(invoke(*arguments, "--json", given=given))


@pytest.mark.parametrize("data", [REQUEST, FRAME])
def test_request_says_itself_what_it_is(data, tmp_path):
    """As digits, on standard input, as a file; with and without its size."""
    file = tmp_path / "request.bin"
    file.write_bytes(data)
    dump = tmp_path / "request.txt"
    dump.write_text(data.hex(" "))
    ways = [
        decoded(data.hex()),
        decoded(given=data),
        decoded("-", given=data.hex().upper() + "\n"),
        decoded(str(file)),
        decoded(str(dump)),
    ]
    for each in ways:
        assert (each["message"], each["type"]) == ("BrokerRegistration", "request")
        assert each["version"] == 4
        assert each["content"]["broker_id"] == 5
        assert each["content"]["log_dirs"] == [ID]
        assert each["content"]["unknown_tags"] == {"9": "ff"}
        assert each["content"]["header"]["client_id"] == "kafkaguard"


@pytest.mark.parametrize("dump", [XXD, HEXDUMP, TCPDUMP])
def test_dumps_of_the_usual_tools_are_read(dump):
    """The offsets and the text beside the digits are no digits."""
    sent = {"header": {"correlation_id": 7, "client_id": "a"}, "topics": None}
    assert from_hex(dump) == message("DescribeLogDirs").serialize_request(sent, 4)
    assert decoded(given=dump)["content"]["topics"] is None


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("00:3e", b"\x00\x3e"),
        ("0x003e", b"\x00\x3e"),
        (r"\x00\x3e", b"\x00\x3e"),
        ("00 3e\n00", b"\x00\x3e\x00"),
        ("00000040", b"\x00\x00\x00\x40"),
        ("hello", None),
        ("0", None),
        ("", None),
    ],
)
def test_digits_in_the_ways_that_people_write_them(text, data):
    """With or without separators; anything else is no message."""
    assert from_hex(text) == data


def test_several_messages_are_decoded_one_after_the_other():
    """What a connection carried, each with its size before it."""
    output = invoke("--json", given=FRAME * 2).splitlines()
    assert len(output) == 2
    assert output[0] == output[1]


def test_a_person_reads_names_ids_and_error_codes():
    """The output is indented, and error codes have their names."""
    output = invoke(REQUEST.hex())
    assert output.startswith("BrokerRegistration request v4 (API key 62, ")
    assert f"  log_dirs:\n    - {ID}\n" in output
    assert "    request_api_version: 4\n" in output
    assert "    9: 0xff\n" in output
    answer = broker_registration.serialize_response({"error_code": 104}, 4)
    output = invoke(answer.hex(), "--api", "BrokerRegistration", "--response")
    assert "  error_code: 104 INCONSISTENT_CLUSTER_ID\n" in output


def test_response_is_read_in_the_newest_version_that_fits():
    """It does not say what it is; its version can be given."""
    found = message("DescribeLogDirs")
    answer = found.serialize_response({"results": [{"log_dir": "/d"}]}, 2).hex()
    options = ("--api", "35", "--response")
    assert decoded(answer, *options)["version"] == 2
    assert decoded(answer, *options, "--version", "2")["version"] == 2
    output = invoke(answer, *options, "--version", "4", code=2)
    assert "DescribeLogDirsResponse v4" in output
    assert "offset" in output


def test_body_without_header_is_read():
    """As a tool shows it that has taken the header away."""
    body = message("Heartbeat").serialize_request({"group_id": "g"}, 4, False)
    read = decoded(body.hex(), "--api", "heartbeat", "--no-header")
    assert read["content"]["group_id"] == "g"
    assert "header" not in read["content"]


@pytest.mark.parametrize("as_json", [True, False])
def test_credentials_are_hidden_unless_asked_for(as_json):
    """A password in a dump does not land on a screen by accident."""
    sent = message("SaslAuthenticate").serialize_request({"auth_bytes": b"secret"}, 2)
    form = ["--json"] if as_json else []
    output = invoke(sent.hex(), *form)
    assert "6 bytes, hidden" in output
    assert b"secret".hex() not in output
    assert b"secret".hex() in invoke(sent.hex(), "--show-secrets", *form)


def test_long_bytes_are_shortened_for_people_only():
    """A batch of records would fill the screen."""
    partitions = [{"index": 0, "records": b"r" * 500}]
    topics = [{"name": "t", "partition_data": partitions}]
    sent = message("Produce").serialize_request({"topic_data": topics}, 9).hex()
    assert "... (500 bytes)" in invoke(sent)
    assert b"r".hex() * 500 in invoke(sent, "--json")


@pytest.mark.parametrize(
    ("arguments", "given", "words"),
    [
        (["nosuch.bin"], None, "no such file"),
        (["/"], None, "/ is a directory"),
        ([""], None, "the argument: no such file, and no hexadecimal digits"),
        (["/dev/zero"], None, "/dev/zero: more than"),
        (["zz"], None, "the argument: no such file, and no hexadecimal digits"),
        (["-"], b"", "standard input: no bytes, and no hexadecimal digits"),
        (["00"], None, "1 bytes are not a Kafka message"),
        (
            ["7fff00040000"],
            None,
            "no header of a request: Kafka has no request named 32767",
        ),
        (["00340000000000000000"], None, "the schema of Vote (52) is not known here"),
        (
            ["003e000900000000"],
            None,
            "BrokerRegistrationRequest v9: there are versions",
        ),
        ([REQUEST[:-3].hex()], None, "the argument, message 1: BrokerRegistration"),
        (["00", "--response"], None, "give --api"),
        (["00", "--no-header"], None, "give --api"),
        (["00", "--api", "Fetsh"], None, "did you mean 'Fetch'?"),
        (["00", "--api", "62"], None, "none of the versions 0 to 4 fits"),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_2(arguments, given, words):
    """What is wrong, and what is right."""
    output = invoke(*arguments, given=given, code=2)
    assert words in output
    assert "Traceback" not in output
