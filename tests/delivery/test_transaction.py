"""The machine of transactions, without a client: steps that are answered as they are told."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kafkaguard import Action, errors, load_policy
from kafkaguard._delivery.facts import Place
from kafkaguard._delivery.judging import ABORTED
from kafkaguard._delivery.table import TRANSACTIONS, TransactionEvent, TransactionState
from kafkaguard._delivery.time_limit import TimeLimit
from kafkaguard._delivery.transaction import Transaction
from kafkaguard._delivery.transaction_calls import (
    DONE,
    Answer,
    LeftOpen,
    TransactionCalls,
    proceed,
)
from kafkaguard._delivery.transaction_errors import (
    COMMIT,
    NOT_ABORTED,
    TransactionErrors,
    TransactionTraits,
)
from kafkaguard_adapters.aiokafka.errors import errors as aiokafka
from kafkaguard_adapters.confluent.errors import errors as confluent
from kafkaguard_adapters.kafka_python.errors import errors as kafka_python
from tests.delivery.world.words import PlainErrors

POLICY = load_policy({"max_attempts": 3, "backoff": {"base": 0.5, "jitter": "none"}})
LIMIT = TimeLimit(2.0, "limit")
TRAITS = TransactionTraits("x", 60.0, "transaction.timeout.ms")
BOOKED = ["delivered", "aborted", "in_doubt"]
RECORD = errors.MessageTooLargeError("too large", api="Produce", topic="t")
LATE = Answer("late")
OFFSETS = [Place("in", 0)]


def failed(code, kind="failed", **more):
    """Answer with a code."""
    return Answer(kind, errors.for_code(code)("said so"), **more)


class Producer:
    """A producer whose client answers as it is told; what is not told succeeds."""

    def __init__(self, traits=TRAITS, **answers):
        self.now, self.made, self.ended = 0.0, [], []
        counters = SimpleNamespace(end_transaction=self.ended.append)
        self.transaction = Transaction(counters)
        self.calls = TransactionCalls(
            self.transaction,
            PlainErrors(),
            traits,
            POLICY,
            clock=lambda: self.now,
            random=lambda: 0.0,
        )
        self.answers = answers

    def call(self, name, *given):
        """Make a call of the application; return its error, or what it returns."""
        arguments = (*given, LIMIT) if name == "add_offsets" else (LIMIT, *given)
        flow = getattr(self.calls, name)(*arguments)
        result = None
        while True:
            try:
                step = proceed(flow, result)
            except StopIteration as end:
                return end.value
            except errors.KafkaGuardError as error:
                return error
            if step.do != "look":
                self.made.append(step.do)
            if step.do == "sleep":
                self.now = step.until
            left = self.answers.get(step.do)
            result = left.pop(0) if left else DONE

    def has(self, *calls):
        """Make calls that succeed; return the producer."""
        for call in calls:
            assert self.call(call) is None
        self.made.clear()
        return self

    @property
    def state(self):
        """The state, by name."""
        return str(self.transaction.state)


def in_transaction(traits=TRAITS, **answers):
    """Return a producer in a transaction."""
    return Producer(traits, **answers).has("init", "begin")


class TestStates:
    """Which calls are possible, and what they say otherwise."""

    @pytest.mark.parametrize(
        ("before", "call", "text"),
        [
            ((), "commit", "init_transactions() comes first"),
            ((), "abort", "init_transactions() comes first"),
            (("init",), "commit", "call begin_transaction() first"),
            (("init",), "abort", "call begin_transaction() first"),
            (("init", "begin"), "begin", "call commit_transaction() or abort_tr"),
            (("init", "begin", "commit"), "commit", "call begin_transaction() first"),
            (("init", "begin", "abort"), "abort", "call begin_transaction() first"),
        ],
    )
    def test_a_call_in_a_wrong_order_says_what_comes_first(self, before, call, text):
        """The client is not asked."""
        producer = Producer().has(*before)
        error = producer.call(call)
        assert text in str(error)
        assert error.verdict.action is Action.REJECT
        assert producer.made == []

    @pytest.mark.parametrize("given_up", ["commit", "abort"])
    def test_an_end_without_an_answer_can_only_be_asked_again(self, given_up):
        """A second commit or abort asks the client for the same one."""
        other = {"commit": "abort", "abort": "commit"}[given_up]
        producer = in_transaction(**{given_up: [LATE, LATE]})
        for _ in range(2):
            error = producer.call(given_up)
            assert "of transactional.id x did not answer within" in str(error)
            assert f"call {given_up}_transaction() again" in str(error)
            assert error.verdict.written == ("maybe" if given_up == "commit" else "no")
        refused = producer.call(other)
        assert f"call {given_up}_transaction() again" in str(refused)
        send = producer.calls.send_error(ValueError(), "t")
        assert f"call {given_up}_transaction() again" in str(send)
        assert send.topic == "t"
        assert producer.call(given_up) is None
        assert producer.ended == ["delivered" if given_up == "commit" else "aborted"]

    def test_a_client_that_says_that_calls_are_out_of_order_is_believed(self):
        """Init comes first, or another thread ends the transaction."""
        producer = Producer(begin=[failed(-1, "order")])
        assert "init_transactions() comes first" in str(producer.call("begin"))
        producer = in_transaction(commit=[failed(-1, "order")])
        assert "call commit_transaction() again" in str(producer.call("commit"))

    def test_each_state_leads_back_to_none_or_is_final(self):
        """A producer can begin again from every state but FENCED."""
        edges = TRANSACTIONS.transitions.items()
        back = {TransactionState.NONE}
        for _ in TransactionState:
            back |= {state for (state, _), following in edges if following in back}
        assert back == set(TransactionState) - {TransactionState.FENCED}

    def test_fenced_is_final(self):
        """Nothing changes the state any more."""
        producer = in_transaction(commit=[failed(90, "dead")])
        producer.call("commit")
        for event in TransactionEvent:
            producer.transaction.happens(event)
            assert producer.state == "FENCED"


class TestRecords:
    """A transaction without each of its records is not committed."""

    @pytest.mark.parametrize("is_spoiled", [True, False])
    def test_a_failed_record_stops_the_commit_at_once(self, is_spoiled):
        """No other record is waited for; the error names record and topic."""
        producer = in_transaction()
        if is_spoiled:
            producer.transaction.spoil(RECORD)
        else:
            producer.transaction.fail(RECORD, in_flight=True)
        for call in ("commit", "begin"):
            error = producer.call(call)
            assert error.verdict == ABORTED
            assert error.__cause__ is RECORD
            assert "failed (MESSAGE_TOO_LARGE): call abort_transaction(), " in str(
                error
            )
        assert producer.made == []
        assert producer.call("abort") is None
        assert producer.call("begin") is None
        assert ("renew" in producer.made) is not is_spoiled

    def test_a_record_that_is_to_blame_comes_before_what_followed_from_it(self):
        """The order in which they failed does not matter."""
        mate = errors.BatchMateRefusedError(topic="t")
        late = errors.ClientTimeoutError(topic="t")
        dropped = errors.RecordPurgedError(topic="t")
        other = errors.InvalidRecordError(topic="t")
        for follows in (mate, late, dropped):
            for order in ((follows, RECORD, other), (RECORD, follows, other)):
                producer = in_transaction()
                for error in order:
                    producer.transaction.fail(error)
                assert producer.transaction.failure is RECORD
            producer = in_transaction()
            producer.transaction.fail(follows)
            producer.transaction.fail(mate)
            assert producer.transaction.failure is follows

    def test_a_commit_waits_for_the_record_that_is_to_blame(self):
        """Only records have failed so far that failed with it."""
        producer = in_transaction()
        producer.transaction.fail(errors.BatchMateRefusedError(topic="t"))
        flow = producer.calls.commit(LIMIT)
        assert next(flow).do == "await_records"
        producer.transaction.fail(RECORD)
        assert flow.send(DONE).do == "look"
        with pytest.raises(errors.TransactionAbortableError) as caught:
            flow.send(DONE)
        assert caught.value.__cause__ is RECORD

    def test_a_send_that_the_client_refuses_does_not_hide_the_record_to_blame(self):
        """The client tells it later; neither error is about another one of ours."""
        producer = in_transaction()
        state = errors.ClientStateError("Local: Erroneous state")
        refused = producer.calls.send_error(state, "t", Answer("failed", state))
        assert refused.verdict == ABORTED
        producer.transaction.spoil(refused)
        error = producer.call("commit")
        assert "TRANSACTION_ABORTABLE)" not in str(error)
        producer.transaction.fail(RECORD)
        assert producer.call("commit").__cause__ is RECORD

    @pytest.mark.parametrize("before", [(), ("init",), ("init", "begin", "commit")])
    def test_a_record_that_is_refused_outside_a_transaction_fails_none(self, before):
        """Another thread may have ended the transaction of the send."""
        producer = Producer().has(*before)
        producer.transaction.spoil(RECORD)
        assert producer.transaction.failure is None

    def test_a_record_that_fails_while_the_others_are_awaited_stops_the_commit(self):
        """The commit is not requested."""
        producer = in_transaction()
        flow = producer.calls.commit(LIMIT)
        assert next(flow).do == "await_records"
        producer.transaction.fail(RECORD)
        with pytest.raises(errors.TransactionAbortableError):
            flow.send(DONE)

    def test_a_commit_that_another_thread_has_made_is_not_made_again(self):
        """The second thread hears that no transaction is open."""
        producer = in_transaction()
        flows = [producer.calls.commit(LIMIT) for _ in range(2)]
        assert [next(flow).do for flow in flows] == ["await_records"] * 2
        assert flows[0].send(DONE).do == "commit"
        with pytest.raises(StopIteration):
            flows[0].send(DONE)
        with pytest.raises(errors.ClientStateError, match="no transaction has begun"):
            flows[1].send(DONE)
        assert producer.ended == ["delivered"]

    @pytest.mark.parametrize("answer", [failed(120), failed(-1, may_be_done=True)])
    def test_two_threads_hear_of_a_failed_commit(self, answer):
        """Neither takes it for a committed one, also if the other has aborted it."""
        producer = in_transaction()
        flows = [producer.calls.commit(LIMIT) for _ in range(2)]
        next(flows[0])
        assert flows[0].send(DONE).do == "commit"
        assert next(flows[1]).do == "commit"
        with pytest.raises(errors.KafkaGuardError):
            flows[0].send(answer)
        producer.call("abort")
        with pytest.raises(errors.KafkaGuardError) as caught:
            flows[1].send(answer)
        assert caught.value.verdict.written == "maybe"

    def test_a_commit_in_another_thread_hears_that_the_producer_was_closed(self):
        """It has not returned before, and does not return as if it was committed."""
        producer = in_transaction(commit=[LATE])
        flow = producer.calls.commit(LIMIT)
        next(flow)
        flow.send(DONE)
        assert producer.call("close").why.verdict.action is Action.IN_DOUBT
        assert producer.ended == ["in_doubt"]
        with pytest.raises(errors.KafkaGuardError) as caught:
            flow.send(failed(-1, "dead", may_be_done=True))
        assert caught.value.verdict.action is Action.IN_DOUBT

    def test_records_without_an_outcome_leave_the_commit_unrequested(self):
        """RETRY, and the transaction can still be aborted."""
        producer = in_transaction(await_records=[LATE])
        error = producer.call("commit")
        assert (error.verdict.action, error.verdict.written) == (Action.RETRY, "no")
        assert producer.made == ["await_records"]
        assert producer.call("abort") is None

    def test_why_a_client_cannot_go_on_stops_the_commit(self):
        """The commit fails although no record has failed."""
        producer = in_transaction(await_records=[failed(29, api="Produce")])
        assert producer.call("commit").verdict.written == "no"
        assert producer.made == ["await_records"]
        assert producer.state == "FAILED"
        assert producer.call("abort") is None


class TestOffsets:
    """A transaction without its offsets is not committed."""

    @pytest.mark.parametrize("answer", [LATE, failed(15), failed(22)])
    def test_the_commit_works_once_they_were_sent(self, answer):
        """The commit says ABORT until the offsets were sent."""
        producer = in_transaction(offsets=[answer])
        missing = producer.call("add_offsets", OFFSETS, "g")
        refused = producer.call("commit")
        assert refused.__cause__ is missing
        assert refused.verdict == ABORTED
        assert producer.call("add_offsets", OFFSETS, "g") is None
        assert producer.call("commit") is None

    @pytest.mark.parametrize("in_turn", [True, False])
    def test_others_wait_for_an_answer_if_the_client_confuses_them(self, in_turn):
        """kafka-python and aiokafka do; librdkafka does not."""
        traits = TRAITS._replace(offsets_in_turn=in_turn)
        producer = in_transaction(traits, offsets=[LATE])
        producer.call("add_offsets", OFFSETS, "g")
        other = producer.call("add_offsets", [Place("in", 1)], "g")
        assert (other is None) is not in_turn
        assert "for in were not confirmed within 2 s" in str(
            producer.call("commit").__cause__
        )

    def test_the_next_transaction_is_free_of_them(self):
        """An abort forgets the offsets that were not sent."""
        producer = in_transaction(offsets=[LATE])
        producer.call("add_offsets", OFFSETS, "g")
        producer.has("abort", "begin")
        assert producer.call("add_offsets", [Place("in", 1)], "g") is None
        assert producer.call("commit") is None

    def test_an_interrupted_call_leaves_them_unsent(self):
        """After Ctrl-C in the call the commit says ABORT."""
        producer = in_transaction(offsets=[KeyboardInterrupt()])
        with pytest.raises(KeyboardInterrupt):
            producer.call("add_offsets", OFFSETS, "g")
        assert "not confirmed" in str(producer.call("commit").__cause__)

    def test_arguments_that_the_client_does_not_take_are_no_offsets(self):
        """The error of the client goes on, and the commit works."""
        producer = in_transaction(offsets=[TypeError("a list")])
        with pytest.raises(TypeError, match="a list"):
            producer.call("add_offsets", OFFSETS, "g")
        assert producer.call("commit") is None


#: How a transaction ended, and what the next one needs: answers, calls, what counts.
ENDS = {
    "committed": ({}, ["commit"], [], "delivered"),
    "aborted": ({}, ["abort"], [], "aborted"),
    "failed": ({"commit": [failed(120)]}, ["commit", "abort"], [], "aborted"),
    "abort without an answer": ({"abort": [LATE]}, ["abort"], ["renew"], "aborted"),
    "abort refused": ({"abort": [failed(120)]}, ["abort"], ["renew"], "aborted"),
    "client cannot abort": ({"abort": [failed(-1, "dead")]}, ["abort"], [], "aborted"),
    "commit refused for good": (
        {"commit": [failed(49, "dead")]},
        ["commit"],
        ["renew"],
        "aborted",
    ),
    "commit unknown": (
        {"commit": [failed(-1, "dead", may_be_done=True)]},
        ["commit"],
        ["renew"],
        "in_doubt",
    ),
    "commit answered with a server error": (
        {"commit": [failed(-1, "dead")]},
        ["commit"],
        ["renew"],
        "in_doubt",
    ),
    "commit interrupted, then refused": (
        {"commit": [KeyboardInterrupt(), failed(48, "dead")]},
        ["commit", "commit"],
        ["renew"],
        "in_doubt",
    ),
}


@pytest.mark.parametrize("end", ENDS)
def test_two_transactions_after_another_end_find_nothing_of_it(end):
    """One new producer at most, and none for the third."""
    answers, calls, needs, counted = ENDS[end]
    producer = in_transaction(**answers)
    for call in calls:
        try:
            producer.call(call)
        except KeyboardInterrupt:
            continue
    producer.made.clear()
    assert producer.call("begin") is None
    assert producer.made == [*needs, "begin"]
    assert producer.ended == [counted]
    for _ in range(2):
        assert producer.call("commit") is None
        assert producer.call("begin") is None
    assert producer.made.count("renew") == len(needs)
    assert producer.ended == [counted, "delivered", "delivered"]
    producer.answers["commit"] = [failed(90, "dead")]
    assert producer.call("commit").verdict.written == "no"


@pytest.mark.parametrize("has_gaps", [True, False])
def test_a_gap_costs_one_new_producer(has_gaps):
    """The error of the next transaction names its own record."""
    producer = in_transaction(TRAITS._replace(has_gaps=has_gaps))
    ends = []
    producer.transaction.on_end = lambda: ends.append(producer.state)
    for record in (RECORD, errors.InvalidRecordError(topic="t")):
        producer.transaction.fail(record, in_flight=record is RECORD)
        assert producer.call("commit").__cause__ is record
        producer.has("abort")
        assert producer.call("begin") is None
        renews = has_gaps and record is RECORD
        assert producer.made == ["renew"] * renews + ["begin"]
    producer.has("commit")
    assert producer.call("begin") is None
    assert producer.made == ["begin"]
    assert ends == ["NONE"] * (4 if has_gaps else 3)


def test_a_gap_is_closed_by_the_producer_that_takes_over_for_another_reason():
    """The abort had no answer: one new producer is enough."""
    producer = in_transaction(abort=[LATE])
    producer.transaction.fail(RECORD, in_flight=True)
    producer.call("abort")
    producer.has("begin", "commit")
    assert producer.call("begin") is None
    assert producer.made == ["begin"]


class TestUnknownEnds:
    """What may be committed is not called uncommitted."""

    @pytest.mark.parametrize("call", ["commit", "abort", "add_offsets"])
    def test_a_lost_commit_stays_in_doubt(self, call):
        """No call claims to know better, and none asks the client."""
        lost = failed(-1, "dead", may_be_done=True)
        producer = in_transaction(commit=[lost])
        producer.call("commit")
        producer.made.clear()
        given = (OFFSETS, "g") if call == "add_offsets" else ()
        error = producer.call(call, *given)
        assert error.verdict.action is Action.IN_DOUBT
        assert error.verdict.written == "maybe"
        assert "begin_transaction()" in str(error)
        assert producer.made == []
        assert producer.call("close").why.verdict.action is Action.IN_DOUBT

    def test_a_refused_commit_may_have_been_carried_out_before(self):
        """An abort shows it: the coordinator refuses to abort what is committed."""
        for refusal in (None, failed(48)):
            commit = failed(120, may_be_done=True)
            producer = in_transaction(commit=[commit], abort=[refusal or DONE])
            for _ in range(2):
                error = producer.call("commit")
                assert error.verdict.action is Action.ABORT
                assert error.verdict.written == "maybe"
            error = producer.call("abort")
            if refusal is None:
                assert error is None
            else:
                assert error.verdict.action is Action.IN_DOUBT

    def test_an_unanswered_abort_after_a_doubtful_commit_leaves_the_doubt(self):
        """The error does not say that no record will be committed."""
        commit = failed(120, may_be_done=True)
        producer = in_transaction(commit=[commit], abort=[LATE])
        producer.call("commit")
        error = producer.call("abort")
        assert (error.verdict.action, error.verdict.written) == (Action.RETRY, "maybe")
        assert "no record of the transaction will" not in str(error)

    def test_an_interrupted_commit_may_have_been_carried_out(self):
        """A refusal of the second request does not exclude it."""
        producer = in_transaction(commit=[KeyboardInterrupt(), failed(120)])
        with pytest.raises(KeyboardInterrupt):
            producer.call("commit")
        assert producer.call("commit").verdict.written == "maybe"

    def test_no_new_producer_aborts_what_may_be_committed(self):
        """The start of a new producer would not tell which of both it was."""
        producer = in_transaction(
            commit=[failed(120, may_be_done=True)], abort=[failed(120, "dead")]
        )
        producer.call("commit")
        assert producer.call("abort").verdict.action is Action.IN_DOUBT
        assert "renew" not in producer.made

    @pytest.mark.parametrize("call", ["commit", "begin", "abort", "close"])
    def test_a_new_producer_that_cannot_be_built_is_asked_of_the_application(
        self, call
    ):
        """A client that the guard has not built itself."""
        producer = in_transaction(
            TRAITS._replace(can_build=False), abort=[failed(120, "dead")]
        )
        producer.call("abort")
        if call == "close":
            assert producer.call("close").why.verdict is NOT_ABORTED
            return
        error = producer.call(call)
        assert error.verdict.action is Action.RECREATE
        assert ("guard(factory=..., config={...})" in str(error)) == (call == "begin")

    def test_an_unanswered_abort_is_called_again_if_none_can_be_built(self):
        """begin_transaction() says to call the abort again."""
        producer = in_transaction(TRAITS._replace(can_build=False), abort=[LATE])
        assert "begin_transaction()" not in str(producer.call("abort"))
        assert "call abort_transaction() again" in str(producer.call("begin"))
        assert producer.call("abort") is None


class TestFenced:
    """The coordinator accepts nothing more."""

    @pytest.mark.parametrize("code", [90, 47])
    @pytest.mark.parametrize("lasted", [1.0, 61.0])
    def test_the_time_tells_whether_another_instance_runs(self, code, lasted):
        """RECREATE after transaction.timeout.ms, else FENCED; for every later call."""
        producer = in_transaction(commit=[failed(code, "dead")])
        producer.now += lasted
        said = [producer.call("commit")]
        producer.now += 100.0
        said += [producer.call(call) for call in ("commit", "abort", "begin")]
        said.append(producer.calls.send_error(ValueError(), "t"))
        for error in said:
            is_late = lasted > TRAITS.timeout
            action = Action.RECREATE if is_late else Action.FENCED
            assert (error.verdict.action, error.verdict.written) == (action, "no")
            assert ("open for 61 s" in str(error)) is is_late
            assert ("another instance uses the transactional.id x" in str(error)) is (
                not is_late
            )
            assert ("do not fence it back" in str(error)) <= (not is_late)
        assert producer.ended == ["aborted"]
        assert producer.made == ["await_records", "commit"]
        assert producer.call("close") is None

    def test_an_earlier_commit_stays_in_doubt(self):
        """The commit may have been carried out before the fence."""
        producer = in_transaction(commit=[failed(90, "dead", may_be_done=True)])
        for _ in range(2):
            error = producer.call("commit")
            assert (error.verdict.action, error.verdict.written) == (
                Action.FENCED,
                "maybe",
            )
            assert "may have succeeded" in str(error)
        assert producer.ended == ["in_doubt"]

    def test_a_record_that_was_fenced_leaves_its_producer_fenced(self):
        """Not "begin again without it"; close() tells it if no call has done so."""
        fenced = errors.ProducerFencedError(topic="t")
        for call in ("commit", "abort"):
            producer = in_transaction()
            producer.transaction.fail(fenced)
            assert producer.call(call).verdict.action is Action.FENCED
            assert producer.made == []
        producer = in_transaction()
        producer.transaction.fail(fenced)
        assert producer.call("close").why.verdict.action is Action.FENCED

    def test_a_record_whose_code_does_not_say_so_leaves_its_producer_fenced(self):
        """The partition's leader answers 47; the client hears the rest meanwhile."""
        producer = in_transaction(look=[failed(90)])
        producer.transaction.fail(errors.InvalidProducerEpochError(topic="t"))
        for _ in range(2):
            assert producer.call("commit").verdict.action is Action.FENCED

    def test_a_fence_between_two_transactions_is_about_another_instance(self):
        """The time since the last begin does not count."""
        producer = in_transaction(begin=[DONE, failed(90, "dead")]).has("commit")
        producer.now += 100.0
        assert producer.call("begin").verdict.action is Action.FENCED

    def test_two_threads_hear_of_the_same_fence(self):
        """The first one's time counts, and the records count once."""
        producer = in_transaction(commit=[failed(90, "dead")])
        offsets = producer.calls.add_offsets(OFFSETS, "g", LIMIT)
        next(offsets)
        producer.call("commit")
        producer.now += 100.0
        with pytest.raises(errors.KafkaGuardError) as caught:
            offsets.send(failed(90, "dead"))
        assert caught.value.verdict.action is Action.FENCED
        assert producer.ended == ["aborted"]

    def test_a_fenced_producer_is_not_replaced(self):
        """A successor would fence the other instance."""
        for answer in (failed(90, "dead"), failed(31, "dead")):
            producer = Producer(begin=[answer]).has("init")
            assert producer.call("begin").code == answer.cause.code
            assert producer.made == ["begin"]

    def test_a_successor_that_is_refused_is_fenced(self):
        """FENCED if another instance has taken over meanwhile."""
        producer = in_transaction(abort=[LATE], renew=[failed(90)])
        producer.call("abort")
        assert producer.call("begin").verdict.action is Action.FENCED
        assert producer.call("begin").verdict.action is Action.FENCED
        assert producer.made.count("renew") == 1


