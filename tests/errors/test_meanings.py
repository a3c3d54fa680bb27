"""Every code is explained in one short sentence of its own."""

from __future__ import annotations

from collections import Counter

import pytest

from kafkaguard._errors.generated import BY_CODE
from kafkaguard._errors.librdkafka import LOCAL_CODES
from kafkaguard._errors.meanings import MEANINGS

LONGEST = 120


def test_the_codes_are_those_of_kafka_and_librdkafka():
    """No code lacks a meaning, and no meaning belongs to an unknown code."""
    assert sorted(BY_CODE.keys() | LOCAL_CODES.keys()) == sorted(MEANINGS)


@pytest.mark.parametrize("code", sorted(MEANINGS))
def test_a_meaning_is_one_short_sentence(code):
    """It begins with a capital, ends with its only full stop, and fits in a line."""
    meaning = MEANINGS[code]
    assert meaning == meaning.strip()
    assert meaning[:1].isupper()
    assert meaning.endswith(".")
    assert ". " not in meaning
    assert len(meaning) <= LONGEST


def test_no_two_codes_share_a_meaning():
    """A sentence that fits two codes would explain neither."""
    assert [text for text, n in Counter(MEANINGS.values()).items() if n > 1] == []
