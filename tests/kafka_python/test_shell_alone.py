"""kafka-python's batches and what is told of them, without a broker.

The batches are the client's own; a test completes them as the client's sender does.
"""

from __future__ import annotations

import logging
from collections import deque
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from kafka import TopicPartition
from kafka.errors import (
    DuplicateSequenceNumberError,
    IllegalStateError,
    InvalidRecordError,
    KafkaConnectionError,
    KafkaError,
    KafkaStorageError,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    NodeNotReadyError,
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    NotLeaderForPartitionError,
    RequestTimedOutError,
    UnknownTopicOrPartitionError,
)
from kafka.partitioner.default import DefaultPartitioner
from kafka.producer.producer_batch import ProducerBatch
from kafka.producer.record_accumulator import IncompleteProducerBatches
from kafka.producer.sender import Sender
from kafka.producer.transaction_manager import ProducerIdAndEpoch, TransactionState
from kafka.record import MemoryRecordsBuilder

from kafkaguard._delivery.facts import Answer, Place, Raw
from kafkaguard_adapters.kafka_python import shell as shell_module
from kafkaguard_adapters.kafka_python._private import reading
from kafkaguard_adapters.kafka_python.batches import LoneRecord, SourceBatch
from kafkaguard_adapters.kafka_python.shell import MARGIN_S, KafkaPythonShell, traits_of
from kafkaguard_adapters.producing.epochs import Epochs

PLACE = TopicPartition("t", 0)


def source(*keys, sequence=None, sent=False, retried=False, closed=True, place=PLACE):
    """A batch of the client's, with a record for each key."""
    batch = ProducerBatch(place, MemoryRecordsBuilder(2, 0, 10_000))
    for key in keys:
        batch.try_append(None, key, b"v", [])
    if sequence is not None:
        batch.records.set_producer_state(7, 1, sequence, False)
    if closed:
        batch.records.close()
    if sent:
        batch.drained = batch.created
    if retried:
        batch.retry()
    return batch


#: A producer whose sender has made requests of all that it took.
MADE = SimpleNamespace(
    _sender=SimpleNamespace(requests_made_at=float("inf"), is_sending=False),
    _transaction_manager=object(),
)


def followed(batch, producer=MADE, **more):
    """That batch as the machine sees it."""
    one = SourceBatch(producer, batch, (0, 0), 10.0)
    for name, value in more.items():
        setattr(one, name, value)
    return one


def refuse(batch, error, *named):
    """Complete a batch as the sender does with a broker's answer."""
    told = [(index, "bad") for index in named]
    tell = Sender._record_exceptions_fn(None, error, told, None)
    batch.complete_exceptionally(error, tell)
    return tell


