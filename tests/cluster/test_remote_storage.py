"""Readers that stand still, found without a broker."""

from __future__ import annotations

from kafkaguard._cluster.remote_storage import Progress, RemoteStorageEvent
from kafkaguard._cluster.reports import TopicPartition
from kafkaguard.errors import RemoteStorageNotReadyError


def test_progress_counts_from_the_last_move():
    """A partition that moves, or is no longer read, starts anew."""
    progress = Progress(patience=5.0)
    a, b = TopicPartition("t", 0), TopicPartition("t", 1)
    assert progress.note({a: 0, b: 0}, now=0.0) == {}
    assert progress.note({a: 0, b: 1}, now=4.0) == {}
    assert progress.note({a: 0, b: 1}, now=5.0) == {a: 5.0}
    assert progress.note({b: 1}, now=9.0) == {b: 5.0}
    assert progress.note({a: 0, b: 1}, now=10.0) == {b: 6.0}


def test_five_seconds_are_waited_unless_said_otherwise():
    """Less is how long a slow broker may take."""
    progress, place = Progress(), TopicPartition("t", 0)
    assert progress.note({place: 7}, now=1.0) == {}
    assert progress.note({place: 7}, now=5.9) == {}
    assert progress.note({place: 7}, now=6.0) == {place: 5.0}


def test_an_event_without_an_error_says_that_the_reader_can_go_on():
    """An event with an error says that the reader waits; without one, it goes on."""
    place = {"topic": "t", "partition": 0, "position": 7, "standing": 5.0}
    assert RemoteStorageEvent(**place, error=None).is_ready
    assert not RemoteStorageEvent(**place, error=RemoteStorageNotReadyError()).is_ready
