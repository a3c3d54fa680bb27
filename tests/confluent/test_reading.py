"""Where a partition of confluent-kafka goes on after a reset that was not accepted."""

from __future__ import annotations

import pytest
from confluent_kafka import OFFSET_BEGINNING, OFFSET_INVALID, KafkaException
from confluent_kafka import TopicPartition as Place

from kafkaguard._cluster.reports import TopicPartition
from kafkaguard_adapters.confluent.reading import Reading

P = TopicPartition("t", 0)


class Consumer:
    """A client that says where it is, and remembers what it is told."""

    def __init__(self, position=OFFSET_INVALID, committed=OFFSET_INVALID):
        self.at, self.commit, self.told = position, committed, []

    def position(self, places):
        """Return the position."""
        return [Place(each.topic, each.partition, self.at) for each in places]

    def committed(self, places, timeout):
        """Return the commit, or raise."""
        if isinstance(self.commit, Exception):
            raise self.commit
        return [Place(each.topic, each.partition, self.commit) for each in places]

    def seek(self, place):
        """Set the position."""
        self.told.append(place.offset)
        self.at = OFFSET_INVALID

    def resume(self, places):
        """Resume."""
        self.told.append("resume")


@pytest.mark.parametrize(
    ("position", "committed", "is_earliest", "expected"),
    [
        (15, 3, True, 15),
        (OFFSET_INVALID, 12, True, 12),
        (OFFSET_INVALID, 30, True, 20),
        (OFFSET_INVALID, OFFSET_INVALID, True, OFFSET_BEGINNING),
        (OFFSET_INVALID, OFFSET_INVALID, False, 20),
        (OFFSET_INVALID, KafkaException("no coordinator"), True, 20),
    ],
    ids=["read", "committed", "behind", "no commit", "latest", "no answer"],
)
def test_nothing_that_was_fetched_ahead_is_passed_over(
    position, committed, is_earliest, expected
):
    """The client asked for 20; what it had fetched before is dropped by a pause."""
    client = Consumer(position, committed)
    shell = Reading(client, is_earliest=is_earliest)
    assert (20 if position < 0 else position) == shell.was_reset(P, 20)
    shell.free(P)
    assert [expected, "resume"] == client.told


def test_a_second_reset_before_the_first_record_goes_back_as_far():
    """There is no position then, and what is asked for lies ahead."""
    client = Consumer(15)
    shell = Reading(client)
    shell.was_reset(P, 20)
    shell.free(P)
    assert shell.was_reset(P, 27) == 15
    shell.free(P)
    assert client.told == [15, "resume", 15, "resume"]


def test_a_reset_that_is_accepted_is_not_judged_again():
    """The pause takes the client back to where it was, so it resets once more."""
    client = Consumer(15)
    shell = Reading(client)
    shell.was_reset(P, 20)
    shell.let_reset(P)
    shell.free(P)
    assert client.told == ["resume"]
    assert shell.was_reset(P, 15) is None
    assert shell.was_reset(P, 15) == 15


def test_a_position_that_the_user_sets_is_the_one_that_counts():
    """By `seek`, or in `assign`."""
    client = Consumer(15)
    shell = Reading(client)
    shell.was_reset(P, 20)
    client.at = OFFSET_INVALID
    shell.begins([Place("t", 0, 40)])
    shell.free(P)
    assert client.told == ["resume"]
    assert shell.was_reset(P, 44) == 40
