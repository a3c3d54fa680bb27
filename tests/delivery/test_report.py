"""Counters of outcomes, and the report of them."""

from __future__ import annotations

import copy
import pickle

import pytest

from kafkaguard import Action, DeliveryReport, classify
from kafkaguard._delivery.counters import Counters
from kafkaguard._delivery.records import RecordOutcome
from kafkaguard._delivery.report import MAX_ERRORS, worst
from kafkaguard.errors import (
    CallbackError,
    DeliveryFailed,
    ForkedProducerError,
    InvalidRecordKeyError,
    MessageTooLargeError,
    SupersededError,
    for_code,
)


def failed(error):
    """Make the outcome of a record that failed."""
    return RecordOutcome(
        "failed" if error.verdict.written == "no" else "in_doubt", error
    )


def too_large():
    """Make an error of a record that was not written."""
    return MessageTooLargeError(api="Produce", topic="t")


def in_doubt():
    """Make an error of a record that may have been written."""
    return for_code(7)(api="Produce", topic="t")


class TestBooks:
    """Counts between two reports."""

    def test_each_outcome_is_counted_once(self):
        """A report counts the outcomes since the last report."""
        counters = Counters()
        counters.count_delivered(3, "t")
        counters.count_outcome(RecordOutcome("delivered"), "t")
        counters.count_outcome(failed(too_large()), "t")
        counters.count_outcome(failed(in_doubt()), "t")
        counters.count_superseded()
        report = counters.report(pending=5)
        counts = (report.delivered, report.failed, report.in_doubt, report.pending)
        assert counts == (4, 1, 1, 5)
        assert report.superseded == 1
        assert DeliveryReport() == counters.report(0)

    def test_totals_are_by_topic_and_no_report_resets_them(self):
        """Those of a transaction count when it ends, with its ending."""
        counters = Counters(transactional=True)
        counters.count_delivered(3, "a")
        counters.count_delivered(1, "b")
        counters.count_outcome(failed(too_large()), "b")
        assert dict(counters.totals) == {("b", "failed"): 1}
        counters.end_transaction("aborted")
        counters.report(0)
        counters.count_delivered(2, "a")
        counters.end_transaction("delivered")
        assert dict(counters.totals) == {
            ("a", "aborted"): 3,
            ("b", "aborted"): 1,
            ("a", "delivered"): 2,
            ("b", "failed"): 1,
        }

    def test_failures_that_the_application_knows_stay_counted(self):
        """As those of a transaction that it has aborted."""
        counters = Counters()
        counters.count_outcome(failed(too_large()), "t")
        counters.mark_seen()
        assert not counters.has_unseen
        report = counters.report(0)
        assert (report.failed, report.errors) == (1, ())

    def test_only_unseen_errors_are_reported(self):
        """What was looked at is counted, and not told again."""
        counters = Counters()
        seen, unseen = failed(too_large()), failed(too_large())
        seen.seen = True
        counters.count_outcome(seen, "t")
        counters.count_outcome(unseen, "t")
        report = counters.report(0)
        assert report.failed == 2
        assert report.errors == (unseen.error,)
        assert unseen.seen

    def test_the_errors_have_a_bound_and_the_counts_have_none(self):
        """A producer that is never flushed does not grow without end."""
        counters = Counters()
        for _ in range(MAX_ERRORS + 5):
            counters.count_outcome(failed(too_large()), "t")
        report = counters.report(0)
        assert (report.failed, len(report.errors)) == (MAX_ERRORS + 5, MAX_ERRORS)

    def test_what_is_set_aside_is_counted_once(self):
        """A dead-lettered record counts neither as failed nor as unseen."""
        counters = Counters()
        for ending in ("dead_lettered", "dropped", "dropped"):
            counters.count_outcome(RecordOutcome(ending, too_large(), seen=True), "t")
        assert DeliveryReport(dead_lettered=1, dropped=2) == counters.report(0)
        assert DeliveryReport() == counters.report(0)


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
        """The text of a report names dead letters and drops only if there are any."""
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
