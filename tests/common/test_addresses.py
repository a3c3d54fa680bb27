"""Addresses of brokers, and names of topics, as people write them."""

from __future__ import annotations

import pytest

from kafkaguard._common.arguments import read_address
from kafkaguard._common.topic_names import can_be_a_topic


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("host:1", ("host", 1)),
        ("host", ("host", 9092)),
        ("a-b.c_d:65535", ("a-b.c_d", 65535)),
        ("[::1]:9093", ("::1", 9093)),
        ("[fe80::1%eth0]", ("fe80::1%eth0", 9092)),
        ("SASL_SSL://host:1", ("host", 1)),
        *((wrong, None) for wrong in ("", "host:", "host:0", "host:65536", "a:b")),
        *((wrong, None) for wrong in ("::1", "http://h:1", "b c", "me:pw@host:1")),
    ],
)
def test_address_is_read_or_none(text, address):
    """Nobody waits for one that cannot be reached."""
    assert address == read_address(text)


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("a", True),
        ("A.b_c-9", True),
        ("a" * 249, True),
        ("a" * 250, False),
        *((wrong, False) for wrong in ("", ".", "..", "a b", "ä", "a/b", "a\n")),
    ],
)
def test_what_a_topic_can_be_called(name, is_one):
    """A topic's name is checked by the rule of Kafka's class ``Topic``."""
    assert is_one is can_be_a_topic(name)
