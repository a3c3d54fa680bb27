"""The state machine of a consumer that handles records. No I/O, clock or threads.

The driver reports facts with the time: partitions are assigned, records were read, a
worker has finished a chunk, a commit was answered. It executes the commands that
``take_commands`` returns, and its workers take their work with ``take``.

A record is read, runs with a worker, and is done; or its handler raises, and it waits
for its next attempt, or is set aside: done when its dead letter is confirmed. Outcomes
belong to the assignment in which the record was read (:class:`Slot`), because a broker
accepts a commit also for a partition that another member owns by now.

This file decides what each fact leads to. Its parts, each in a file of its own, share
the state of the :class:`Run`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from kafkaguard._processing.committing import LAST_COMMIT_S, Commits
from kafkaguard._processing.exceptions import BatchError
from kafkaguard._processing.intake import Intake
from kafkaguard._processing.judging import Decision, Judge
from kafkaguard._processing.lanes import Lanes
from kafkaguard._processing.outages import Outages
from kafkaguard._processing.partitions import Partitions
from kafkaguard._processing.report import Progress
from kafkaguard._processing.retries import Retries
from kafkaguard._processing.rounds import RoundState
from kafkaguard._processing.run import Run, RunEvent, RunState
from kafkaguard._processing.running import Running
from kafkaguard._processing.setting_aside import SettingAside
from kafkaguard._processing.work import WHOLE, BeginRound, End

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kafkaguard._cluster.reports import TopicPartition
    from kafkaguard._errors import KafkaGuardError
    from kafkaguard._processing.judging import Judgement
    from kafkaguard._processing.policy import Order, Policy
    from kafkaguard._processing.report import ProcessReport
    from kafkaguard._processing.rounds import Rounds
    from kafkaguard._processing.slots import Lane, Slot
    from kafkaguard._processing.work import Chunk, Command, SendLetter


class ProcessingMachine:
    """Decides about the records of one consumer.

    Args:
        policy: How to retry, what to do with rejected records, all bounds.
        order: Which records are handled one after the other.
        workers: How many chunks run at a time.
        batch: The most records of a batch; None: the handler gets single records.
        offset_of: Returns a record's offset.
        key_of: Returns a record's key as bytes; None: it has none.
        random: Returns random numbers from 0 to below 1.
        client: The client library.
        rounds: What is done in transactions: their bounds; None: nothing is.
        idle_timeout: After so many seconds without a record the run ends.
        until_end: Whether the run ends at the ends that ``ends`` reports.
        now: The time.

    Attributes:
        rounds: The rounds, or None.
        slots: The partitions that are assigned.
    """

    def __init__(  # noqa: PLR0913 - each is a choice of the caller
        self,
        policy: Policy,
        *,
        order: Order,
        workers: int,
        offset_of: Callable[[Any], int],
        key_of: Callable[[Any], bytes | None],
        random: Callable[[], float],
        client: str,
        batch: int | None = None,
        rounds: Rounds | None = None,
        idle_timeout: float | None = None,
        until_end: bool = False,
        now: float = 0.0,
    ) -> None:
        self._run = run = Run(
            policy,
            batch=batch,
            offset_of=offset_of,
            key_of=key_of,
            random=random,
            client=client,
            rounds=rounds,
        )
        self.rounds, self.slots = rounds, run.slots
        self._settings = policy.handler
        self._idle_timeout = idle_timeout
        self._until_end = until_end
        self._judge = Judge(policy, client)
        self._lanes = lanes = Lanes(run, order, workers)
        self._running = running = Running(run)
        self._intake = Intake(run)
        self._outages = outages = Outages(run, running)
        self._retries = Retries(run, lanes)
        self._aside = SettingAside(run)
        self._commits = commits = Commits(run, now)
        self._partitions = Partitions(run, running, lanes, outages, commits)
        self._error: BaseException | None = None
        self._until = math.inf
        self._busy_at = now
        self._polled_at = now

    @property
    def totals(self) -> Mapping[tuple[str, str], int]:
        """The counts by topic and name, which others read without the driver's lock."""
        return self._run.counts.totals

    @property
    def state(self) -> RunState:
        """Where the run stands."""
        return self._run.state

    @property
    def is_open(self) -> bool:
        """Whether the driver reads at full speed.

        If not, it reads one record now and then, so that the client stays a member of
        its group.
        """
        return self._intake.is_open

    @property
    def is_ended(self) -> bool:
        """Whether the run has ended."""
        return self._run.state is RunState.ENDED

    @property
    def has_nothing(self) -> bool:
        """Whether no record that was read is still to be done or committed."""
        is_open = self.rounds is not None and self.rounds.has_records
        return not is_open and not any(slot.records for slot in self.slots.values())

    # --- partitions -------------------------------------------------------------------

    def assigned(self, places: Iterable[TopicPartition], now: float) -> None:
        """Record new partitions; those that were assigned already are kept."""
        self._partitions.add(places)
        self._busy_at = now
        self._update_intake(now)

    def ends(self, ends: Mapping[TopicPartition, int]) -> None:
        """Record where to stop reading partitions."""
        for place, end in ends.items():
            if place in self.slots:
                self.slots[place].end = end

    def revoked(
        self, places: Iterable[TopicPartition], within: float, now: float
    ) -> None:
        """Record that partitions are revoked: what runs may end within seconds.

        The reply is :class:`GiveUp`, after the commit of what is done.
        """
        self._partitions.revoke(places, within, now)
        self.tick(now)

    def lost(self, places: Iterable[TopicPartition], now: float) -> None:
        """Record that others may own partitions by now: nothing is committed."""
        self._partitions.lose(places)
        self.tick(now)

    def rebalanced(self, now: float) -> None:
        """Record a new generation of a classic group: it ends the open round."""
        self._fail_round()
        self._go_on(now)

    # --- reading ----------------------------------------------------------------------

    def fetched(
        self, place: TopicPartition, records: Sequence[Any], now: float
    ) -> None:
        """Record records of a partition, in the order of their offsets."""
        slot = self.slots.get(place)
        if slot is None or not slot.is_open or not records:
            return
        offset_of = self._run.offset_of
        slot.next = offset_of(records[-1]) + 1
        if slot.end is not None and slot.next > slot.end:
            end = slot.next = slot.end
            records = [each for each in records if offset_of(each) < end]
        if records:
            self._partitions.count_redelivered(slot, records)
            slot.add(records, now)
            self._busy_at = now
            if self.rounds is None:
                self._lanes.fill(slot, len(slot.records))
        self._update_intake(now)
        if self.rounds is not None:
            self._work_rounds(self.rounds, now)

    def at_rest(self, positions: Mapping[Slot, int], now: float) -> None:
        """Record the client's positions after a poll that has returned nothing.

        They pass what is no record: markers, aborted and compacted records. Each is of
        an assignment: the next one of its partition begins at what was committed.
        """
        for slot, position in positions.items():
            if slot.next is None or position > slot.next:
                slot.next = position
        self.tick(now)

    def polled(self, now: float) -> None:
        """Record that the client was polled."""
        self._polled_at = now

    def _update_intake(self, now: float) -> None:
        self._intake.update(now, is_down=self._outages.is_down)

    # --- work -------------------------------------------------------------------------

    def take(self, now: float) -> Chunk | None:
        """Return work for a free worker; None: there is none now."""
        if self.state not in (RunState.RUNNING, RunState.ENDING):
            return None
        if self.rounds is not None and not self.rounds.is_taking:
            return None
        self._retries.free(now)
        if not self._outages.may_take(now):
            return None
        outage = self._outages.current
        chunk = self._lanes.take(now, only_one=outage is not None)
        if chunk is not None:
            self._running.add(chunk)
            if outage is not None:
                outage.probe = chunk
        return chunk

    def finished(
        self,
        chunk: Chunk,
        attempted: int,
        failures: Mapping[int, BaseException],
        now: float,
    ) -> None:
        """Record what a worker did with a chunk.

        Args:
            chunk: The chunk.
            attempted: How many of its records were handled, from the first one on.
            failures: The exceptions of some of them, by their index; that of a whole
                batch at the index ``WHOLE``.
            now: The time.
        """
        self._running.remove(chunk)
        self._busy_at = now
        slot = chunk.slot
        if attempted:
            self._lanes.learn((now - chunk.started) / attempted)
        if slot.is_gone:
            late = attempted - len(failures) - chunk.counted
            if late > 0 and WHOLE not in failures:
                self._run.counts.add(slot.place.topic, "late", late)
        else:
            self._settle(chunk, attempted, failures, now)
        self._go_on(now)

    def _settle(
        self,
        chunk: Chunk,
        attempted: int,
        failures: Mapping[int, BaseException],
        now: float,
    ) -> None:
        """Decide about the records of a chunk whose partition is still ours."""
        slot, seqs, lanes = chunk.slot, chunk.seqs, self._lanes
        whole, batch = failures.get(WHOLE), self._run.batch
        if whole is not None:
            failures, attempted = self._spread(slot, whole, seqs)
        elif batch is not None and seqs[-1] >= slot.split_end:
            slot.cap = batch
        done = seqs[chunk.counted : attempted]
        if failures:
            failed = {seqs[index] for index in failures}
            done = [seq for seq in done if seq not in failed]
        self._run.mark_done(slot, done)
        if attempted < len(seqs):
            lanes.put_back(chunk, seqs[attempted:])
        outage = self._outages.current
        tries = outage and outage.tries
        first = None
        for index in sorted(failures):
            lane = lanes.lane_of(chunk, seqs[index])
            if self._failed(slot, seqs[index], lane, failures[index], now):
                first = lane
        lanes.release(chunk, first=first)
        if self.rounds is None:
            slot.advance()
        if outage is not None and outage.probe is chunk:
            is_up = attempted > 0 and outage.tries == tries
            self._outages.probed(now, is_up=is_up)

    def _spread(
        self, slot: Slot, error: BaseException, seqs: Sequence[int]
    ) -> tuple[Mapping[int, BaseException], int]:
        """Return whose failure that of a batch is, and how many records it is about.

        If nobody knows, the batch is split: its records go back, and the next batch has
        half as many.
        """
        count = len(seqs)
        if isinstance(error, BatchError):
            if error.errors and all(0 <= index < count for index in error.errors):
                return error.errors, count
        elif count > 1:
            decision = self._judge.judge(error, slot.place.topic).decision
            if decision in (Decision.WAIT, Decision.END):
                return {0: error}, 1
        if count == 1:
            return {0: error}, 1
        slot.cap = max(1, count // 2)
        slot.split_end = max(slot.split_end, seqs[-1])
        return {}, 0

    # --- failures ---------------------------------------------------------------------

    def _failed(
        self, slot: Slot, seq: int, lane: Lane, error: BaseException, now: float
    ) -> bool:
        """Decide about a failure; return whether its record is the next one."""
        judgement = self._judge.judge(error, slot.place.topic)
        match judgement.decision:
            case Decision.DONE:
                self._run.mark_done(slot, [seq])
            case Decision.WAIT:
                self._lanes.put_back_failed(slot, lane, seq)
                self._fail_round()
                return self._outages.failed(slot, seq, error, judgement, now)
            case Decision.END:
                self._lanes.put_back_failed(slot, lane, seq)
                self._fail_run(slot, seq, error, now)
            case Decision.RETRY:
                if self._retries.plan(slot, seq, lane, error, judgement, now):
                    self._fail_round()
                else:
                    self._reject(slot, seq, lane, error, judgement, now)
            case Decision.REJECT:
                self._reject(slot, seq, lane, error, judgement, now)
        return False

    def _fail_round(self) -> None:
        if self.rounds is not None:
            self.rounds.fail()
            self._running.stop(self.slots.values())

    def _reject(
        self,
        slot: Slot,
        seq: int,
        lane: Lane,
        error: BaseException,
        judgement: Judgement,
        now: float,
    ) -> None:
        if not self._aside.reject(slot, seq, error, judgement, now):
            self._lanes.put_back_failed(slot, lane, seq)
            self._fail_run(slot, seq, error, now)

    def letter_sent(
        self, letter: SendLetter, error: KafkaGuardError | None, now: float
    ) -> None:
        """Record that a dead letter is confirmed, or that it has failed."""
        slot = letter.slot
        self._busy_at = now
        if slot.is_gone:
            self._go_on(now)
            return
        if not self._aside.letter_sent(letter, error, now):
            assert error is not None
            self._fail_run(slot, letter.seq, error, now)
        elif error is None and self.rounds is None:
            slot.advance()
        self.tick(now)

    def _fail_run(self, slot: Slot, seq: int, error: BaseException, now: float) -> None:
        """End the run with the exception of a record, and a note where it is."""
        attempts = slot.attempts(seq)
        offset = self._run.offset_of(slot.record(seq))
        note = (
            f"kafkaguard: handling {slot.place} at offset {offset:,} failed "
            f"({attempts} {'attempt' if attempts == 1 else 'attempts'}); it is not "
            "committed"
        )
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)
        self.fail(error, now)
        if slot.limit is not None:  # nothing beyond it can be committed
            slot.limit = min(slot.limit, seq - 1)

    # --- commits and rounds (exactly once) --------------------------------------------

    def committed(
        self,
        number: int,
        errors: Mapping[TopicPartition, KafkaGuardError],
        now: float,
    ) -> None:
        """Record the answer to a commit: the errors of the refused partitions."""
        fenced = self._commits.answered(number, errors, now)
        if fenced is not None:
            self.fail(fenced, now)
        self._go_on(now)

    def round_began(self, error: BaseException | None, now: float) -> None:
        """Record that the transaction has begun, or cannot begin."""
        assert self.rounds is not None
        if error is not None:
            self.rounds.cancel()
            self.fail(error, now)
        else:
            self.rounds.begun(now)
        self.tick(now)

    def round_ended(
        self, error: BaseException | None, now: float, *, is_committed: bool
    ) -> None:
        """Record how the transaction has ended.

        Args:
            error: Why this producer can make no other transaction; None: it can.
            now: The time.
            is_committed: Whether the transaction was committed. If not, it was aborted,
                and its records are handled again.
        """
        rounds = self.rounds
        assert rounds is not None
        for slot, position in rounds.ended(now, is_committed=is_committed):
            if slot.is_gone:
                continue
            if is_committed:
                slot.advance()
                slot.committed = position
                self._commits.count(slot, slot.passed)
            slot.rewind()
        self._run.counts.end_round(is_committed=is_committed)
        if error is not None:
            self.fail(error, now)
        self.tick(now)

    def may_send(self, chunk: Chunk) -> bool:
        """Return whether what a handler has sent belongs to the open transaction.

        No round ends while a worker has some of its records, except those of a
        partition that is gone, and at the end of the run.
        """
        rounds = self.rounds
        return (
            rounds is not None
            and rounds.state is RoundState.OPEN
            and not chunk.slot.is_gone
            and not self.is_ended
        )

    def _begin_round(self, rounds: Rounds, now: float) -> None:
        """Begin a round if there are records, or offsets at rest to commit."""
        plan, outage = [], self._outages.current
        slots = [slot for slot in self.slots.values() if slot.is_open]
        if self.state is RunState.RUNNING and (outage is None or now >= outage.due):
            plan = rounds.plan(slots, now, is_probe=outage is not None)
        if not plan and self._commits.is_due(now):
            plan = rounds.plan_rest(slots)
        for slot, until in plan:
            self._lanes.fill(slot, until)
        if plan:
            self._run.commands.append(BeginRound())

    def _work_rounds(self, rounds: Rounds, now: float) -> None:
        """Begin a round, or end the open one when its records are done."""
        if rounds.state is RoundState.NONE:
            self._begin_round(rounds, now)
        if rounds.state is not RoundState.OPEN:
            return
        if rounds.is_over(now) or self.state is not RunState.RUNNING:
            rounds.close()
            self._running.stop(self.slots.values())
        if any(slot.running or slot.letters for slot in rounds.slots):
            return
        command = rounds.end_command(self._run.offset_of)
        if command is not None:
            self._run.commands.append(command)

    # --- time and the end -------------------------------------------------------------

    def tick(self, now: float) -> None:
        """Do what is due."""
        if self.is_ended:
            return
        self._running.watch(now)
        self._aside.send_due(now)
        if self._run.is_running:
            commits = self._commits
            self._update_intake(now)
            if self.rounds is None and not commits.are_open and commits.is_due(now):
                commits.commit(self.slots.values())
            if self._is_over(now):
                self.stop(now)
        self._go_on(now)

    def _go_on(self, now: float) -> None:
        """Do what a fact may have made possible."""
        if self.rounds is not None:
            self._work_rounds(self.rounds, now)
        if self._partitions.is_draining:
            self._partitions.end_drains(now)
        match self.state:
            case RunState.RUNNING:
                if self._intake.may_open:
                    self._update_intake(now)
            case RunState.ENDING:
                self._drain(now)
            case RunState.COMMITTING:
                self._end_if_committed(now)

    def _end_if_committed(self, now: float) -> None:
        """End the run when the last commit is answered, or its time is over."""
        commits = self._commits
        if now < self._until:
            if commits.are_open:
                return
            if now >= commits.due:
                commits.due = math.inf
                commits.commit(self.slots.values())
                return
            if commits.due < math.inf:
                return
        self._run.happens(RunEvent.COMMITTED)
        self._partitions.end()
        self._run.commands.append(End(self._error))

    def _is_over(self, now: float) -> bool:
        """Return whether the run ends by itself: idle, or at the ends of the logs."""
        slots = self.slots.values()
        rounds = self.rounds
        if (
            not self.is_open
            or any(slot.undone for slot in slots)
            or (rounds is not None and rounds.has_records)
        ):
            self._busy_at = now
            return False
        if self._until_end and slots:
            return all(
                slot.end is not None
                and (slot.next if slot.next is not None else -1) >= slot.end
                for slot in slots
            )
        limit = self._idle_timeout
        return limit is not None and now - self._busy_at >= limit

    def stop(self, now: float) -> None:
        """End the run: what runs may end, what is done is committed."""
        if not self._run.is_running:
            return
        self._run.happens(RunEvent.STOP)
        self._until = now + self._settings.drain_timeout
        self._commits.due = now
        self._partitions.close(self.slots.values())
        self._update_intake(now)
        self.tick(now)

    def fail(self, error: BaseException, now: float) -> None:
        """End the run with an error; the first one counts."""
        if self._error is None:
            self._error = error
        self.stop(now)

    def _drain(self, now: float) -> None:
        """Go on to the last commit when nothing runs any more, or its time is over."""
        rounds, chunks = self.rounds, self._running.chunks
        is_busy = (
            bool(chunks)
            or any(slot.letters for slot in self.slots.values())
            or (
                any(slot.has_holes for slot in self.slots.values())
                if rounds is None  # an aborted round leaves nothing that may begin
                else rounds.state is not RoundState.NONE
            )
        )
        if is_busy and now < self._until:
            return
        for chunk in chunks:
            self._running.count_early(chunk)
            count = 1 if self._run.batch is None else len(chunk.seqs)
            self._run.counts.add(chunk.slot.place.topic, "abandoned", count)
        self._run.happens(RunEvent.DRAINED)
        self._until = now + LAST_COMMIT_S
        self._commits.due = math.inf
        if rounds is None:
            for slot in self.slots.values():
                slot.advance()
            self._commits.commit(self.slots.values())
        self._end_if_committed(now)

    def work_due(self) -> float:
        """Return when ``take`` may have work that it has not now."""
        return self._outages.due() if self._outages.is_down else self._retries.due

    def next_due(self) -> float:
        """Return when ``tick`` or ``take`` has something to do."""
        due = [self._until, self._commits.due, self.work_due()]
        due += self._partitions.due()
        due += self._aside.due()
        if self.rounds is not None:
            due.append(self.rounds.due)
            due += [
                retry.due
                for slot in self.slots.values()
                for retry in slot.retries.values()
            ]
        return min(due)

    # --- what others see --------------------------------------------------------------

    def take_commands(self) -> Sequence[Command]:
        """Remove and return the commands."""
        run = self._run
        if not run.commands:
            return ()
        taken, run.commands = run.commands, []
        return taken

    def report(self) -> ProcessReport:
        """Return the counts so far."""
        return self._run.counts.report()

    def progress(self, now: float) -> Progress:
        """Return how the run stands."""
        slots, chunks = self.slots.values(), self._running.chunks
        ages = [now - slot.reads[0][1] for slot in slots if slot.undone and slot.reads]
        return Progress(
            in_flight=self._intake.live(),
            running=sum(len(chunk.seqs) - chunk.at for chunk in chunks),
            waiting=sum(len(slot.retries) for slot in slots),
            parked=sum(slot.parked for slot in slots),
            oldest_age=max(ages, default=0.0),
            last_poll_age=now - self._polled_at,
            is_waiting=self._outages.is_down,
        )
