"""Where a partition of confluent-kafka goes on after a reset that was not accepted."""

from __future__ import annotations

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_INVALID,
    OFFSET_STORED,
    KafkaException,
)
from confluent_kafka import TopicPartition as Place

from kafkaguard._cluster.reports import TopicPartition
from kafkaguard_adapters.confluent.reading import ConfluentConsumerShell

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
        (OFFSET_INVALID, KafkaException("no coordinator"), True, 20),
    ],
    ids=["read", "committed", "behind", "no commit", "no answer"],
)
def test_nothing_that_was_fetched_ahead_is_passed_over(
    position, committed, is_earliest, expected
):
    """The client asked for 20; what it had fetched before is dropped by a pause."""
    client = Consumer(position, committed)
    shell = ConfluentConsumerShell(client, is_earliest=is_earliest)
    assert (20 if position < 0 else position) == shell.was_reset(P, 20)
    shell.go_back(P)
    shell.free(P)
    assert [20 if position < 0 else position, expected, "resume"] == client.told


@pytest.mark.parametrize("committed", [OFFSET_INVALID, KafkaException("no answer")])
def test_a_reset_is_the_clients_where_nobody_knows_where_reading_began(committed):
    """It began at the end of the log, and records may be fetched and not returned."""
    client = Consumer(committed=committed)
    shell = ConfluentConsumerShell(client, is_earliest=False)
    assert shell.was_reset(P, 20) is None
    shell.free(P)
    assert client.told == ["resume"]


def test_a_second_reset_before_the_first_record_goes_back_as_far():
    """There is no position then, and what is asked for lies ahead."""
    client = Consumer(15)
    shell = ConfluentConsumerShell(client)
    shell.was_reset(P, 20)
    shell.go_back(P)
    shell.free(P)
    assert shell.was_reset(P, 27) == 15
    shell.go_back(P)
    shell.free(P)
    assert client.told == [15, 15, "resume", 15, 15, "resume"]


def test_a_reset_that_is_accepted_is_not_judged_again():
    """The client was taken back to where it was, so it resets once more."""
    client = Consumer(15)
    shell = ConfluentConsumerShell(client)
    shell.was_reset(P, 20)
    shell.go_back(P)
    shell.let_reset(P)
    shell.free(P)
    assert client.told == [15, "resume"]
    assert shell.was_reset(P, 15) is None
    assert shell.was_reset(P, 15) == 15


def test_a_position_that_the_user_sets_is_the_one_that_counts():
    """A position from seek() or assign() replaces the one that the guard knew."""
    client = Consumer(15)
    shell = ConfluentConsumerShell(client)
    shell.was_reset(P, 20)
    shell.go_back(P)
    shell.begins([Place("t", 0, 40)])
    shell.free(P)
    assert client.told == [15, "resume"]
    assert shell.was_reset(P, 44) == 40


class Assigned(Consumer):
    """A client with an assignment, in which one partition has a position."""

    is_cooperative = False

    def assignment(self):
        """Return what is assigned, with the offsets that the user has given."""
        offsets = [OFFSET_STORED, OFFSET_STORED, OFFSET_BEGINNING, 7, OFFSET_STORED]
        return [Place("t", n, at) for n, at in enumerate(offsets)]

    def position(self, places):
        """Return positions: only the first partition has returned records."""
        at = [15] + [OFFSET_INVALID] * (len(places) - 1)
        return [Place(p.topic, p.partition, a) for p, a in zip(places, at, strict=True)]

    def get_watermark_offsets(self, place, cached):
        """Return nothing known."""
        return OFFSET_INVALID, OFFSET_INVALID

    def assign(self, places):
        """Assign the whole, unless the group rebalances cooperatively."""
        if self.is_cooperative:
            raise KafkaException("must be made using incremental_assign")
        self.told.append(("assign", offsets(places)))

    def incremental_unassign(self, places):
        """Remove."""
        self.told.append(("remove", offsets(places)))

    def incremental_assign(self, places):
        """Add."""
        self.told.append(("add", offsets(places)))


def offsets(places):
    """Map partitions to offsets."""
    return {each.partition: each.offset for each in places}


def test_a_restart_moves_no_partition_that_has_begun():
    """Only those at a committed offset are looked up; a seek counts as a start."""
    client = Assigned()
    shell = ConfluentConsumerShell(client)
    shell.begins([Place("t", 1, 40)])
    assert {4} == {p.partition for p, r in shell.readers().items() if r.needs_commit}
    shell.restart(frozenset(shell.readers()))
    begins = {0: 15, 1: 40, 2: OFFSET_BEGINNING, 3: 7, 4: OFFSET_STORED}
    assert [("assign", begins)] == client.told


def test_a_restart_within_a_cooperative_group_assigns_only_what_it_must():
    """The group does not let its members replace a whole assignment."""
    client = Assigned()
    client.is_cooperative = True
    ConfluentConsumerShell(client).restart(
        {TopicPartition("t", 0), TopicPartition("t", 4)}
    )
    only = {4: OFFSET_STORED}
    assert [("remove", only), ("add", only)] == client.told


def test_a_restart_of_partitions_that_have_begun_does_nothing():
    """The user has assigned or sought meanwhile."""
    client = Assigned()
    ConfluentConsumerShell(client).restart(
        {TopicPartition("t", 0), TopicPartition("t", 3)}
    )
    assert client.told == []
