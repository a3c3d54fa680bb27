"""The meaning of a failure, by what the client reports and what is known."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError
from kafka.errors import IllegalStateError, KafkaTimeoutError, for_code

from kafkaguard import Action, TopicFacts, errors
from kafkaguard._delivery.facts import Place, Raw, Refusal, Traits
from kafkaguard._delivery.judging import (
    Judge,
    RefusalFacts,
    ends_all,
    is_too_large,
    may_be_set_aside,
    may_be_written,
)
from kafkaguard._delivery.records import Record
from tests.delivery.told import traits
from tests.delivery.world.words import PlainErrors

COMPACTED, OPEN = (TopicFacts(compacted=compacted) for compacted in (True, False))


def refusal(cause, blame="record", sent="answered", **more):
    """Make a refusal from a code or an exception."""
    cause = for_code(cause)() if isinstance(cause, int) else cause
    return Refusal(None, 0, cause, blame, sent, **more)


def judge(*, transactional=False):
    """Make the judge of a client."""
    return Judge(traits(transactional=transactional), PlainErrors())


def judged(cause, blame="record", sent="answered", known=None, **more):
    """Judge a refusal of one of three records, unless more is known."""
    facts = RefusalFacts(Place("t", 0), **{"count": 3, **(known or {})})
    return judge().judge(refusal(cause, blame, sent, **more), facts)


@pytest.mark.parametrize(
    ("code", "blame", "more", "known", "is_mate"),
    [
        # Another record of the batch has no key, a bad timestamp, or is corrupt.
        (87, "batch", {"null_key": False}, {}, True),
        (2, "batch", {"null_key": False}, {}, True),
        (32, "batch", {"null_key": False}, {}, True),
        (87, "batch", {"null_key": True}, {}, False),
        (87, "batch", {"null_key": False}, {"count": 1}, False),
        (87, "record", {"null_key": False}, {}, False),
        (87, "mate", {"null_key": True}, {}, True),
        # A client that names nobody: what is known of the topic decides.
        (87, "unknown", {"null_key": True}, {"topic_facts": COMPACTED}, False),
        (87, "unknown", {"null_key": False}, {"topic_facts": COMPACTED}, True),
        (87, "unknown", {"null_key": True}, {"topic_facts": OPEN}, True),
        (87, "unknown", {"null_key": True}, {}, True),
        (87, "unknown", {"null_key": False}, {"alone": True}, False),
        # The batch is too large, and so may a record of it be.
        (10, "batch", {}, {}, True),
        (18, "batch", {}, {}, True),
        (10, "batch", {}, {"fits": True}, True),
        (10, "batch", {}, {"fits": False}, False),
        (10, "batch", {}, {"count": 1}, False),
        (10, "unknown", {}, {"count": 1}, True),
        (10, "unknown", {}, {"alone": True}, False),
        # All else is about each record.
        (29, "batch", {}, {}, False),
        (19, "unknown", {}, {}, False),
    ],
)
def test_who_is_only_a_mate_of_the_record_to_blame(code, blame, more, known, is_mate):
    """It was not refused itself, so it may be sent again."""
    found = judged(code, blame, known=known, **more)
    is_one = isinstance(found.error, errors.BatchMateRefusedError)
    assert is_mate == is_one
    assert is_mate == (found.may_be_rescued and is_one)
    assert is_one or found.error.code == code


def test_a_mate_is_told_what_was_refused():
    """Its batch, or another record in it."""
    large, other = (judged(code, "mate").error for code in (10, 87))
    assert "its batch was larger than the topic allows; this one was" in str(large)
    assert "another record of the same batch was refused; this one" in str(other)
    for error in (large, other):
        assert error.original_type.startswith("kafka.errors.")
        assert (error.api, error.topic, error.partition) == ("Produce", "t", 0)
        assert error.verdict.written == "no"


def test_an_error_object_that_is_no_exception_is_no_original():
    """As librdkafka reports it; its code decides all the same."""
    error = judged(KafkaError(10), "mate").error
    assert isinstance(error, errors.BatchMateRefusedError)
    assert error.original_type is None
    assert "larger than the topic allows" in str(error)


def test_an_answer_that_names_a_record_with_a_key_is_about_it():
    """It cannot be the mate of another one."""
    error = judged(87, null_key=False).error
    assert (type(error), error.verdict.action) == (
        errors.InvalidRecordError,
        Action.REJECT,
    )
    assert isinstance(judged(87, null_key=True).error, errors.InvalidRecordKeyError)


@pytest.mark.parametrize("code", [45, 59])
@pytest.mark.parametrize("first_try", [True, False, None])
def test_a_hole_in_the_sequence_is_the_clients_fault(code, first_try):
    """If the batch was sent once only; later attempts may follow one that was lost."""
    found = judged(code, "batch", first_try=first_try)
    is_gap = first_try is True
    assert (is_gap, is_gap, False) == (
        found.client_failed,
        found.may_be_rescued,
        found.may_be_tried,
    )


@pytest.mark.parametrize(
    ("code", "first_try", "later"),
    [
        (19, True, True),
        (19, False, True),
        (19, None, False),
        (10, True, False),
        (45, False, False),
    ],
)
def test_the_policy_tries_again_what_was_certainly_not_written(code, first_try, later):
    """After an answer that may pass, if the client reports how it tried before."""
    assert later == judged(code, first_try=first_try).may_be_tried


@pytest.mark.parametrize(
    ("earlier", "words"),
    [
        (None, "an earlier attempt may have got no answer"),
        ("lost", "an earlier attempt got no answer"),
        (20, "answered with NOT_ENOUGH_REPLICAS_AFTER_APPEND (20), so"),
    ],
)
def test_an_earlier_attempt_without_an_answer_leaves_it_in_doubt(earlier, words):
    """Whatever the last answer is; the text says what is known of the earlier one."""
    found = judged(87, was_unanswered=True, earlier=earlier, null_key=True)
    assert found.error.verdict.action is Action.IN_DOUBT
    assert isinstance(found.error, found.error.verdict.error_class)
    assert found.error.code == found.error.verdict.error_class.code
    assert words in str(found.error)
    assert (found.may_be_rescued, found.may_be_tried) == (False, False)


def test_a_storage_error_may_come_after_the_append():
    """A log directory fails while a batch waits for followers, which may have it."""
    assert [code for code in (3, 5, 19, 56, 87) if may_be_written(code)] == [56]


def test_a_mate_of_a_refused_record_is_in_doubt_after_an_attempt_that_was_lost():
    """Its error is that of a mate, since the broker did not refuse it."""
    found = judged(87, blame="mate", was_unanswered=True, earlier="lost")
    assert isinstance(found.error, errors.BatchMateRefusedError)
    assert found.error.verdict.action is Action.IN_DOUBT
    assert (found.may_be_rescued, found.may_be_tried) == (False, False)
    assert "but an earlier attempt got no answer" in str(found.error)


@pytest.mark.parametrize(
    ("sent", "first_try", "written", "words", "later"),
    [
        ("never", None, "no", "it never left the client", True),
        ("maybe", None, "maybe", "model does not say whether it was sent", False),
        ("maybe", True, "maybe", "it was sent and got no answer", False),
    ],
)
def test_a_record_whose_time_was_over(sent, first_try, written, words, later):
    """Whether it was sent decides; the setting and its value are named."""
    late = {"expired": True, "first_try": first_try}
    found = judged(KafkaTimeoutError(), "client", sent, **late)
    assert (found.error.verdict.written, found.may_be_tried) == (written, later)
    said = f"no outcome within 30 s (delivery.timeout); {words}"
    assert said in str(found.error)


def test_a_record_that_was_never_sent_has_the_clients_own_error():
    """Or that of the shell, which has found out more."""
    own = errors.ClientTimeoutError("no such topic", topic="t")
    assert judged(own, "record", "never").error is own
    found = judged(19, "record", "never")
    assert (found.error.code, found.error.topic, found.may_be_tried) == (19, "t", True)
    assert not judged(10, "record", "never").may_be_tried


@pytest.mark.parametrize("sent", ["never", "maybe"])
def test_a_record_that_its_client_gave_up_has_its_place(sent):
    """The error of a given-up record has its place and the client's exception."""
    cause = IllegalStateError("gone")
    error = judged(cause, "client", sent).error
    assert (error.api, error.topic, error.partition) == ("Produce", "t", 0)
    assert error.original_text == "IllegalStateError: gone"