class TestRefusals:
    """Who is to blame, and whether it was sent, as far as the client tells."""

    def test_an_answer_names_the_record_and_spares_its_mates(self):
        """Produce v8 has the errors of records."""
        batch = source(b"a", None, b"c", sent=True)
        one = followed(batch)
        refuse(batch, InvalidRecordError(), 1)
        refusals = one.refusals()
        assert [r.blame for r in refusals] == ["mate", "record", "mate"]
        assert [r.index for r in refusals] == [0, 1, 2]
        assert [r.null_key for r in refusals] == [False, True, False]
        assert [r.sent for r in refusals] == ["answered"] * 3
        assert [r.token for r in refusals] == list(one.tokens())
        assert {r.first_try for r in refusals} == {True}
        assert not any(r.expired or r.was_unanswered for r in refusals)
        assert isinstance(refusals[1].cause, InvalidRecordError)

    def test_an_answer_about_the_batch_blames_the_batch(self):
        """An answer that names no record blames none."""
        batch = source(b"a", b"b", sent=True, retried=True)
        one = followed(batch)
        refuse(batch, MessageSizeTooLargeError())
        refusals = one.refusals()
        assert [(r.blame, r.sent) for r in refusals] == [("batch", "answered")] * 2
        assert {r.first_try for r in refusals} == {False}

    @pytest.mark.parametrize(("sent", "word"), [(True, "maybe"), (False, "never")])
    def test_a_batch_that_the_client_gave_up_blames_the_client(self, sent, word):
        """It may have been written only if it ever left."""
        batch = source(b"a", sent=sent)
        one = followed(batch)
        batch.abort(IllegalStateError("closed"))
        (refusal,) = one.refusals()
        assert (refusal.blame, refusal.sent) == ("client", word)
        assert not refusal.expired
        assert one.was_in_flight() is sent

    @pytest.mark.parametrize(("sent", "word"), [(True, "maybe"), (False, "never")])
    def test_a_batch_whose_time_was_over_has_expired(self, sent, word):
        """It counts as expired, whether the client has sent it or not."""
        batch = source(b"a", sent=sent)
        one = followed(batch)
        refuse(batch, KafkaTimeoutError("expired"))
        (refusal,) = one.refusals()
        assert (refusal.blame, refusal.sent, refusal.expired) == ("client", word, True)

    def test_a_broken_connection_is_no_answer(self):
        """A batch on a connection that broke may have been written."""
        batch = source(b"a", sent=True)
        one = followed(batch)
        refuse(batch, KafkaConnectionError("gone"))
        (refusal,) = one.refusals()
        assert (refusal.blame, refusal.sent) == ("batch", "maybe")

    @pytest.mark.parametrize(("sent", "word"), [(True, "maybe"), (False, "never")])
    def test_a_refused_id_that_hides_in_a_text_is_found(self, sent, word):
        """A batch that was sent before may have been written all the same."""
        batch = source(b"a", sent=sent)
        one = followed(batch)
        batch.abort(KafkaError("InitProducerId failed: [Error 31] denied"))
        (refusal,) = one.refusals()
        assert (refusal.sent, refusal.cause.errno) == (word, 31)

    @pytest.mark.parametrize(
        ("cause", "answered", "earlier"),
        [
            (KafkaConnectionError("gone"), False, "lost"),
            (RequestTimedOutError("no answer"), False, "lost"),
            (RequestTimedOutError(), True, 7),
            (NotEnoughReplicasAfterAppendError(), True, 20),
            (NotLeaderForPartitionError(), True, 6),
            (KafkaStorageError(), True, 56),
            (NotEnoughReplicasError(), True, None),
            (UnknownTopicOrPartitionError(), True, None),
            (NodeNotReadyError("no connection"), False, None),
        ],
    )
    def test_an_earlier_attempt_is_kept_if_it_may_have_written(
        self, cause, answered, earlier
    ):
        """Also for the parts of the batch, if a later answer says that it is too large.

        A certain "not written" is not kept.
        """
        batch = source(b"a", b"b", sent=True, retried=True)
        one = followed(batch)
        one.is_tried_again(cause, answered=answered)
        one.is_tried_again(NotEnoughReplicasError(), answered=True)
        refuse(batch, InvalidRecordError(), 1)
        for refusal in one.refusals():
            assert (refusal.earlier, refusal.was_unanswered) == (
                earlier,
                earlier is not None,
            )
        part = source(b"a")
        piece = SourceBatch(MADE, part, (0, 0), 10.0, one)
        part.abort(IllegalStateError("closed"))
        (refusal,) = piece.refusals()
        assert refusal.sent == ("never" if earlier is None else "maybe")

    def test_the_first_attempt_that_may_have_written_is_the_one_that_is_named(self):
        """Later attempts do not replace the first attempt that may have written."""
        one = followed(source(b"a", sent=True))
        one.is_tried_again(NotEnoughReplicasAfterAppendError(), answered=True)
        one.is_tried_again(RequestTimedOutError("no answer"), answered=False)
        assert one.earlier == 20

    NO = (NotEnoughReplicasError(), True)
    LOST = (RequestTimedOutError("no answer"), False)
    AWAY = (NodeNotReadyError("no connection"), False)
    HELD = ()

    @pytest.mark.parametrize(
        ("attempts", "blame", "sent", "expired"),
        [
            ([NO], "batch", "answered", False),
            ([NO, NO, AWAY], "batch", "answered", False),
            ([AWAY], "client", "never", True),
            ([NO, LOST, NO], "client", "maybe", True),
            ([LOST, AWAY], "client", "maybe", True),
            ([NO, None], "client", "maybe", True),
            ([AWAY, None], "client", "maybe", True),
            ([NO, HELD], "batch", "answered", False),
            ([NO, AWAY, HELD], "batch", "answered", False),
            ([AWAY, HELD], "client", "never", True),
            ([LOST, HELD], "client", "maybe", True),
            ([HELD], "client", "maybe", True),
        ],
        ids=str,
    )
    def test_a_batch_that_expires_between_attempts_keeps_their_answer(
        self, attempts, blame, sent, expired
    ):
        """If each attempt was refused, the refusal counts; None: it is in flight.

        The client takes a batch to send it, then fails it because its time is over, and
        makes no request if the batch was sent before; a first try is still sent.
        """
        batch = source(b"a", b"b")
        held = batch.created + len(attempts) - 1.5
        holds = SimpleNamespace(
            _sender=SimpleNamespace(requests_made_at=held, is_sending=True),
            _transaction_manager=object(),
        )
        one = followed(batch, holds if attempts[-1] is self.HELD else MADE)
        for number, attempt in enumerate(attempts):
            batch.drained = batch.created + number
            if attempt:
                batch.retry()
                one.is_tried_again(attempt[0], answered=attempt[1])
        refuse(batch, KafkaTimeoutError("expired"))
        for refusal in one.refusals():
            found = (refusal.blame, refusal.sent, refusal.expired)
            assert found == (blame, sent, expired)
            assert (sent == "answered") == (refusal.cause is self.NO[0])

    @pytest.mark.parametrize(
        ("attempt", "sent"), [(NO, "never"), (AWAY, "never"), (LOST, "maybe")]
    )
    def test_a_batch_given_up_between_attempts_was_not_written_if_all_were_refused(
        self, attempt, sent
    ):
        """So a successor of the client may send it."""
        batch = source(b"a", sent=True)
        one = followed(batch)
        one.is_tried_again(attempt[0], answered=attempt[1])
        batch.abort(IllegalStateError("closed"))
        (refusal,) = one.refusals()
        assert (refusal.blame, refusal.sent) == ("client", sent)

    def test_records_from_before_the_guard_are_left_out(self):
        """The places of the others are counted from where it began."""
        batch = source(b"old", b"a", None, sent=True)
        one = followed(batch, before=1)
        refuse(batch, InvalidRecordError(), 2)
        assert (one.count, one.keys()) == (2, [b"a", None])
        refusals = one.refusals()
        assert [(r.index, r.blame) for r in refusals] == [(0, "mate"), (1, "record")]
        assert [raw.key for raw in one.raws()] == [b"a", None]

    def test_an_answer_after_the_end_says_the_same_later(self):
        """It is told by the place in the client's batch."""
        batch = source(b"old", b"a", None, sent=True)
        one = followed(batch, before=1)
        tell = Sender._record_exceptions_fn(
            None, InvalidRecordError(), [(2, "bad")], None
        )
        batch.abort(IllegalStateError("closed"))
        refusals = one.late_refusals(tell)
        assert [(r.index, r.blame) for r in refusals] == [(0, "mate"), (1, "record")]
        assert {r.sent for r in refusals} == {"answered"}

    def test_an_open_batch_shows_no_bytes(self):
        """A batch that may still grow has no bytes."""
        open_one = followed(source(b"a", closed=False))
        assert open_one.raws() is None
        assert open_one.keys() is None
        assert open_one.count == 1

    def test_a_record_in_no_batch_was_never_sent(self):
        """A record that the client did not take is reported as not sent."""
        inner = source(None)._record_futures[0]
        inner.failure(MessageSizeTooLargeError())
        one = LoneRecord(inner, Raw(None, b"v"))
        (refusal,) = one.refusals()
        assert (refusal.blame, refusal.sent, refusal.null_key) == (
            "record",
            "never",
            True,
        )
        assert (one.count, one.keys(), one.place) == (1, (None,), Place("t", 0))
        assert LoneRecord(inner, None).raws() is None


