"""What is remembered of batches after a failure, and how a dead client is replaced."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from kafkaguard._delivery.client_life import ClientLife
from kafkaguard._delivery.facts import Batch, Place
from kafkaguard._delivery.lines import Lines
from kafkaguard._delivery.rounds import Rounds
from kafkaguard._delivery.table import (
    CLIENTS,
    RECORDS,
    TOPICS,
    TRANSACTIONS,
    ClientEvent,
    ClientState,
)

HERE, THERE = Place("t", 0), Place("t", 1)


class Keyed(Batch):
    """A batch of some keys; None: they cannot be told."""

    def __init__(self, place, number, keys, due=10.0, parent=None):
        super().__init__(place, (0, number), due, parent)
        self._keys = keys

    @property
    def count(self):
        """Return how many records it has."""
        return 2 if self._keys is None else len(self._keys)

    def keys(self):
        """Return the keys."""
        return self._keys

    def tokens(self):
        """Return a token for each record."""
        return [(self.position, index) for index in range(self.count)]


def lines_of(*batches):
    """Return the lines in which these batches have begun."""
    lines = Lines()
    for batch in batches:
        lines.begin(batch)
    return lines


@pytest.mark.parametrize("fact", ["count", "tokens", "keys", "raws"])
def test_a_shell_must_say_what_is_in_a_batch(fact):
    """The base class of batches raises NotImplementedError for records."""
    batch = Batch(HERE, (0, 0), 1.0)
    with pytest.raises(NotImplementedError):
        getattr(batch, fact)()


@pytest.mark.parametrize("table", [RECORDS, TOPICS, CLIENTS, TRANSACTIONS])
def test_states_and_events_are_their_names(table):
    """Errors and pictures show them; what a table does not name is an error."""
    assert all(each == each.name for pair in table.transitions for each in pair)
    state, event = next(iter(table.transitions))
    with pytest.raises(Exception, match=table.name) as caught:
        table.after(state, "NOTHING")
    assert state in str(caught.value)
    assert table.after(state, event) == table.transitions[state, event]


class TestNewest:
    """The newest record of each key that was written, or may be."""

    def test_it_is_the_last_one_of_its_key(self):
        """The newest record counts, in several batches and within one batch."""
        lines = lines_of(
            Keyed(HERE, 1, [b"a", b"b"]), Keyed(HERE, 2, [b"a", b"a", b"c"])
        )
        assert lines.newest(HERE, {b"a", b"b"}) == (
            {b"a": ((0, 2), 1), b"b": ((0, 1), 1)},
            None,
        )
        assert lines.newest(THERE, {b"a"}) == ({}, None)

    def test_a_record_that_was_sent_again_counts_where_it_belongs(self):
        """It came first, whatever batch it went with in the end."""
        late = Keyed(HERE, 2, [b"a", b"b"])
        late.ranks[0] = ((0, 1), 5)
        lines = lines_of(Keyed(HERE, 1, [b"x"]), late, Keyed(HERE, 3, [b"a"]))
        assert lines.newest(HERE, {b"a"})[0] == {b"a": ((0, 3), 0)}
        lines = lines_of(Keyed(HERE, 1, [b"a"] * 9), late)
        assert lines.newest(HERE, {b"a"})[0] == {b"a": ((0, 1), 8)}

    def test_what_was_certainly_not_written_does_not_count(self):
        """An older one of the key may be sent again."""
        batch = Keyed(HERE, 1, [b"a", b"a"])
        batch.unwritten.add(1)
        assert lines_of(batch).newest(HERE, {b"a"})[0] == {b"a": ((0, 1), 0)}
        batch.unwritten.add(0)
        assert lines_of(batch).newest(HERE, {b"a"})[0] == {}

    def test_a_batch_without_keys_may_hold_any(self):
        """Unless none of its records was written; the newest such batch counts."""
        first, second = Keyed(HERE, 1, None), Keyed(HERE, 2, None)
        lines = lines_of(first, second)
        _, unknown = lines.newest(HERE, {b"a"})
        assert unknown > ((0, 2), 10**9)
        assert unknown < ((0, 3), 0)
        second.unwritten.update((0, 1))
        _, unknown = lines.newest(HERE, {b"a"})
        assert ((0, 1), 10**9) < unknown < ((0, 2), 0)
        first.unwritten.update((0, 1))
        assert lines.newest(HERE, {b"a"}) == ({}, None)

    def test_a_batch_of_resent_records_has_their_keys(self):
        """A client cannot show an open batch, but each record in it is known."""
        batch = Keyed(HERE, 5, None)
        lines = lines_of(batch)
        first, second = batch.tokens()
        lines.again[first] = Failed(None, b"a", ((0, 1), 0))
        assert lines.newest(HERE, {b"a"})[1] is not None  # the second may have any key
        lines.again[second] = Failed(None, b"b", ((0, 2), 0))
        assert lines.newest(HERE, {b"a", b"c"}) == ({b"a": ((0, 1), 0)}, None)

    def test_a_batch_is_remembered_until_all_before_it_is_settled(self):
        """A record that failed early is compared with what came after."""
        first, second = Keyed(HERE, 1, [b"a"]), Keyed(HERE, 2, [b"a"])
        lines = lines_of(first, second)
        second.ended = "accepted"
        lines.end(second)
        assert lines.newest(HERE, {b"a"})[0] == {b"a": ((0, 2), 0)}
        first.ended, first.left = "failed", 1
        lines.end(first)
        assert lines.newest(HERE, {b"a"})[0] == {b"a": ((0, 2), 0)}
        first.left = 0
        lines.shorten(HERE)
        assert lines.newest(HERE, {b"a"})[0] == {}


@dataclass(eq=False)
class Failed:
    """A record that failed, as far as its rank is concerned."""

    batch: Keyed | None
    key: bytes | None
    rank: tuple
    due: float = 99.0
    raw: bytes = b"raw"
    singles: int = 0
    is_letter: bool = False
    is_alone: bool | None = None


def superseded(lines, *records):
    """Return which of the records a later one of their key has overtaken."""
    rounds = object.__new__(Rounds)
    rounds._lines = lines
    late = rounds._superseded(list(records))
    return [record in late for record in records]


class TestSuperseded:
    """A record is not sent again after a later one of its key."""

    def test_a_later_record_of_its_key_and_partition_counts(self):
        """Not an earlier one, nor itself, nor one of another key or partition."""
        one = Keyed(HERE, 1, [b"a", b"b"])
        lines = lines_of(one, Keyed(HERE, 2, [b"b"]), Keyed(THERE, 3, [b"a"]))
        mine = Failed(one, b"a", ((0, 1), 0))
        overtaken = Failed(one, b"b", ((0, 1), 1))
        other = Failed(Keyed(THERE, 3, [b"a"]), b"a", ((0, 2), 0))
        assert superseded(lines, mine, overtaken) == [False, True]
        assert superseded(lines, mine, other) == [False, True]
        assert superseded(lines, other, mine) == [True, False]

    def test_records_without_a_key_or_a_batch_have_no_order(self):
        """Records without a key are never overtaken."""
        one = Keyed(HERE, 1, [None, b"a"])
        lines = lines_of(one, Keyed(HERE, 2, [None, b"a"]))
        keyless = Failed(one, None, ((0, 1), 0))
        refused = Failed(None, b"a", ((0, 1), 0))
        assert superseded(lines, keyless, refused) == [False, False]

    def test_a_later_batch_whose_keys_cannot_be_told_overtakes_all(self):
        """It may hold any key, whether an older record of it is known or not."""
        one = Keyed(HERE, 1, [b"a", b"b"])
        lines = lines_of(one, Keyed(HERE, 2, None))
        assert superseded(
            lines, Failed(one, b"a", ((0, 1), 0)), Failed(one, b"c", ((0, 1), 1))
        ) == [True, True]
        assert superseded(lines, Failed(one, b"a", ((0, 3), 0))) == [False]


class TestNextGroup:
    """Who is handed over next, and whether it goes alone."""

    def next_group(self, lines, *records, now=0.0):
        """Return the next group of records, and those whose time was over."""
        rounds, expired = object.__new__(Rounds), []
        rounds._lines, rounds.oversize = lines, set()
        rounds.expire = lambda record, _: expired.append(record)
        groups = iter([list(records), []])
        topic = SimpleNamespace(name="t", next_group=lambda: next(groups))
        return rounds._next_group(topic, now), expired

    def test_a_record_whose_time_is_over_now_is_not_handed_over(self):
        """At its due time there is none left."""
        one = Keyed(HERE, 1, [b"a", b"b"])
        early = Failed(one, b"a", ((0, 1), 0), due=10.0)
        late = Failed(one, b"b", ((0, 1), 1), due=10.1)
        assert self.next_group(Lines(), early, late, now=10.0) == ([late], [early])

    def test_a_record_is_alone_where_nothing_else_of_its_topic_is_open(self):
        """Only then is it certain that an answer is about it."""
        one = Keyed(THERE, 1, [b"a", b"b"])
        records = [Failed(one, key, ((0, 1), n)) for n, key in enumerate((b"a", b"b"))]
        open_one = lines_of(Keyed(HERE, 1, [b"x"]))
        for lines, group, is_alone in (
            (Lines(), records[:1], True),
            (Lines(), records, False),
            (open_one, records[:1], False),
        ):
            taken, _ = self.next_group(lines, *group)
            assert taken == group
            assert {is_alone} == {record.is_alone for record in taken}


class TestOverdue:
    """Batches whose time is over are looked at again and again, not all the time."""

    def test_an_overdue_batch_is_looked_at_once_a_second(self):
        """A batch past its deadline is checked each second until it has its outcome."""
        batch = Keyed(HERE, 1, [b"a"], due=10.0)
        lines = lines_of(batch)
        assert lines.next_due() == 10.0
        assert lines.overdue(9.9) == []
        for now in (10.0, 11.0, 12.0):
            assert lines.overdue(now) == [batch]
            assert lines.overdue(now + 0.9) == []
            assert lines.next_due() == now + 1.0
        batch.ended = "failed"
        lines.end(batch)
        assert lines.overdue(20.0) == []
        assert lines.next_due() is None

    def test_the_parts_of_a_batch_have_no_more_time_than_it_had(self):
        """All of them together take its place."""
        whole = Keyed(HERE, 1, [b"a", b"b"], due=10.0)
        lines = lines_of(whole)
        parts = [Keyed(HERE, n, [k], 30.0, whole) for n, k in enumerate((b"a", b"b"))]
        lines.begin(parts[0])
        assert whole.ended is None
        lines.begin(parts[1])
        assert whole.ended == "split"
        assert list(lines.open) == whole.parts == parts
        assert [(each.due, each.next_check) for each in parts] == [(10.0, 10.0)] * 2

    def test_the_parts_of_a_batch_are_counted_in_its_place(self):
        """Open and failed records of a split batch keep its place in the order."""
        whole = Keyed(HERE, 1, [b"a", b"b", b"c"])
        lines = lines_of(whole)
        assert lines.left([whole]) == (3, 0)
        one, two = (Keyed(HERE, n, k, 10.0, whole) for n, k in ((1, [1]), (2, [2, 3])))
        lines.begin(one)
        lines.begin(two)
        assert lines.left([whole]) == (3, 0)
        one.ended, one.left = "failed", 1
        assert lines.left([whole]) == (2, 1)
        two.ended = "accepted"
        assert lines.left([whole]) == (0, 1)

    def test_a_topic_is_quiet_when_none_of_its_batches_is_open(self):
        """Open batches of other topics do not count."""
        one, other = Keyed(HERE, 1, [b"a"]), Keyed(Place("u", 0), 1, [b"a"])
        lines = lines_of(one, other)
        assert not lines.is_quiet("t")
        one.ended = "accepted"
        lines.end(one)
        assert lines.is_quiet("t")
        assert not lines.is_quiet("u")


def dead():
    """Return the life of a client that is dead, and to be replaced."""
    life = ClientLife()
    life.die(OSError("gone"), HERE)
    life.happens(ClientEvent.HEARD_OUT)
    life.happens(ClientEvent.STOPPED)
    return life


class TestLife:
    """Building a successor is tried again, ever more rarely."""

    def test_the_pauses_double_up_to_ten_seconds(self):
        """After a successor the pauses begin with the first one again."""
        life = dead()
        for _ in range(2):
            for pause in (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0):
                life.fail(OSError("no broker"), 100.0, is_final=False)
                assert life.not_before == 100.0 + pause
                assert life.state is ClientState.PAUSED
                life.happens(ClientEvent.PAUSE_OVER)
            assert str(life.error) == "no broker"
            life.revive()
            assert life.error is None
            assert life.is_alive
            life.die(OSError("again"), None)
            life.happens(ClientEvent.HEARD_OUT)
            life.happens(ClientEvent.STOPPED)

    @pytest.mark.parametrize("is_late", [False, True])
    def test_only_clients_that_die_by_themselves_end_the_attempts(self, is_late):
        """A client with an overdue batch may only lack a broker, for hours."""
        life = ClientLife()
        for _ in range(9):
            life.die(OSError("gone"), HERE, is_late=is_late)
            life.happens(ClientEvent.HEARD_OUT)
            life.happens(ClientEvent.STOPPED)
            at_once = life.replaces_at_once(100.0, is_closing=False)
            if life.state is ClientState.LOST:
                break
            if not at_once:
                life.happens(ClientEvent.PAUSE_OVER)
            life.revive()
        assert (life.state is ClientState.LOST) is not is_late
        assert life.not_before == (110.0 if is_late else 102.0)

    def test_after_the_last_attempt_a_send_must_ask_for_the_next(self):
        """A build after the last attempt starts when a send asks, after the pause."""
        life = dead()
        life.fail(OSError("no broker"), 100.0, is_final=True)
        assert life.state is ClientState.LOST
        life.happens(ClientEvent.WANTED)
        assert (life.state, life.not_before) == (ClientState.PAUSED, 100.25)

    def test_an_outage_of_hours_never_makes_a_pause_that_is_no_number(self):
        """The pauses do not double for ever."""
        life = dead()
        for _ in range(2_000):
            life.fail(OSError("no broker"), 100.0, is_final=False)
            life.happens(ClientEvent.PAUSE_OVER)
        assert life.not_before == 110.0

    def test_the_first_batch_that_is_left_in_doubt_is_remembered(self):
        """While it is dead; that of a successor that dies as well comes after it."""
        first, second = Keyed(HERE, 1, [b"a"]), Keyed(HERE, 2, [b"a"])
        life = ClientLife()
        life.leaves_in_doubt(first)
        assert life.locking_out is None
        life.die(OSError("gone"), HERE)
        assert life.may_answer
        life.leaves_in_doubt(first)
        life.leaves_in_doubt(second)
        assert life.locking_out is first
        life.happens(ClientEvent.HEARD_OUT)
        assert life.may_answer
        life.happens(ClientEvent.STOPPED)
        assert not life.may_answer
        life.revive()
        assert life.locking_out is first
        life.die(OSError("again"), None)
        life.leaves_in_doubt(second)
        assert life.locking_out is second

    @pytest.mark.parametrize(
        ("code", "where", "words"),
        [
            (None, None, "OSError"),
            (87, None, "OSError (87)"),
            (87, HERE, "OSError (87), topic t, partition 0"),
        ],
    )
    def test_what_killed_it_is_said(self, code, where, words):
        """The class, the code, and whose answer it was."""
        cause, life = OSError("gone"), ClientLife()
        cause.errno = code
        life.die(cause, where)
        assert life.describe_death() == words