def test_a_client_can_do_nothing_that_its_shell_does_not_say():
    """A successor can be built, unless the shell denies it."""
    traits = Traits("model", 30.0, "delivery.timeout")
    said = (traits.largest_request, traits.unwritable_times, traits.margin)
    assert said == (None, frozenset(), 0.0)
    assert traits.replaceable
    can = traits.compresses, traits.transactional, traits.hears_late, traits.takes_back
    assert not any(can)


@pytest.mark.parametrize(
    ("cause", "is_end"), [(90, True), (31, True), (58, True), (29, False), (45, False)]
)
def test_no_new_client_helps_against_being_fenced_or_not_authorized(cause, is_end):
    """A topic that may not be written to is no fault of the client."""
    assert is_end == ends_all(for_code(cause)())


def test_a_record_that_is_not_accepted_again_may_be_tried_later():
    """It never left the client; an error of the shell's stays what it is."""
    record = Record(object(), None, 0, Place("t", 4), 1.0, Raw(b"k", b"v"))
    error = judge().make_not_taken(KafkaTimeoutError(), record)
    assert (error.verdict.written, error.verdict.retriable) == ("no", True)
    assert (error.api, error.topic, error.partition) == ("Produce", "t", 4)
    own = errors.ClientTimeoutError("full")
    assert judge().make_not_taken(own, record) is own


