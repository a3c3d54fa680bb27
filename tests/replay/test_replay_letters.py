"""Which letters a replay takes, and in which transactions and order, without a broker."""

from __future__ import annotations

import itertools
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaguard._delivery.dead_letters import Reason
from kafkaguard._delivery.dialects import NAMES, LetterFacts, write_headers
from kafkaguard_adapters.replay.letters import (
    Entry,
    Place,
    Selection,
    interleave,
    read_letter,
    split_into_transactions,
)

OWN = [("trace", b"1"), ("empty", None), ("trace", b"2")]
FACTS = LetterFacts(
    reason=Reason.HANDLER_FAILED,
    topic="orders",
    partition=3,
    offset=77,
    timestamp_ms=1_700_000_000_000,
    group="billing",
    exception="shop.OutOfStock",
    message="nothing left",
)


@pytest.mark.parametrize("dialect", NAMES)
def test_letter_of_each_dialect_is_the_record_again(dialect):
    """Key, value and own headers are kept, also twice the same name and a null."""
    headers = [*OWN, *write_headers(FACTS, dialect)]
    letter = read_letter(b"", None, headers, 1_700_000_000_000)
    assert (letter.key, letter.value, list(letter.headers)) == (b"", None, OWN)
    assert (letter.topic, letter.partition, letter.offset) == ("orders", 3, 77)
    assert (letter.reason, letter.attempts, letter.is_cut) == (
        "HANDLER_FAILED",
        1,
        False,
    )
    assert letter.timestamp_ms == 1_700_000_000_000
    assert letter.is_letter


def test_record_that_is_not_a_letter_is_kept_as_it_is():
    """It names no topic, and keeps the count of an earlier replay."""
    letter = read_letter(b"k", b"v", [*OWN, ("kafkaguard.attempts", b"2")], 5)
    assert (letter.topic, letter.is_letter, letter.attempts) == (None, False, 2)
    assert len(letter.headers) == 4


def test_cut_value_is_told():
    """What is missing of it cannot be sent."""
    headers = [*write_headers(FACTS, "own"), ("kafkaguard.value_bytes", b"5000")]
    assert read_letter(b"k", b"v", headers, 5).is_cut


@pytest.mark.parametrize(
    ("selection", "takes"),
    [
        (Selection(), True),
        (Selection(reasons=frozenset({"HANDLER_FAILED", "X"})), True),
        (Selection(reasons=frozenset({"X"})), False),
        (Selection(codes=frozenset({"87"})), True),
        (Selection(codes=frozenset({"INVALID_RECORD"})), True),
        (Selection(codes=frozenset({"10"})), False),
        (Selection(keys=frozenset({b"k"})), True),
        (Selection(keys=frozenset({b"x"})), False),
        (Selection(since_ms=FACTS.timestamp_ms), True),
        (Selection(since_ms=FACTS.timestamp_ms + 1), False),
        (Selection(until_ms=FACTS.timestamp_ms), False),
        (Selection(until_ms=FACTS.timestamp_ms + 1), True),
        (Selection(reasons=frozenset({"HANDLER_FAILED"}), until_ms=5), False),
    ],
    ids=itertools.count(),
)
def test_all_words_of_a_selection_must_apply(selection, takes):
    """Of one word with several values one must apply; times have an open end."""
    facts = LetterFacts(
        "HANDLER_FAILED",
        topic="t",
        code=87,
        error="INVALID_RECORD",
        timestamp_ms=FACTS.timestamp_ms,
    )
    letter = read_letter(b"k", b"v", write_headers(facts, "own"), 1)
    assert selection.takes(letter) is takes


@pytest.mark.parametrize(("reasons", "takes"), [((), False), (("SUPERSEDED",), True)])
def test_superseded_letters_are_taken_only_by_name(reasons, takes):
    """Sent without that, they would put an older value of their key last."""
    headers = write_headers(LetterFacts("SUPERSEDED", topic="t"), "own")
    letter = read_letter(b"k", b"v", headers, 1)
    assert Selection(reasons=frozenset(reasons)).takes(letter) is takes


def entry(index, key, origin):
    """A letter at a place in partition 0 or 1."""
    return Entry(Place(index % 2, index), index, key, origin)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5)), max_size=30))
def test_letters_of_a_partition_are_taken_by_offset_whatever_their_times(letters):
    """Else the position would pass over a letter that was not sent: it would be lost."""
    entries = [
        Entry(Place(partition, offset), time, None, None)
        for offset, (partition, time) in enumerate(letters)
    ]
    ordered = interleave(entries)
    assert sorted(ordered, key=lambda e: e.place.offset) == entries
    for number in range(3):
        offsets = [e.place.offset for e in ordered if e.place.partition == number]
        assert offsets == sorted(offsets)
    times = [e.time_ms for e in entries]
    if times == sorted(times):
        assert [e.time_ms for e in ordered] == times


KEYS = st.sampled_from([None, b"a", b"b", b"c"])
ORIGINS = st.one_of(st.none(), st.tuples(st.integers(0, 1), st.integers(0, 9)))


@given(st.lists(st.tuples(KEYS, ORIGINS), max_size=40), st.integers(1, 5))
def test_transactions_keep_the_order_of_keys_and_skip_nothing(letters, size):
    """Each letter is in one transaction, and each transaction is a prefix of the rest.

    Letters of a key are in the order of their records, if all origins are known.
    """
    entries = [entry(i, key, origin) for i, (key, origin) in enumerate(letters)]
    chunks = list(split_into_transactions(entries, None, size))
    done = 0
    for chunk in chunks:
        done += len(chunk)
        assert {e.place for e in chunk} == {
            e.place for e in entries[done - len(chunk) : done]
        }
    assert done == len(entries)
    by_key = defaultdict(list)
    for each in (each for chunk in chunks for each in chunk):
        if each.key is not None:
            by_key[each.key].append(each)
    for sent in by_key.values():
        if all(each.origin is not None for each in sent):
            for first, second in itertools.pairwise(sent):
                assert first.origin <= second.origin
        else:
            assert sent == sorted(sent, key=lambda e: e.time_ms)


@given(st.integers(1, 30), st.integers(1, 5), st.integers(1, 10))
def test_transactions_are_as_small_as_asked_where_the_order_allows(count, size, first):
    """Only the first one has its own size."""
    entries = [entry(i, b"k", (0, i)) for i in range(count)]
    sizes = [len(chunk) for chunk in split_into_transactions(entries, first, size)]
    assert sizes[0] == min(first, count)
    assert all(each == size for each in sizes[1:-1])


def test_letters_of_a_key_in_reverse_are_one_transaction():
    """No position could skip the first ones."""
    entries = [entry(i, b"k", (0, 9 - i)) for i in range(10)]
    (chunk,) = split_into_transactions(entries, None, 2)
    assert [e.origin[1] for e in chunk] == list(range(10))