class Manager:
    """What an idempotent producer knows of its id."""

    def __init__(self, *, transactional=False):
        self._current_state = TransactionState.READY
        self._transactional = transactional
        self.last_error = None
        self.producer_id_and_epoch = ProducerIdAndEpoch(7, 1)
        self.resets = 0

    def is_transactional(self):
        """As it was made."""
        return self._transactional

    def has_fatal_error(self):
        """Whether it has an error."""
        return self.last_error is not None

    def has_producer_id(self):
        """Whether it has one."""
        return self.producer_id_and_epoch.is_valid

    def reset_producer_id(self):
        """Forget it."""
        self.resets += 1
        self.producer_id_and_epoch = ProducerIdAndEpoch(-1, -1)


class Producer:
    """As much of the client's producer as is looked at."""

    def __init__(self, *, idempotent=True, transactional=False, **config):
        self.config = {
            "delivery_timeout_ms": 120_000,
            "max_request_size": 1_048_576,
            "compression_type": None,
            "transactional_id": "x" if transactional else None,
            "api_version": (4, 0),
            "partitioner": DefaultPartitioner(),
            **config,
        }
        self._accumulator = SimpleNamespace(
            _incomplete=IncompleteProducerBatches(), muted=set()
        )
        self._transaction_manager = None
        if idempotent:
            self._transaction_manager = Manager(transactional=transactional)
        self._sender = SimpleNamespace(
            _can_split=lambda *_: True,
            _complete_batch=lambda *_: None,
            _create_produce_requests=lambda *_: {},
            _dispatch_error=lambda *_: None,
            _send_producer_data=lambda _: 0,
            _record_exceptions_fn=Sender._record_exceptions_fn,
        )

    def take(self, batch):
        """Have a batch, as the accumulator does for its first record."""
        self._accumulator._incomplete.add(batch)
        return batch


