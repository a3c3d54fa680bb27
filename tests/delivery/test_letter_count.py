"""The limit of dead letters: a fault of the whole stream must not drain it."""

from __future__ import annotations

from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from kafkaguard._delivery.letter_count import RATIO_OF, LetterCount, exceeds
from tests.delivery.world.words import Limit


def allowed(count, limit, most):
    """Ask for dead letters until one is not allowed; return how many were."""
    return next((n for n in range(most) if count.count_letter(limit) is not None), most)


def test_without_a_limit_nothing_is_counted_against_anything():
    """Without a limit each dead letter is allowed."""
    assert allowed(LetterCount(), None, 5000) == 5000


class TestConsecutive:
    """So many in a row, and no more."""

    def test_a_record_that_is_delivered_begins_the_row_anew(self):
        """A delivery resets the count of consecutive dead letters."""
        count, limit = LetterCount(), Limit(consecutive=2)
        assert allowed(count, limit, 9) == 2
        assert "2 records in a row" in count.count_letter(limit)
        count.count_delivered(0)
        assert "dead_letter.limit.consecutive" in count.count_letter(limit)
        count.count_delivered(1)
        assert count.count_letter(limit) is None

    def test_records_with_others_between_them_in_their_batch_are_in_no_row(self):
        """What became of the others is not told yet."""
        limit = Limit(consecutive=2)

        def limited(*indexes):
            count, batch = LetterCount(), object()
            records = [SimpleNamespace(batch=batch, index=i) for i in indexes]
            return [count.count_letter(limit, record) is not None for record in records]

        assert limited(0, 2, 4, 6) == [False] * 4
        assert limited(0, 2, 3, 4) == [False, False, False, True]

    def test_a_row_goes_on_in_the_next_batch(self):
        """The count of consecutive dead letters goes on across batches."""
        count, limit = LetterCount(), Limit(consecutive=2)
        records = [SimpleNamespace(batch=object(), index=5) for _ in range(3)]
        said = [count.count_letter(limit, record) is not None for record in records]
        assert said == [False, False, True]


class TestRatio:
    """The share of all records."""

    def test_all_records_are_bad(self):
        """It stops at the share of the first thousand; the text has true numbers."""
        count, limit = LetterCount(), Limit(ratio=0.1)
        assert allowed(count, limit, 200_000) == 100
        said = "with it, 101 of 101 records would be dead letters"
        assert f"{said}, and dead_letter.limit.ratio is 0.1" == count.count_letter(
            limit
        )

    def test_half_of_them_are_bad(self):
        """The ratio counts dead letters in any order."""
        count, limit = LetterCount(), Limit(ratio=0.1)
        letters = 0
        while count.count_letter(limit) is None:
            letters += 1
            count.count_delivered(1)
        assert letters == 100

    def test_less_than_the_ratio_is_never_stopped(self):
        """2 of 21 are 9.5 %, and the limit is 10 %."""
        count, limit = LetterCount(), Limit(ratio=0.1)
        for number in range(100_000):
            if number % 21 < 2:
                assert count.count_letter(limit) is None
            else:
                count.count_delivered(1)

    def test_one_dead_letter_is_always_allowed(self):
        """The first dead letter is allowed, however small the ratio is."""
        assert allowed(LetterCount(), Limit(ratio=0.000_001), 9) == 1

    def test_what_was_counted_too_early_is_taken_back_once(self):
        """The text of the limit has the numbers after a correction."""
        count, limit = LetterCount(), Limit(ratio=0.000_001)
        count.count_delivered(3)
        count.undo_delivered()
        assert count.count_letter(limit) is None
        assert "with it, 2 of 4 records" in count.count_letter(limit)

    def test_others_count_however_they_ended(self):
        """Failed and dropped records make the share smaller, lost letters too."""
        count, limit = LetterCount(), Limit(ratio=0.5)
        assert allowed(count, limit, 999) == 500
        count.undo_letter()
        assert allowed(count, limit, 999) == 1
        for _ in range(501):
            count.count_other()
        assert allowed(count, limit, 999) == 1
        count.count_delivered(1)
        count.undo_delivered()
        assert count.count_letter(limit) is not None


@given(
    st.sampled_from([0.001, 0.1, 0.5, 1.0]),
    st.lists(st.tuples(st.booleans(), st.integers(1, 900)), max_size=20),
)
def test_the_share_is_exceeded_by_no_allowed_letter_and_by_each_other_one(ratio, runs):
    """Over any order of good and bad records, with a count of our own beside it."""
    count, limit, good, bad = LetterCount(), Limit(ratio=ratio), 0, 0
    for is_bad, number in runs:
        if not is_bad:
            count.count_delivered(number)
            good += number
            continue
        for _ in range(number):
            if count.count_letter(limit) is None:
                bad += 1
                assert bad <= max(1, ratio * max(good + bad, RATIO_OF))
            else:
                assert bad + 1 > ratio * (good + bad + 1)
                assert exceeds(ratio, bad + 1, good + bad + 1)
