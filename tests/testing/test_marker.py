"""The marker that says how a test's topic is made."""

from __future__ import annotations

import pytest

from kafkaguard.testing.pytest_plugin import _options


def test_words_of_the_marker():
    """They are the options of the topic."""
    mark = pytest.mark.kafka_topic(partitions=3, config={}).mark
    assert _options(mark) == {"partitions": 3, "config": {}}


@pytest.mark.parametrize("mark", [{"partition": 3}, {"name": "t"}])
def test_misspelt_word_is_named_with_the_marker(mark):
    """The error says where the word stands."""
    made = pytest.mark.kafka_topic(**mark).mark
    with pytest.raises(pytest.UsageError, match="kafka_topic takes") as hint:
        _options(made)
    assert next(iter(mark)) in str(hint.value)


def test_positions_are_refused():
    """The marker kafka_topic takes arguments by name only."""
    with pytest.raises(pytest.UsageError, match="by name, not 3"):
        _options(pytest.mark.kafka_topic(3).mark)