class Told:
    """A shell, and what it tells."""

    def __init__(self, producer=None, **settings):
        self.producer = producer or Producer(**settings)
        checks = SimpleNamespace(check_appends_of=lambda _producer: None)
        self.shell = KafkaPythonShell(self.producer, None, None, checks)
        self.began, self.accepted, self.failed = [], [], []
        self.died, self.faults = [], []
        self.shell.listen(
            SimpleNamespace(
                began=self.began.append,
                accepted=self.accepted.append,
                failed=lambda *what: self.failed.append(what),
                died=lambda *what: self.died.append(what),
                fault=lambda *what: self.faults.append(what),
            )
        )


class TestTelling:
    """Each batch is told twice: when it begins, and how it ends."""

    def test_a_batch_begins_with_its_place_and_time(self):
        """The client's own time, and a margin."""
        told = Told()
        batch = told.producer.take(source(b"a"))
        (one,) = told.began
        assert (one.place, one.count) == (Place("t", 0), 1)
        assert one.due == pytest.approx(batch.created + 120 + MARGIN_S)
        batch.complete(40, -1)
        assert told.accepted == [one]
        assert one.base_offset == 40
        assert told.failed == []

    def test_batches_are_numbered_in_their_order_and_by_producer(self):
        """One of a successor comes after all of the dead one."""
        told = Told()
        told.producer.take(source(b"a"))
        told.producer.take(source(b"b"))
        successor = Producer()
        told.shell.put_in_use(successor)
        successor.take(source(b"c"))
        positions = [one.position for one in told.began]
        assert positions == sorted(positions)
        assert [generation for generation, _ in positions] == [0, 0, 1]

    def test_what_a_producer_held_before_is_followed_without_its_records(self):
        """Records that come into it from then on are."""
        producer = Producer()
        batch = producer.take(source(b"old", closed=False))
        told = Told(producer)
        (one,) = told.began
        assert (one.before, one.count) == (1, 0)
        batch.try_append(None, b"new", b"v", [])
        assert one.count == 1
        batch.complete(40, -1)
        assert one.base_offset == 41

    def test_a_refused_batch_of_a_plain_producer_kills_nobody(self):
        """It has no numbers that could have a gap."""
        told = Told(idempotent=False)
        batch = told.producer.take(source(b"a", sent=True))
        refuse(batch, MessageSizeTooLargeError())
        ((one, refusals),) = told.failed
        assert (one, len(refusals)) == (told.began[0], 1)
        assert told.died == []

    def test_a_refused_batch_leaves_a_gap_that_the_producer_dies_of(self):
        """It is silenced before the next one is sent, and told before the refusal."""
        told = Told()
        order = []
        told.shell._facts.died = lambda cause, place: order.append((cause, place))
        told.shell._facts.failed = lambda *_: order.append("failed")
        batch = told.producer.take(source(b"a", sequence=0, sent=True))
        refuse(batch, MessageSizeTooLargeError())
        (cause, place), last = order
        assert isinstance(cause, MessageSizeTooLargeError)
        assert (place, last) == (Place("t", 0), "failed")
        assert told.producer._transaction_manager.resets == 1

    def test_a_batch_without_a_number_leaves_no_gap(self):
        """A batch that was never drained needs no repair of the sequence."""
        told = Told()
        batch = told.producer.take(source(b"a"))
        refuse(batch, KafkaTimeoutError("expired"))
        assert told.died == []
        assert told.producer._transaction_manager.resets == 0

    def test_a_transactional_producer_is_the_applications_to_replace(self):
        """The death of a transactional producer is not reported."""
        told = Told(transactional=True)
        batch = told.producer.take(source(b"a", sequence=0, sent=True))
        refuse(batch, MessageSizeTooLargeError())
        told.producer._transaction_manager.last_error = KafkaError("fatal")
        assert told.shell.report_if_dead(told.producer) is False
        assert (len(told.failed), told.died) == (1, [])

    def test_a_producer_that_has_lost_its_id_is_dead(self):
        """It would ask for another one only in its very first state."""
        told = Told()
        assert not told.shell.report_if_dead(told.producer)
        told.producer._transaction_manager.producer_id_and_epoch = ProducerIdAndEpoch(
            -1, -1
        )
        assert told.shell.report_if_dead(told.producer)
        ((cause, place),) = told.died
        assert isinstance(cause, KafkaTimeoutError)
        assert place is None

    def test_the_death_of_one_that_was_replaced_is_old_news(self):
        """The death of a producer that is not in use any more is not reported."""
        told = Told()
        old = told.producer
        told.shell.put_in_use(Producer())
        told.shell.report_death(old, KafkaError("late"))
        assert told.died == []

    def test_who_looks_at_a_failed_record_finds_its_batch_told(self):
        """Also before the client's own callbacks; and once."""
        told = Told()
        batch = told.producer.take(source(b"a", b"b"))
        first, second = batch._record_futures
        told.shell.report_early(first)
        assert told.failed == []
        batch.complete(3, -1)
        told.shell.report_early(first)
        told.shell.report_early(second)
        assert len(told.accepted) == 1

    def test_a_failed_record_without_a_batch_is_told_alone(self):
        """With its bytes, where they can be had."""
        told = Told()
        inner = source(b"a")._record_futures[0]
        told.shell.report_early(inner)
        assert told.began == []  # it has not failed
        inner.failure(MessageSizeTooLargeError())
        told.shell.report_early(inner, Raw(b"a", b"v"))
        ((one, refusals),) = told.failed
        assert told.began == [one]
        assert (one.raws(), refusals[0].sent) == ((Raw(b"a", b"v"),), "never")

    def test_a_fault_of_ours_fails_no_send(self, caplog):
        """An exception in the guard's listener is logged, and the client goes on."""
        told = Told()

        def broken(_):
            raise ZeroDivisionError

        told.shell._facts.began = broken
        with caplog.at_level(logging.ERROR):
            told.producer.take(source(b"a"))
        ((said, error),) = told.faults
        assert said == "a batch could not be tracked; it is sent"
        assert isinstance(error, ZeroDivisionError)


