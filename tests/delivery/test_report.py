"""The books about outcomes, and the report of them."""

from __future__ import annotations

import copy
import pickle

import pytest

from kafkaguard import (
    Action,
    CallbackError,
    DeliveryFailed,
    DeliveryReport,
    ForkedProducerError,
    SupersededError,
    classify,
)
from kafkaguard._delivery.report import MAX_ERRORS, Ledger, Outcome, worst
from kafkaguard.errors import InvalidRecordKeyError, MessageTooLargeError, for_code


def failed(error):
    """Make the outcome of a record that failed."""
    outcome = Outcome()
    outcome.error = error
    return outcome


def too_large():
    """Make an error of a record that was not written."""
    return MessageTooLargeError(api="Produce", topic="t")


def in_doubt():
    """Make an error of a record that may have been written."""
    return for_code(7)(api="Produce", topic="t")


class TestLedger:
    """Counts between two reports."""

    def test_each_outcome_is_counted_once(self):
        """The next report begins anew."""
        ledger = Ledger()
        ledger.delivered(3)
        ledger.delivered(2)
        ledger.failed(failed(too_large()))
        ledger.failed(failed(in_doubt()))
        report = ledger.report(pending=4)
        counts = (report.delivered, report.failed, report.in_doubt, report.pending)
        assert counts == (5, 1, 1, 4)
        assert ledger.report(0) == DeliveryReport()

    def test_only_unseen_errors_are_reported(self):
        """What was looked at is counted, and not told again."""
        ledger = Ledger()
        seen, unseen = failed(too_large()), failed(too_large())
        seen.seen = True
        ledger.failed(seen)
        ledger.failed(unseen)
        report = ledger.report(0)
        assert report.failed == 2
        assert report.errors == (unseen.error,)
        assert unseen.seen

    def test_the_errors_have_a_bound_and_the_counts_have_none(self):
        """A producer that is never flushed does not grow without end."""
        ledger = Ledger()
        for _ in range(MAX_ERRORS + 5):
            ledger.failed(failed(too_large()))
        report = ledger.report(0)
        assert (report.failed, len(report.errors)) == (MAX_ERRORS + 5, MAX_ERRORS)

    def test_what_is_set_aside_is_counted_once(self):
        """And neither fails nor is looked at by anybody."""
        ledger = Ledger()
        ledger.set_aside("dead_lettered")
        ledger.set_aside("dropped")
        ledger.set_aside("dropped")
        assert DeliveryReport(dead_lettered=1, dropped=2) == ledger.report(0)
        assert DeliveryReport() == ledger.report(0)

    def test_the_first_exception_of_a_callback_is_kept(self):
        """And handed over once."""
        ledger = Ledger()
        first = ValueError("first")
        ledger.callback_raised(first)
        ledger.callback_raised(ValueError("second"))
        assert ledger.take_callback_error() is first
        assert ledger.take_callback_error() is None


class TestDeliveryFailed:
    """What a flush raises."""

    def test_it_names_the_codes_and_the_counts(self):
        """Two records of one kind are one part of the sentence."""
        report = DeliveryReport(1, 2, 0, 3, (too_large(), too_large()))
        text = DeliveryFailed.describe(report)
        assert "2 x MESSAGE_TOO_LARGE (10) on topic t" in text
        assert "3 still pending" in text
        assert "delivered 1, failed 2, in doubt 0, pending 3)" in text

    def test_it_counts_what_was_set_aside(self):
        """Where there is any."""
        text = DeliveryFailed.describe(DeliveryReport(dead_lettered=4, dropped=2))
        assert "pending 0, dead-lettered 4, dropped 2)" in text

    def test_it_survives_pickle_and_copies_with_its_report(self):
        """Raised in a pool's worker, it arrives whole."""
        error = DeliveryFailed("text")
        error.report = DeliveryReport(1, 1, 0, 0, (too_large(),))
        for again in (
            pickle.loads(pickle.dumps(error)),
            copy.copy(error),
            copy.deepcopy(error),
        ):
            assert (again.report.delivered, again.report.failed) == (1, 1)
            assert again.report.errors[0].code == 10

    def test_the_gravest_verdict_decides(self):
        """In doubt is graver than rejected; of nothing there is none."""
        grave = in_doubt()
        assert worst([too_large(), grave]) is grave
        assert worst([]) is None


@pytest.mark.parametrize(
    "error", [SupersededError, ForkedProducerError, CallbackError, DeliveryFailed]
)
def test_errors_of_the_guard_are_never_to_be_repeated_blindly(error):
    """Each of them has a verdict that is no retry."""
    assert not classify(error("text")).retriable


def test_a_superseded_record_was_not_written():
    """Its verdict says so, and so does that of a refused null key."""
    for error in (SupersededError("text"), InvalidRecordKeyError("text")):
        assert (error.verdict.action, error.verdict.written) == (Action.REJECT, "no")
