"""What is remembered of batches after a failure, and how a dead client is replaced."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from kafkaguard._delivery.client_life import ClientLife
from kafkaguard._delivery.facts import Batch, Place
from kafkaguard._delivery.in_flight import InFlight
from kafkaguard._delivery.resends import Resends
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


def in_flight_of(*batches):
    """Return what is in flight when these batches have begun."""
    in_flight = InFlight()
    for batch in batches:
        in_flight.begin(batch)
    return in_flight


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
        in_flight = in_flight_of(
            Keyed(HERE, 1, [b"a", b"b"]), Keyed(HERE, 2, [b"a", b"a", b"c"])
        )
        assert in_flight.find_newest(HERE, {b"a", b"b"}) == (
            {b"a": ((0, 2), 1), b"b": ((0, 1), 1)},
            None,
        )
        assert in_flight.find_newest(THERE, {b"a"}) == ({}, None)

    def test_a_record_that_was_sent_again_counts_where_it_belongs(self):
        """It came first, whatever batch it went with in the end."""
        late = Keyed(HERE, 2, [b"a", b"b"])
        late.ranks[0] = ((0, 1), 5)
        in_flight = in_flight_of(Keyed(HERE, 1, [b"x"]), late, Keyed(HERE, 3, [b"a"]))
        assert in_flight.find_newest(HERE, {b"a"})[0] == {b"a": ((0, 3), 0)}
        in_flight = in_flight_of(Keyed(HERE, 1, [b"a"] * 9), late)
        assert in_flight.find_newest(HERE, {b"a"})[0] == {b"a": ((0, 1), 8)}

    def test_what_was_certainly_not_written_does_not_count(self):
        """An older one of the key may be sent again."""
        batch = Keyed(HERE, 1, [b"a", b"a"])
        batch.unwritten.add(1)
        assert in_flight_of(batch).find_newest(HERE, {b"a"})[0] == {b"a": ((0, 1), 0)}
        batch.unwritten.add(0)
        assert in_flight_of(batch).find_newest(HERE, {b"a"})[0] == {}

    def test_a_batch_without_keys_may_hold_any(self):
        """Unless none of its records was written; the newest such batch counts."""
        first, second = Keyed(HERE, 1, None), Keyed(HERE, 2, None)
        in_flight = in_flight_of(first, second)
        _, unknown = in_flight.find_newest(HERE, {b"a"})
        assert unknown > ((0, 2), 10**9)
        assert unknown < ((0, 3), 0)
        second.unwritten.update((0, 1))
        _, unknown = in_flight.find_newest(HERE, {b"a"})
        assert ((0, 1), 10**9) < unknown < ((0, 2), 0)
        first.unwritten.update((0, 1))
        assert in_flight.find_newest(HERE, {b"a"}) == ({}, None)

    def test_a_batch_of_resent_records_has_their_keys(self):
        """A client cannot show an open batch, but each record in it is known."""
        batch = Keyed(HERE, 5, None)
        in_flight = in_flight_of(batch)
        first, second = batch.tokens()
        in_flight.resent[first] = Failed(None, b"a", ((0, 1), 0))
        assert (
            in_flight.find_newest(HERE, {b"a"})[1] is not None
        )  # the second may have any key
        in_flight.resent[second] = Failed(None, b"b", ((0, 2), 0))
        assert in_flight.find_newest(HERE, {b"a", b"c"}) == ({b"a": ((0, 1), 0)}, None)

    def test_a_batch_is_remembered_until_all_before_it_is_settled(self):
        """A record that failed early is compared with what came after."""
        first, second = Keyed(HERE, 1, [b"a"]), Keyed(HERE, 2, [b"a"])
        in_flight = in_flight_of(first, second)
        second.ended = "accepted"
        in_flight.end(second)
        assert in_flight.find_newest(HERE, {b"a"})[0] == {b"a": ((0, 2), 0)}
        first.ended, first.unsettled = "failed", 1
        in_flight.end(first)
        assert in_flight.find_newest(HERE, {b"a"})[0] == {b"a": ((0, 2), 0)}
        first.unsettled = 0
        in_flight.drop_ended(HERE)
        assert in_flight.find_newest(HERE, {b"a"})[0] == {}


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


def superseded(in_flight, *records):
    """Return which of the records a later one of their key has overtaken."""
    resends = object.__new__(Resends)
    resends._in_flight = in_flight
    late = resends._superseded(list(records))
    return [record in late for record in records]


class TestSuperseded:
    """A record is not sent again after a later one of its key."""

    def test_a_later_record_of_its_key_and_partition_counts(self):
        """Not an earlier one, nor itself, nor one of another key or partition."""
        one = Keyed(HERE, 1, [b"a", b"b"])
        in_flight = in_flight_of(one, Keyed(HERE, 2, [b"b"]), Keyed(THERE, 3, [b"a"]))
        mine = Failed(one, b"a", ((0, 1), 0))
        overtaken = Failed(one, b"b", ((0, 1), 1))
        other = Failed(Keyed(THERE, 3, [b"a"]), b"a", ((0, 2), 0))
        assert superseded(in_flight, mine, overtaken) == [False, True]
        assert superseded(in_flight, mine, other) == [False, True]
        assert superseded(in_flight, other, mine) == [True, False]

    def test_records_without_a_key_or_a_batch_have_no_order(self):
        """Records without a key are never overtaken."""
        one = Keyed(HERE, 1, [None, b"a"])
        in_flight = in_flight_of(one, Keyed(HERE, 2, [None, b"a"]))
        keyless = Failed(one, None, ((0, 1), 0))
        refused = Failed(None, b"a", ((0, 1), 0))
        assert superseded(in_flight, keyless, refused) == [False, False]

    def test_a_later_batch_whose_keys_cannot_be_told_overtakes_all(self):
        """It may hold any key, whether an older record of it is known or not."""
        one = Keyed(HERE, 1, [b"a", b"b"])
        in_flight = in_flight_of(one, Keyed(HERE, 2, None))
        assert superseded(
            in_flight, Failed(one, b"a", ((0, 1), 0)), Failed(one, b"c", ((0, 1), 1))
        ) == [True, True]
        assert superseded(in_flight, Failed(one, b"a", ((0, 3), 0))) == [False]


class TestNextGroup:
    """Who is handed over next, and whether it goes alone."""

    def next_group(self, in_flight, *records, now=0.0):
        """Return the next group of records, and those whose time was over."""
        resends, expired = object.__new__(Resends), []
        resends._in_flight, resends.oversize = in_flight, set()
        resends.expire = lambda record, _: expired.append(record)
        groups = iter([list(records), []])
        topic = SimpleNamespace(name="t", next_group=lambda: next(groups))
        return resends._next_group(topic, now), expired

    def test_a_record_whose_time_is_over_now_is_not_handed_over(self):
        """At its due time there is none left."""
        one = Keyed(HERE, 1, [b"a", b"b"])
        early = Failed(one, b"a", ((0, 1), 0), due=10.0)
        late = Failed(one, b"b", ((0, 1), 1), due=10.1)
        assert self.next_group(InFlight(), early, late, now=10.0) == ([late], [early])

    def test_a_record_is_alone_where_nothing_else_of_its_topic_is_open(self):
        """Only then is it certain that an answer is about it."""
        one = Keyed(THERE, 1, [b"a", b"b"])
        records = [Failed(one, key, ((0, 1), n)) for n, key in enumerate((b"a", b"b"))]
        open_one = in_flight_of(Keyed(HERE, 1, [b"x"]))
        for in_flight, group, is_alone in (
            (InFlight(), records[:1], True),
            (InFlight(), records, False),
            (open_one, records[:1], False),
        ):
            taken, _ = self.next_group(in_flight, *group)
            assert taken == group
            assert {is_alone} == {record.is_alone for record in taken}


class TestOverdue:
    """Batches whose time is over are looked at again and again, not all the time."""

    def test_an_overdue_batch_is_looked_at_once_a_second(self):
        """A batch past its deadline is checked each second until it has its outcome."""
        batch = Keyed(HERE, 1, [b"a"], due=10.0)
        in_flight = in_flight_of(batch)
        assert in_flight.next_due() == 10.0
        assert in_flight.take_overdue(9.9) == []
        for now in (10.0, 11.0, 12.0):
            assert in_flight.take_overdue(now) == [batch]
            assert in_flight.take_overdue(now + 0.9) == []
            assert in_flight.next_due() == now + 1.0
        batch.ended = "failed"
        in_flight.end(batch)
        assert in_flight.take_overdue(20.0) == []
        assert in_flight.next_due() is None

    def test_the_parts_of_a_batch_have_no_more_time_than_it_had(self):
        """All of them together take its place."""
        whole = Keyed(HERE, 1, [b"a", b"b"], due=10.0)
        in_flight = in_flight_of(whole)
        parts = [Keyed(HERE, n, [k], 30.0, whole) for n, k in enumerate((b"a", b"b"))]
        in_flight.begin(parts[0])
        assert whole.ended is None
        in_flight.begin(parts[1])
        assert whole.ended == "split"
        assert list(in_flight.open) == whole.parts == parts
        assert [(each.due, each.next_check) for each in parts] == [(10.0, 10.0)] * 2

    def test_the_parts_of_a_batch_are_counted_in_its_place(self):
        """Open and failed records of a split batch keep its place in the order."""
        whole = Keyed(HERE, 1, [b"a", b"b", b"c"])
        in_flight = in_flight_of(whole)
        assert in_flight.count_open([whole]) == (3, 0)
        one, two = (Keyed(HERE, n, k, 10.0, whole) for n, k in ((1, [1]), (2, [2, 3])))
        in_flight.begin(one)
        in_flight.begin(two)
        assert in_flight.count_open([whole]) == (3, 0)
        one.ended, one.unsettled = "failed", 1
        assert in_flight.count_open([whole]) == (2, 1)
        two.ended = "accepted"
        assert in_flight.count_open([whole]) == (0, 1)

    def test_a_topic_is_quiet_when_none_of_its_batches_is_open(self):
        """Open batches of other topics do not count."""
        one, other = Keyed(HERE, 1, [b"a"]), Keyed(Place("u", 0), 1, [b"a"])
        in_flight = in_flight_of(one, other)
        assert not in_flight.is_quiet("t")
        one.ended = "accepted"
        in_flight.end(one)
        assert in_flight.is_quiet("t")
        assert not in_flight.is_quiet("u")


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
        assert life.not_before == (100.25 if is_late else 102.0)

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
        life.keep_in_doubt(first)
        assert life.locking_out is None
        life.die(OSError("gone"), HERE)
        assert life.may_answer
        life.keep_in_doubt(first)
        life.keep_in_doubt(second)
        assert life.locking_out is first
        life.happens(ClientEvent.HEARD_OUT)
        assert life.may_answer
        life.happens(ClientEvent.STOPPED)
        assert not life.may_answer
        life.revive()
        assert life.locking_out is first
        life.die(OSError("again"), None)
        life.keep_in_doubt(second)
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
