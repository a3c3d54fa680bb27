"""Sends of a producer whose class has a ``send`` of its own."""

from __future__ import annotations

from threading import get_ident
from types import SimpleNamespace

from kafkaguard_adapters.kafka_python.own_sending import OwnSending


def test_a_send_within_a_send_leaves_the_outer_one_marked():
    """A hold waits for the outer one, whose record is not in the buffer yet."""
    sending = OwnSending(set())
    sending.machine = SimpleNamespace(holds=set())
    sending.under_way = {}
    marked = []

    def send(topic):
        sending.under_way[get_ident()] = topic  # as check_record() does
        if topic == "outer":
            sending.send("inner")  # from a serialiser
            marked.append(sending.under_way[get_ident()])

    sending.shell = SimpleNamespace(producer=SimpleNamespace(send=send))
    sending.send("outer")
    assert marked == ["outer"]
    assert set(sending.under_way.values()) == {None}
