"""The machine in the simulated world; and that the world notices a broken machine."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from kafkaguard._delivery.attempts import Attempts
from kafkaguard._delivery.client_life import ClientLife
from kafkaguard._delivery.counters import Counters
from kafkaguard._delivery.facts import Batch
from kafkaguard._delivery.in_flight import InFlight
from kafkaguard._delivery.judging import NOT_SENT, Judge, Judgement
from kafkaguard._delivery.machine import DeliveryMachine
from kafkaguard._delivery.resend_queue import ResendQueue
from kafkaguard._delivery.resends import Resends
from kafkaguard._delivery.table import (
    CLIENTS,
    RECORDS,
    TOPICS,
    TRANSACTIONS,
    ClientState,
)
from kafkaguard._delivery.topic_round import TopicRound
from kafkaguard._delivery.transaction import Transaction
from kafkaguard._delivery.transaction_calls import Step as Move
from kafkaguard._delivery.transaction_calls import TransactionCalls
from kafkaguard._retries.machine import Machine, Step
from tests.delivery.simulate import play, play_range, play_transactions, simulate

SCHEDULES = 400
#: So many schedules must be enough to notice a fault.
ENOUGH = 5_000
TABLES = RECORDS, TOPICS, CLIENTS


@pytest.mark.parametrize("first", [0, 1_000_000])
def test_nothing_that_must_hold_is_broken(first):
    """What was told is what the log says, in every schedule."""
    assert play_range(first, SCHEDULES).failures == {}


@pytest.mark.parametrize(
    "seed",
    [
        *(31159, 174591, 197821, 441934, 477513, 541305),
        *(329419, 344519, 425942, 849954, 859723, 918167, 981570),
    ],
)
def test_a_schedule_that_found_a_fault_is_played_again(seed):
    """Among a million, innocent records failed before the policy's time was over.

    Or before that of the client, since four successors in a row had ended: each held a
    record whose time was over, and no broker could be reached.
    """
    assert play(seed, refuses_later=False)[0] == []


def test_several_processes_play_what_one_does():
    """The same seeds, the same outcomes; each kind of outcome comes up."""
    both = simulate(SCHEDULES, 0, 2)
    assert both.outcomes == play_range(0, SCHEDULES).outcomes
    assert {"delivered", "failed", "in_doubt", "dead_lettered", "dropped"} < set(
        both.outcomes
    )


def test_a_seed_tells_the_same_story_twice():
    """Line by line: a failure can be looked at as often as it takes."""
    stories = []
    for _ in range(2):
        lines = []
        play(7, trace=lines.append)
        stories.append(lines)
    assert stories[0] == stories[1]
    assert len(stories[0]) > 5


def noticed():
    """Return what the first schedule that goes wrong says."""
    for seed in range(ENOUGH):
        problems, _ = play(seed)
        if problems:
            return problems[0]
    return None


class TestABrokenMachineIsNoticed:
    """Each test breaks one decision; the world must find out."""

    def test_keys_in_any_order(self, monkeypatch):
        """Nobody looks for later records of a key."""
        monkeypatch.setattr(Resends, "_superseded", lambda *_: set())
        assert "of the same key" in noticed()

    def test_what_may_be_written_counts_as_not_written(self, monkeypatch):
        """An in-flight record is sent again as if it had never left."""
        given_up = Judge._judge_given_up

        def wrong(self, refusal, known):
            judgement = given_up(self, refusal, known)
            error = self._errors.make(10, topic=known.place.topic)
            error._verdict = NOT_SENT
            return (
                Judgement(error, may_be_rescued=True, client_failed=True)
                if judgement.in_flight
                else judgement
            )

        monkeypatch.setattr(Judge, "_judge_given_up", wrong)
        assert noticed() is not None

    def test_a_refusal_after_a_lost_answer_counts_as_not_written(self, monkeypatch):
        """A batch that was written, and refused at the client's own retry, is rescued."""
        answered = Judge._judge_answer

        def wrong(self, refusal, known):
            return answered(self, replace(refusal, was_unanswered=False), known)

        monkeypatch.setattr(Judge, "_judge_answer", wrong)
        assert noticed() is not None

    def test_a_mate_is_to_blame(self, monkeypatch):
        """All of the batch is reported as refused, although some of it is sent again."""
        monkeypatch.setattr(InFlight, "take_resent", lambda *_: ())
        assert noticed() is not None

    def test_late_answers_are_not_counted(self, monkeypatch):
        """What was written after all is left without an outcome."""
        monkeypatch.setattr(DeliveryMachine, "_settle_written", lambda *_: None)
        assert "never told" in noticed()

    def test_sends_are_not_freed(self, monkeypatch):
        """A round that has ended keeps the sends."""
        monkeypatch.setattr(ResendQueue, "close", lambda _, topic: None)
        assert noticed() is not None

    def test_a_report_counts_twice(self, monkeypatch):
        """Records sent again are counted with their batch and once more."""
        delivered = Counters.count_delivered
        monkeypatch.setattr(
            Counters,
            "count_delivered",
            lambda self, n, topic: delivered(self, n + (n > 2), topic),
        )
        assert "in the report" in noticed()

    def test_time_is_not_kept(self, monkeypatch):
        """A stuck client is never given up."""
        monkeypatch.setattr(InFlight, "take_overdue", lambda *_: [])
        assert noticed() is not None

    def test_old_requests_are_not_locked_out(self, monkeypatch):
        """A successor takes an identity of its own."""
        monkeypatch.setattr(ClientLife, "keep_in_doubt", lambda *_: None)
        assert "of the same key" in noticed()

    def test_mates_are_not_sent_again(self, monkeypatch):
        """Records that are not to blame fail with the others."""
        monkeypatch.setattr(DeliveryMachine, "_is_rescued", lambda *_: False)
        assert "is good, and was told failed" in noticed()

    def test_the_policy_has_no_attempts(self, monkeypatch):
        """What was never sent fails with the client's time, whatever the policy."""
        monkeypatch.setattr(Attempts, "allows", lambda *_: False)
        assert "is good, and was told failed" in noticed()

    def test_nobody_ends_the_attempts(self, monkeypatch):
        """A record is sent again for ever: its time is over, and it is not told."""
        again = Step("again", wait=1.0)
        monkeypatch.setattr(Machine, "failed", lambda *_, **__: again)
        monkeypatch.setattr(Attempts, "_bounded", lambda *_: math.inf)
        assert "was told after" in noticed()

    def test_records_that_wait_for_a_successor_are_given_up(self, monkeypatch):
        """What waits is lost at the first failed attempt to build a client."""
        go_on = DeliveryMachine._continue

        def wrong(self, now):
            if self._client.state is ClientState.PAUSED:
                self._lose_waiting(now)
            return go_on(self, now)

        monkeypatch.setattr(DeliveryMachine, "_continue", wrong)
        assert "given up early" in noticed()

    def test_a_batch_takes_its_mates_along(self, monkeypatch):
        """The time of one record that was sent again ends newer ones of its batch."""
        judge = Judge.judge

        def wrong(self, refusal, known):
            return judge(self, refusal, replace(known, has_time=False))

        monkeypatch.setattr(Judge, "judge", wrong)
        assert "given up early" in noticed()

    def test_records_are_superseded_by_refused_ones(self, monkeypatch):
        """A newer record of the key that was refused counts as written."""
        monkeypatch.setattr(Batch, "may_hold", lambda self, _: self.ended != "split")
        assert "nothing newer of its key" in noticed()

    def test_a_record_is_sent_again_without_a_gap(self, monkeypatch):
        """A refused record that cannot be sent alone is sent in a hot loop."""
        monkeypatch.setattr("kafkaguard._delivery.outcomes.FIRST_GAP_S", 0.0)
        assert "was handed over" in noticed()

    def test_nothing_is_taken_back(self, monkeypatch):
        """What waits behind a record that is sent again overtakes it."""
        seeds = range(1_000)
        monkeypatch.setattr(DeliveryMachine, "_needs_take_back", lambda *_: False)
        overtaken = sum(play(seed)[1]["superseded"] for seed in seeds)
        monkeypatch.undo()
        assert overtaken > sum(play(seed)[1]["superseded"] for seed in seeds)

    def test_history_is_forgotten_too_early(self, monkeypatch):
        """What was accepted after a failed record is not remembered."""
        monkeypatch.setattr(Batch, "may_hold", lambda *_: False)
        assert "of the same key" in noticed()

    def test_halves_are_sent_in_the_wrong_order(self, monkeypatch):
        """The second half of a refused group goes first."""
        next_group = TopicRound.next_group
        monkeypatch.setattr(
            TopicRound, "next_group", lambda self: next_group(self)[::-1]
        )
        assert "of the same key" in noticed()