class TestSplits:
    """A batch that was too large is followed in its parts."""

    def split(self, told, batch, *sizes):
        """Put a batch's records into new ones, as the client does."""
        parts, first = [], 0
        for size in sizes:
            part = ProducerBatch(PLACE, MemoryRecordsBuilder(2, 0, 10_000))
            part.created = batch.created - 1.0  # which it keeps, and not the rest
            for inner in batch._record_futures[first : first + size]:
                part.records.append(None, b"k", b"v", [])
                inner.rebind(part.produce_future, len(part._record_futures))
                part._record_futures.append(inner)
            first += size
            parts.append(told.producer.take(part))
        return parts

    def test_parts_stand_where_their_first_record_stood(self):
        """Behind what came before, and in their order."""
        told = Told()
        batch = told.producer.take(source(b"a", b"b", b"c"))
        later = told.producer.take(source(b"d"))
        self.split(told, batch, 2, 1)
        whole, after, first, second = told.began
        assert after.source is later
        assert (first.parent, second.parent) == (whole, whole)
        assert first.position == (*whole.position, 0)
        assert second.position == (*whole.position, 2)
        assert first.position < second.position < after.position

    def test_a_part_of_a_part_is_of_that(self):
        """The parent of a split batch is the batch it was split from."""
        told = Told()
        batch = told.producer.take(source(b"a", b"b", b"c"))
        (part,) = self.split(told, batch, 2)
        self.split(told, part, 1, 1)
        whole, first, left, right = told.began
        assert (first.parent, left.parent, right.parent) == (whole, first, first)
        assert right.position == (*first.position, 1)
        assert (whole.in_parts, first.in_parts) == (2, 2)


