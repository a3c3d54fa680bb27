"""Which known name a misspelt one is taken for."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaguard._common.closest import closest, did_you_mean

KNOWN = ("DescribeLogDirs", "Envelope", "ListOffsets", "max_attempts", "Produce")


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("Prodcue", "Produce"),
        ("PRODUCE", "Produce"),
        ("describe_log_dir", "DescribeLogDirs"),
        ("max-attemps", "max_attempts"),
        ("max", "max_attempts"),
        ("list", "ListOffsets"),
        ("Nope", None),
        ("p", None),
        ("", None),
    ],
)
def test_the_closest_name(word, meant):
    """Case and separators make no difference; nothing is guessed from nothing."""
    assert meant == closest(word, KNOWN)


def test_the_question_ends_a_sentence():
    """Without a close name the sentence is unchanged."""
    assert did_you_mean("produec", KNOWN) == "; did you mean 'Produce'?"
    assert did_you_mean("999", KNOWN) == ""


def test_without_known_names_there_is_none():
    """The closest of no names is None."""
    assert closest("a", []) is None


@given(st.sampled_from(KNOWN))
def test_a_known_name_is_its_own_closest(name):
    """The other known names do not matter."""
    assert name == closest(name, KNOWN)


def test_a_word_far_longer_than_any_name_is_not_compared():
    """A setting of 56,000 letters took 20 s to be refused, found by fuzzing."""
    start = time.process_time()
    assert closest("sasl.ssl.x.y.z" * 4000, KNOWN * 50) is None
    assert time.process_time() - start < 2
