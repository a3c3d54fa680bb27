"""How a long run judges what it sees."""

from __future__ import annotations

import pytest

from tests.soak.counting import Count, count, last_of_each


@pytest.mark.parametrize(
    ("found", "told", "expected", "is_true"),
    [
        ("abc", [0, 0], Count(0, 0, 0, 0), True),
        ("abcd", [0], Count(0, 0, 0, 0), True),
        ("abcc", [0, 1], Count(0, 1, 1, 0), True),
        ("abccc", [1], Count(0, 2, 1, 0), False),
        ("abccc", [1, None], Count(0, 2, 1, 1), True),
        ("ab", [0], Count(1, 0, 0, 0), False),
    ],
)
def test_topic_is_counted_against_its_reports(found, told, expected, is_true):
    """Nothing lost, and no more twice than was told."""
    counted = count("abc", found, told)
    assert counted == expected
    assert counted.is_true == is_true


def test_last_report_of_a_batch_counts():
    """The one before it was of a try that Spark did not note."""
    lines = [{"batch_id": 0, "n": 1}, {"batch_id": 1, "n": 2}, {"batch_id": 1, "n": 3}]
    assert [line["n"] for line in last_of_each(lines)] == [1, 3]