class TestAnswersAfterDeath:
    """What is heard of batches that a dying producer gave up."""

    def give_up(self, told, *keys, sequence):
        """Send a batch and have it given up."""
        batch = told.producer.take(source(*keys, sequence=sequence, sent=True))
        batch.abort(IllegalStateError("dead"))
        return told.began[-1]

    def accept(self, batch, base_offset, code=0):
        """Answer a batch as the sender hears it."""
        sender = batch.producer._sender
        answer = SimpleNamespace(error_code=code, base_offset=base_offset)
        sender._complete_batch(batch.source, answer)

    def test_an_acceptance_that_comes_late_is_an_answer(self):
        """It counts for its own batch, and for no other of the same partition.

        Two batches can be in flight: the client sends the next one as soon as it has
        given up the first.
        """
        told = Told()
        told.shell.report_death(told.producer, KafkaError("dead"))
        first = self.give_up(told, b"a", b"b", sequence=4)
        second = self.give_up(told, b"c", b"d", sequence=6)
        assert told.shell.answers([first, second]) == {}
        self.accept(first, 10)
        assert told.shell.answers([first, second]) == {first: Answer(10)}
        self.accept(second, 30)
        assert told.shell.answers([second]) == {second: Answer(30)}

    def test_a_batch_that_was_there_already_has_no_offset(self):
        """The answer to a repeated batch does not say where it is."""
        told = Told()
        told.shell.report_death(told.producer, KafkaError("dead"))
        one = self.give_up(told, b"a", sequence=4)
        self.accept(one, -1, DuplicateSequenceNumberError.errno)
        assert told.shell.answers([one]) == {one: Answer(None)}

    def test_a_batch_in_time_is_no_late_answer(self):
        """The client completes it itself."""
        told = Told()
        told.shell.report_death(told.producer, KafkaError("dead"))
        told.producer.take(source(b"a", sequence=4, sent=True))
        self.accept(told.began[-1], 7)
        assert told.shell._dying.accepted == {}

    def test_a_refusal_that_comes_late_is_an_answer(self):
        """It is the answer for the batch that it names, and for no other."""
        told = Told()
        told.shell.report_death(told.producer, KafkaError("dead"))
        one = self.give_up(told, b"a", None, sequence=4)
        other = self.give_up(told, b"b", sequence=6)
        error = InvalidRecordError()
        answer = SimpleNamespace(record_errors=[(1, "bad")], error_message=None)
        told.producer._sender._record_exceptions_fn = lambda *args: (
            Sender._record_exceptions_fn(None, *args)
        )
        told.producer._sender._dispatch_error(one.source, error, answer)
        answers = told.shell.answers([one, other])
        assert list(answers) == [one]
        blames = [refusal.blame for refusal in answers[one].refusals]
        assert blames == ["mate", "record"]


