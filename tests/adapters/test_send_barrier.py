"""A hold begins when no send is between its look at the holds and the client."""

from __future__ import annotations

import threading
import time

import pytest

from kafkaguard_adapters.producing.barrier import SendBarrier

#: The ident of a thread that is not ours.
OTHER = -1


@pytest.mark.parametrize(
    ("under_way", "topic", "is_clear"),
    [
        ({}, "t", True),
        ({OTHER: "t"}, "t", False),
        ({OTHER: "other"}, "t", True),
        ({OTHER: "other"}, None, False),
        ({OTHER: None}, "t", True),
        ({OTHER: None}, None, True),
    ],
)
def test_only_sends_of_the_topic_are_waited_for(under_way, topic, is_clear):
    """None is every topic; a thread that has sent and does not send now is none."""
    barrier = SendBarrier()
    barrier.under_way.update(under_way)
    assert is_clear is barrier.wait_for_sends(topic, time.monotonic())


def test_the_callers_own_send_is_not_waited_for():
    """A callback that sends on the thread that holds would wait for itself."""
    barrier = SendBarrier()
    barrier.under_way[threading.get_ident()] = "t"
    assert barrier.wait_for_sends("t", time.monotonic()) is True


def test_a_send_that_ends_is_noticed():
    """The wait is over as soon as the other thread is."""
    barrier = SendBarrier()
    barrier.under_way[OTHER] = "t"
    ended = threading.Thread(target=lambda: barrier.under_way.update({OTHER: None}))
    ended.start()
    assert barrier.wait_for_sends("t", time.monotonic() + 10) is True
    ended.join()