def test_a_record_that_came_too_late_keeps_what_it_failed_with():
    """As the cause; one that may have been written keeps its error."""
    first = judged(19).error
    late = judge().make_late(first)
    assert late.__cause__ is first
    assert (late.verdict.written, late.topic, late.partition) == ("no", "t", 0)
    assert "no outcome within 30 s (delivery.timeout), because it had to be" in str(
        late
    )
    doubt = judged(7).error
    assert judge().make_late(doubt) is doubt
    overtaken = judge().make_superseded(first)
    assert overtaken.__cause__ is first
    assert (overtaken.api, overtaken.topic, overtaken.partition) == ("Produce", "t", 0)


def test_a_transaction_aborts_with_its_records():
    """Those that were refused, their mates, and those that were given up."""
    facts = RefusalFacts(Place("t", 0), 3)
    found = [
        judge(transactional=True).judge(refusal(*each), facts)
        for each in ((10, "record"), (87, "mate"), (IllegalStateError(), "client"))
    ]
    assert [each.error.verdict.action for each in found] == [Action.ABORT] * 3
    assert not any(
        each.may_be_rescued or each.may_be_tried or each.client_failed for each in found
    )
    assert "its transaction has failed" in str(found[-1].error)


def test_only_what_is_about_a_record_is_dead_lettered():
    """Not the state of a client, nor what may pass."""
    assert may_be_set_aside(errors.MessageTooLargeError())
    assert not may_be_set_aside(errors.NotEnoughReplicasError())
    assert not may_be_set_aside(errors.ClientStateError())


@pytest.mark.parametrize(("code", "is_size"), [(10, True), (18, True), (87, False)])
def test_which_codes_are_about_a_size(code, is_size):
    """Of a record, or of its batch."""
    assert is_size == is_too_large(refusal(code))