class TestTakingBack:
    """Batches that wait behind a failed one come back, if they were never sent."""

    @pytest.mark.parametrize(("sent", "is_taken"), [(False, True), (True, False)])
    def test_a_batch_that_was_sent_before_stays_for_its_next_attempt(
        self, sent, is_taken
    ):
        """It waits in the queue as well, and may have been written."""
        told = Told(idempotent=False)
        batch = told.producer.take(source(b"a"))
        if sent:
            batch.drained = batch.created
            batch.retry()
        accumulator = told.producer._accumulator
        accumulator._batches = {PLACE: deque([batch])}
        accumulator._tp_lock = lambda _: nullcontext()
        accumulator.deallocate = lambda _: None
        told.shell.take_back(SimpleNamespace(place=Place("t", 0)))
        assert (batch.final_state is not None) is is_taken
        assert (batch not in accumulator._batches[PLACE]) is is_taken
        told.shell.take_back(SimpleNamespace(place=Place("t", 1)))
        assert len(told.failed) == is_taken


class TestSuccessors:
    """A second episode begins as the first one did, and nothing is left open."""

    @pytest.fixture
    def closed(self, monkeypatch):
        """The producers that the shell has closed."""
        closed = []
        monkeypatch.setattr(shell_module, "_close", closed.append)
        return closed

    def followed_by(self, told, *successors):
        """Let the shell build these producers, one after the other."""
        told.shell._builder = SimpleNamespace(build=iter(successors).__next__)

    def test_the_second_dead_producer_is_heard_too(self):
        """Its late answers are those of its own batches."""
        told, second = Told(), Producer()
        self.followed_by(told, second)
        told.shell.report_death(told.producer, KafkaError("dead"))
        told.shell.put_successor_in_use(None)
        told.producer = second
        told.shell.report_death(second, KafkaError("dead too"))
        sent = [
            second.take(source(b"a", sequence=number, sent=True)) for number in (6, 7)
        ]
        for batch in sent:
            batch.abort(IllegalStateError("dead too"))
        written, refused = told.began
        second._sender._complete_batch(
            written.source, SimpleNamespace(error_code=0, base_offset=5)
        )
        second._sender._record_exceptions_fn = lambda error, *_: lambda _: error
        answer = SimpleNamespace(record_errors=[], error_message=None)
        second._sender._dispatch_error(refused.source, InvalidRecordError(), answer)
        answers = told.shell.answers([written])
        assert answers == {written: Answer(5)}
        assert refused.source in told.shell._dying.refusals
        assert len(told.died) == 2

    def test_a_successor_that_is_built_after_close_is_closed(self, closed):
        """It would keep its thread, and never be used."""
        told, successor = Told(), Producer()
        self.followed_by(told, successor)
        told.shell.stop_replacing()
        with pytest.raises(IllegalStateError, match="closed meanwhile"):
            told.shell.put_successor_in_use(None)
        assert closed == [successor]
        assert told.shell.producer is told.producer

    def test_a_producer_that_cannot_take_over_is_closed(self, closed):
        """The next try builds another one, and only the old one is retired."""
        told, failing, successor = Told(), Producer(), Producer()
        self.followed_by(told, failing, successor)

        def prepare(producer):
            if producer is failing:
                raise KafkaError("not now")

        with pytest.raises(KafkaError):
            told.shell.renew(prepare)
        assert (closed, told.shell.producer) == ([failing], told.producer)
        told.shell.renew(prepare)
        told.shell.retire()
        assert closed == [failing, told.producer]
        assert told.shell.producer is successor

    def test_all_dead_producers_are_closed(self, closed):
        """Also if two have died since the last time; each is closed once."""
        told, second, third = Told(), Producer(), Producer()
        self.followed_by(told, second, third)
        for _ in range(2):
            told.shell.put_successor_in_use(None)
        told.shell.retire()
        assert closed == [second, told.producer]
        told.shell.retire()
        assert len(closed) == 2