def test_every_transition_happens(monkeypatch):
    """The tables name nothing that cannot come."""
    missing = {table.name: set(table.transitions) for table in TABLES}
    for table in TABLES:
        monkeypatch.setattr(table, "after", noting(table, missing))
    for seed in range(ENOUGH):
        play(seed)
        if not any(missing.values()):
            break
    assert {"record": set(), "topic": set(), "client": set()} == missing


class TestTransactions:
    """The machine of transactions, in schedules of their own."""

    def test_nothing_that_must_hold_is_broken(self):
        """No reader sees a half, and nothing is told that is not true."""
        result = play_range(0, 3 * SCHEDULES, transactions=True)
        assert result.failures == {}
        assert {"committed", "aborted", "delivered", "in_doubt"} < set(result.outcomes)

    def test_a_schedule_that_found_a_fault_is_played_again(self):
        """Among 100,000, an abort without an answer denied an earlier commit."""
        assert play_transactions(13058)[0] == []

    def test_every_transition_happens(self, monkeypatch):
        """The table names nothing that cannot come."""
        missing = {"transaction": set(TRANSACTIONS.transitions)}
        monkeypatch.setattr(TRANSACTIONS, "after", noting(TRANSACTIONS, missing))
        for seed in range(ENOUGH):
            play_transactions(seed)
            if not missing["transaction"]:
                break
        assert missing == {"transaction": set()}

    @pytest.mark.parametrize("seed", [328833, 377729, 556755])
    def test_a_transaction_that_found_a_fault_is_played_again(self, seed):
        """A commit and an abort were interrupted, and then a new producer failed.

        What may be committed was told as not aborted.
        """
        assert play_transactions(seed)[0] == []

    def test_a_commit_without_a_failed_record_is_noticed(self, monkeypatch):
        """Its readers see a half."""
        monkeypatch.setattr(TransactionCalls, "_raise_failure", lambda *_: None)
        assert "half of it is seen" in self.noticed()

    def test_a_lost_commit_that_counts_as_not_carried_out_is_noticed(self, monkeypatch):
        """The application is told that nothing was committed."""
        judge = TransactionCalls._not_committed
        monkeypatch.setattr(
            TransactionCalls,
            "_not_committed",
            lambda self, answer, **more: judge(
                self, answer._replace(may_be_done=False), **more
            ),
        )
        assert "committed" in self.noticed()

    @pytest.mark.parametrize("ending", ["delivered", "aborted"])
    def test_records_that_are_counted_wrong_are_noticed(self, monkeypatch, ending):
        """All transactions count as committed, or as aborted."""
        ends = Transaction.ends
        monkeypatch.setattr(Transaction, "ends", lambda self, _: ends(self, ending))
        assert "counted as" in self.noticed()

    def test_a_call_that_never_ends_is_noticed(self, monkeypatch):
        """It makes step after step."""

        def abort(self, limit):
            while True:
                yield Move("abort", self._clock() + limit.seconds)

        monkeypatch.setattr(TransactionCalls, "abort", abort)
        assert self.noticed() is not None

    def noticed(self):
        """Return what the first schedule that goes wrong says."""
        for seed in range(ENOUGH):
            problems, _ = play_transactions(seed)
            if problems:
                return problems[0]
        return None


def noting(table, missing):
    """Wrap a look-up so that what was looked up is not missing any more."""
    after = table.after

    def look_up(state, event):
        missing[table.name].discard((state, event))
        return after(state, event)

    return look_up
