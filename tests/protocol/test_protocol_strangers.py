"""Bytes of other protocols are named, whether as bytes or taken for a size."""

from __future__ import annotations

import pytest

from kafkaguard.protocol import message
from kafkaguard.protocol._other_protocols import name_protocol, name_protocol_of_size

REQUEST, ANSWER = "HTTP (a request)", "HTTP (a web server's answer)"
METHODS = "GET HEAD POST PUT DELETE PATCH OPTIONS TRACE CONNECT PRI"
KNOWN = [
    *((f"{method} / HTTP/1.1".encode(), REQUEST) for method in METHODS.split()),
    (b"HTTP/1.1 400 Bad Request", ANSWER),
    (b"SSH-2.0-OpenSSH_9.6", "SSH"),
    (b"\x14\x03\x03\0\x01", "TLS"),
    (b"\x15\x03\x03\0\x02", "TLS (an alert)"),
    (b"\x16\x03\x01\x02\0", "TLS (a handshake)"),
    (b"\x17\x03\x03\0\x20", "TLS (encrypted data)"),
    (b"\0\0\0\x20\0\x12", None),
    (b"\x18\x03\x03\0\x20", None),
    (b"\x16\x02\x03\0\x20", None),
]


@pytest.mark.parametrize(("first", "name"), KNOWN)
def test_who_speaks_is_seen_from_the_first_bytes(first, name):
    """Four of them are enough; a size that Kafka could have sent names nobody."""
    assert name == name_protocol(first)
    assert name == name_protocol(first[:4])
    assert name == name_protocol_of_size(int.from_bytes(first[:4], "big"))
    assert name == name_protocol_of_size(int.from_bytes(first[:4], "big", signed=True))


@pytest.mark.parametrize("size", [2**32, -(2**31) - 1, 2**40 + 0x47455420])
def test_a_number_that_no_four_bytes_hold_names_nobody(size):
    """A size in a log line beyond 32 bits names no protocol."""
    assert name_protocol_of_size(size) is None


def test_the_ends_of_what_four_bytes_hold_are_looked_at():
    """The smallest and the largest 32-bit size are looked up."""
    for first in (b"\xff\xff\xff\xff", b"\x80\0\0\0", b"\0\0\0\0"):
        assert name_protocol_of_size(int.from_bytes(first, "big")) is None
        assert name_protocol_of_size(int.from_bytes(first, "big", signed=True)) is None
    assert name_protocol_of_size(1195725856) == REQUEST


def test_a_default_has_the_fields_of_its_version():
    """A later field of a struct is not there in an earlier version."""
    found = message("Fetch")

    def state(version):
        data = found.serialize_request({}, version, with_header=False)
        read = found.deserialize_request(data, version, with_header=False)
        return read.get("replica_state"), read.get("replica_id")

    assert state(14) == (None, -1)
    assert state(15) == ({"replica_id": -1, "replica_epoch": -1}, None)