class TestTraits:
    """What the client can do with its settings."""

    def test_they_are_read_from_the_settings(self):
        """Time limits are in seconds and sizes in bytes."""
        traits = traits_of(
            Producer(
                delivery_timeout_ms=1500, max_request_size=1000, compression_type="gzip"
            )
        )
        assert (traits.delivery_timeout, traits.largest_request) == (1.5, 1000 - 21)
        assert traits.compresses
        assert traits.timeout_setting == "delivery_timeout_ms"

    @pytest.mark.parametrize(
        ("settings", "transactional", "hears_late"),
        [
            ({}, False, True),
            ({"idempotent": False}, False, False),
            ({"transactional": True}, True, False),
        ],
    )
    def test_only_an_idempotent_producer_hears_late(
        self, settings, transactional, hears_late
    ):
        """A transactional one is never replaced by the guard."""
        traits = traits_of(Producer(**settings))
        assert (traits.transactional, traits.hears_late) == (transactional, hears_late)

    @pytest.mark.parametrize(
        ("sequence", "epoch", "version", "found"),
        [
            (0, 1, (4, 0), ProducerIdAndEpoch(7, 2)),
            (0, 5, (4, 0), ProducerIdAndEpoch(7, 6)),
            (None, 1, (4, 0), None),
            (0, 1, (2, 4), None),
        ],
    )
    def test_a_successor_takes_the_next_epoch(self, sequence, epoch, version, found):
        """It is above the epoch of the batch and of the producer, if brokers know it."""
        producer = Producer(api_version=version)
        producer._transaction_manager.producer_id_and_epoch = ProducerIdAndEpoch(
            7, epoch
        )
        batch = source(b"a", sequence=sequence)
        assert reading.next_identity(producer, batch, Epochs()) == found

    def test_another_id_of_the_producer_says_nothing_about_the_batch(self):
        """Only the batch's own epoch counts then; and the last one has no next."""
        producer = Producer()
        producer._transaction_manager.producer_id_and_epoch = ProducerIdAndEpoch(8, 30)
        batch = source(b"a", sequence=0)
        assert reading.next_identity(producer, batch, Epochs()) == (
            ProducerIdAndEpoch(7, 2)
        )
        last = ProducerBatch(PLACE, MemoryRecordsBuilder(2, 0, 1000))
        last.records.set_producer_state(7, 32_767, 0, False)
        assert reading.next_identity(producer, last, Epochs()) is None

    def test_no_two_successors_take_the_same_epoch(self):
        """A dead one may have given up its id, and its batch may not be in doubt."""
        producer, batch, epochs = Producer(), source(b"a", sequence=0), Epochs()
        producer._transaction_manager.producer_id_and_epoch = ProducerIdAndEpoch(-1, -1)
        taken = [reading.next_identity(producer, batch, epochs) for _ in range(3)]
        assert taken == [ProducerIdAndEpoch(7, epoch) for epoch in (2, 3, 4)]