class TestClose:
    """What is open when the producer is closed."""

    def test_a_sound_transaction_is_aborted_and_told(self):
        """Nothing is told of one that had failed, or that is none."""
        assert in_transaction().call("close") == LeftOpen()
        assert Producer().has("init").call("close") is None
        producer = in_transaction()
        producer.transaction.fail(RECORD)
        assert producer.call("close") is None
        assert producer.made == ["abort", "await_records"]

    def test_a_commit_without_an_answer_is_asked_for_once_more(self):
        """The commit is repeated, and no abort is requested."""
        producer = in_transaction(commit=[LATE])
        producer.call("commit")
        assert producer.call("close") is None
        assert producer.made == ["await_records", "commit", "commit"]
        producer = in_transaction(commit=[LATE, LATE])
        producer.call("commit")
        assert producer.call("close").why.verdict.action is Action.IN_DOUBT


def block(producer, raised=None):
    """Run a block; return its exception."""
    if (error := producer.call("begin_block")) is not None:
        return error
    if raised is None:
        return producer.call("commit_block")
    assert producer.call("abort_block", raised) is None
    return raised


class TestBlocks:
    """``with producer.transaction():``, as often as the policy says."""

    def test_a_commit_without_an_answer_is_asked_again_after_the_policys_wait(self):
        """The coordinator carries it out once."""
        producer = Producer(commit=[LATE, LATE]).has("init")
        assert block(producer) is None
        assert producer.made[1:] == [
            "await_records",
            *["commit", "sleep"] * 2,
            "commit",
        ]
        assert producer.now >= 1.0

    def test_asking_again_ends_with_the_attempts_of_the_policy(self):
        """Nothing is aborted then, because the transaction may be committed."""
        producer = Producer(commit=[LATE] * 9).has("init")
        assert block(producer).verdict.action is Action.IN_DOUBT
        assert producer.made.count("commit") == 3
        assert "abort" not in producer.made

    def test_an_abort_without_an_answer_is_asked_again(self):
        """The second call waits for the same abort."""
        producer = Producer(abort=[LATE]).has("init")
        assert isinstance(block(producer, ValueError()), ValueError)
        assert producer.made.count("abort") == 2
        assert producer.state == "NONE"

    @pytest.mark.parametrize("code", [29, 53, 120])
    def test_a_refused_commit_is_aborted_once(self, code):
        """The caller gets the error of the commit."""
        producer = Producer(commit=[failed(code)]).has("init")
        error = block(producer)
        assert error.code == code
        assert producer.made.count("abort") == 1
        assert "abort_transaction()" not in str(error)

    @pytest.mark.parametrize("code", [47, 49, 90])
    def test_a_dead_or_fenced_client_aborts_nothing(self, code):
        """No abort is requested after FENCED or RECREATE."""
        producer = Producer(commit=[failed(code, "dead")]).has("init")
        assert block(producer).code == code
        assert "abort" not in producer.made

    @pytest.mark.parametrize("in_body", [True, False])
    def test_an_error_of_a_block_does_not_advise_to_abort(self, in_body):
        """The block has done so; a second abort would be refused."""
        producer = in_transaction()
        producer.transaction.fail(RECORD)
        if in_body:
            error = producer.call("commit")
            assert producer.call("abort_block", error) is None
        else:
            error = producer.call("commit_block")
        assert "abort" in producer.made
        assert "abort_transaction()" not in str(error)
        assert str(error).endswith(
            "ABORT: the transaction was aborted: begin another one"
        )

    def test_a_block_that_cannot_abort_leaves_the_advice(self):
        """The transaction is still open."""
        producer = in_transaction(abort=[failed(48)])
        producer.transaction.fail(RECORD)
        error = producer.call("commit")
        assert producer.call("abort_block", error) is None
        assert "was not aborted" in error.__notes__[0]
        assert "call abort_transaction(), then begin again" in str(error)

    def test_a_block_advises_no_second_commit_after_its_abort(self):
        """Records had no outcome until the last attempt of the policy."""
        producer = Producer(await_records=[LATE] * 3).has("init")
        assert "commit_transaction" not in str(block(producer))
        assert producer.made.count("await_records") == 4
        assert producer.made.count("abort") == 1

    @pytest.mark.parametrize(
        "raised", [KeyboardInterrupt(), SystemExit(3), GeneratorExit()], ids=repr
    )
    @pytest.mark.parametrize("where", ["body", "records", "commit"])
    def test_a_block_that_is_interrupted_is_aborted(self, raised, where):
        """Ctrl-C leaves no open transaction; one that may be committed is left alone."""
        producer = Producer().has("init")
        if where == "body":
            block(producer, raised)
        else:
            step = "await_records" if where == "records" else "commit"
            producer.answers[step] = [raised]
            with pytest.raises(type(raised)):
                block(producer)
        assert ("abort" in producer.made) is (where != "commit")
        assert producer.state == ("COMMITTING" if where == "commit" else "NONE")
        if where == "commit":
            assert producer.call("commit") is None
        assert block(producer) is None

    def test_an_abort_that_fails_for_good_is_made_once(self):
        """Its error is raised, from that of the commit."""
        producer = Producer(commit=[failed(120)], abort=[failed(120)]).has("init")
        error = block(producer)
        assert error.verdict is NOT_ABORTED
        assert error.__context__.code == 120
        assert producer.made.count("abort") == 1

    @pytest.mark.parametrize("raised", [KeyboardInterrupt(), ValueError("mine")])
    def test_what_the_body_raises_goes_first(self, raised):
        """What failed besides is noted on it."""
        producer = Producer(abort=[failed(120)]).has("init")
        assert block(producer, raised) is raised
        assert "besides, its transaction was not aborted" in raised.__notes__[0]

    @pytest.mark.parametrize("call", ["commit", "add_offsets"])
    def test_what_a_block_has_aborted_is_not_in_doubt(self, call):
        """Its body could not send offsets, or has begun to commit by hand."""
        producer = in_transaction(offsets=[LATE], await_records=[LATE])
        given = (OFFSETS, "g") if call == "add_offsets" else ()
        error = producer.call(call, *given)
        assert producer.call("abort_block", error) is None
        assert error.verdict.written == "no"
        assert str(error).endswith("the transaction was aborted: begin another one")

    def test_a_begin_is_made_again_where_that_helps(self):
        """The last transaction is still ending at the coordinator."""
        producer = Producer(begin=[failed(51, api="InitProducerId")]).has("init")
        assert block(producer) is None
        assert producer.made[:3] == ["begin", "sleep", "begin"]

    def test_a_body_that_has_ended_its_transaction_aborts_nothing(self):
        """A commit by hand in the body leaves nothing to abort."""
        producer = in_transaction().has("commit")
        assert producer.call("abort_block", ValueError()) is None
        assert producer.made == []


@pytest.mark.parametrize("made_by", [kafka_python, aiokafka, confluent])
def test_name_and_code_of_a_failed_transaction_belong_together(made_by):
    """The code is 120, whatever code the client's own error has."""
    failure = errors.NotEnoughReplicasError(topic="t", partition=0)
    original = made_by.make(7, "late")
    words = TransactionErrors(made_by, TRAITS)
    error = words.make_abort_first(failure, COMMIT, original)
    assert str(error).startswith("TRANSACTION_ABORTABLE (120) [EndTxn, topic t")
    assert error.code == 120
    assert getattr(error, "errno", 120) == 120
