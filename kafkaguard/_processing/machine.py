"""The state machine of a consumer that handles records. No I/O, clock or threads.

The driver reports facts with the time: partitions are assigned, records were read, a
worker has finished a chunk, a commit was answered. It executes the commands that
``take_commands`` returns, and its workers take their work with ``take``.

A record is read, runs with a worker, and is done; or its handler raises, and it waits
for its next attempt, or is set aside: done when its dead letter is confirmed. Outcomes
belong to the assignment in which the record was read (:class:`Slot`), because a broker
accepts a commit also for a partition that another member owns by now.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import replace
from enum import StrEnum
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, Final

from kafkaguard._consuming.commits import CommitRun
from kafkaguard._delivery.letter_count import LetterCount
from kafkaguard._delivery.table import Table
from kafkaguard._errors.base import Action
from kafkaguard._processing.events import (
    DependencyEvent,
    HandlerFailedEvent,
    HandlerSlowEvent,
    RecordSetAsideEvent,
)
from kafkaguard._processing.exceptions import BatchError
from kafkaguard._processing.judging import Decision, Judge
from kafkaguard._processing.report import Counts, ProcessReport, Progress
from kafkaguard._processing.rounds import Rounds, RoundState
from kafkaguard._processing.slots import Lane, Retry, Slot, SlotEvent, SlotState, insert
from kafkaguard._processing.work import (
    WHOLE,
    BeginRound,
    Chunk,
    Command,
    Commit,
    End,
    GiveUp,
    Pause,
    Resume,
    SendLetter,
    Tell,
)
from kafkaguard._retries.backoff import draw_wait
from kafkaguard._retries.machine import CallContext, Machine

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from kafkaguard._cluster.reports import TopicPartition
    from kafkaguard._errors import KafkaGuardError
    from kafkaguard._processing.judging import Judgement
    from kafkaguard._processing.policy import Order, Policy

#: About how many seconds a chunk takes, and the most records in it.
CHUNK_S: Final = 0.01
MOST: Final = 500
#: After so many seconds a chunk ends at its next record, so that what is done counts.
LONGEST_CHUNK_S: Final = 0.1
#: How long reading stops before the partitions are paused: that drops fetched records.
PATIENCE_S: Final = 5.0
#: How long the last commit may take.
LAST_COMMIT_S: Final = 10.0
#: The weight of the last chunk in the average time of a record.
_WEIGHT: Final = 0.3


class RunState(StrEnum):
    """Where a run stands."""

    RUNNING = "RUNNING"
    ENDING = "ENDING"
    """Nothing new begins; what runs gets ``drain_timeout``."""
    COMMITTING = "COMMITTING"
    """The last commit has no answer yet."""
    ENDED = "ENDED"


class RunEvent(StrEnum):
    """What happens to a run."""

    STOP = "STOP"
    DRAINED = "DRAINED"
    COMMITTED = "COMMITTED"


RUNS: Final[Table[RunState, RunEvent]] = Table(
    "run",
    {
        (RunState.RUNNING, RunEvent.STOP): RunState.ENDING,
        (RunState.ENDING, RunEvent.DRAINED): RunState.COMMITTING,
        (RunState.COMMITTING, RunEvent.COMMITTED): RunState.ENDED,
    },
)


class _Drain:
    """Revoked partitions whose running records may end until a time."""

    def __init__(self, slots: list[Slot], until: float) -> None:
        self.slots = slots
        self.until = until


class _Outage:
    """A dependency is down.

    Attributes:
        since: When it was first down.
        tries: How often a record failed because of it.
        due: When the next record tries it.
        wait: The last wait.
        place: Where the first record stands: partition, offset, exception.
    """

    def __init__(self, since: float, place: tuple[TopicPartition, int, str]) -> None:
        self.since = since
        self.tries = 0
        self.due = since
        self.wait = 0.0
        self.place = place
        #: The chunk with the record that tries it now.
        self.probe: Chunk | None = None


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

    Attributes:
        is_open: Whether the driver reads at full speed; if not, one record now and
            then, so that the client stays a member of its group.
        is_ended: Whether the run has ended.
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
        self.policy = policy
        self._settings = policy.handler
        self._by_key = order == "key"
        self._is_ordered = order != "none"
        self._workers = workers
        self._batch = batch
        self._offset_of = offset_of
        self._key_of = key_of
        self._random = random
        self._client = client
        self._judge = Judge(policy, client)
        self._idle_timeout = idle_timeout
        self._until_end = until_end
        self.rounds = rounds
        self.state = RunState.RUNNING
        self.is_open = True
        self.slots: dict[TopicPartition, Slot] = {}
        self._turns: deque[Slot] = deque()
        self._running: set[Chunk] = set()
        self._retries: list[Retry] = []
        self._letters: list[SendLetter] = []
        self._letter_retries: dict[tuple[Slot, int], Machine] = {}
        self._letter_count = LetterCount()
        self._drains: list[_Drain] = []
        self._outage: _Outage | None = None
        self._commands: list[Command] = []
        self._counts = Counts(by_round=rounds is not None)
        #: Counts by topic and name, which others read without the driver's lock.
        self.totals = self._counts.totals
        self._handled: dict[TopicPartition, tuple[int, frozenset[int]]] = {}
        self._error: BaseException | None = None
        self._until = math.inf
        self._closed_since = math.inf
        self._has_paused = False
        self._busy_at = now
        self._polled_at = now
        self._record_s = 0.0
        self._commits: dict[int, dict[Slot, tuple[int, int]]] = {}
        self._commit_number = 0
        self._commit_due = now + self._settings.commit_interval
        self._commit_run: CommitRun | None = None

    @property
    def is_ended(self) -> bool:
        """Whether the run has ended."""
        return self.state is RunState.ENDED

    @property
    def has_nothing(self) -> bool:
        """Whether no record that was read is still to be done or committed."""
        is_open = self.rounds is not None and self.rounds.has_records
        return not is_open and not any(slot.records for slot in self.slots.values())

    # --- partitions -------------------------------------------------------------------

    def assigned(self, places: Iterable[TopicPartition], now: float) -> None:
        """Record new partitions; those that were assigned already are kept."""
        for place in places:
            if place not in self.slots:
                self.slots[place] = Slot(place, self._batch or MOST)
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
        slots = [self.slots[place] for place in places if place in self.slots]
        within = min(within, self._settings.drain_timeout)
        for slot in slots:
            slot.happens(SlotEvent.REVOKED)
        self._drains.append(_Drain(slots, now + max(0.0, within)))
        self._close(slots)
        if self.rounds is not None and self.rounds.involves(slots):
            self.rounds.fail()
        self.tick(now)

    def lost(self, places: Iterable[TopicPartition], now: float) -> None:
        """Record that others may own partitions by now: nothing is committed."""
        slots = [self.slots[place] for place in places if place in self.slots]
        self._stop_chunks(slots)
        if self.rounds is not None and self.rounds.involves(slots):
            self.rounds.fail()
        for slot in slots:
            self._drop(slot, SlotEvent.LOST)
        self.tick(now)

    def rebalanced(self, now: float) -> None:
        """Record a new generation of a classic group: it ends the open round."""
        self._fail_round()
        self._go_on(now)

    def _stop_chunks(self, slots: Collection[Slot]) -> None:
        for chunk in self._running:
            if chunk.slot in slots:
                chunk.stop()

    def _close(self, slots: Collection[Slot]) -> None:
        """Let nothing begin that what was begun does not need to be committed."""
        self._stop_chunks(slots)
        begun = dict.fromkeys(slots, -1)
        for chunk in self._running:
            if chunk.slot in begun:
                last = chunk.seqs[-1 if self._batch else chunk.at]
                begun[chunk.slot] = max(begun[chunk.slot], last)
        for slot, last in begun.items():
            slot.close(last)
            for lane in slot.lanes.values():
                self._make_ready(slot, lane)

    def _drop(self, slot: Slot, event: SlotEvent) -> None:
        slot.happens(event)
        self._handled[slot.place] = slot.handled(self._offset_of)
        del self.slots[slot.place]
        outage = self._outage
        if outage is not None and outage.probe and outage.probe.slot is slot:
            outage.probe = None

    def _end_drains(self, now: float) -> None:
        rounds = self.rounds
        for drain in list(self._drains):
            slots = [slot for slot in drain.slots if not slot.is_gone]
            is_busy = any(
                slot.running or slot.letters or slot.has_holes for slot in slots
            )
            if rounds is not None:
                is_busy = rounds.involves(slots)
            if is_busy and now < drain.until:
                continue
            self._drains.remove(drain)
            for chunk in self._running:
                if chunk.slot in slots:
                    self._count_early(chunk)
            for slot in slots:
                slot.advance()
            if rounds is None:
                self._commit(slots)
            else:
                rounds.leave(slots)
            for slot in slots:
                self._drop(slot, SlotEvent.GIVEN_UP)
            self._commands.append(GiveUp([slot.place for slot in drain.slots]))

    def _count_early(self, chunk: Chunk) -> None:
        """Count the records of a chunk that the worker is done with."""
        if self._batch is None and self.rounds is None and not chunk.slot.is_gone:
            count = chunk.at
            self._mark_done(chunk.slot, chunk.seqs[chunk.counted : count])
            chunk.counted = max(count, chunk.counted)

    # --- reading ----------------------------------------------------------------------

    def fetched(
        self, place: TopicPartition, records: Sequence[Any], now: float
    ) -> None:
        """Record records of a partition, in the order of their offsets."""
        slot = self.slots.get(place)
        if slot is None or not slot.is_open or not records:
            return
        offset_of = self._offset_of
        slot.next = offset_of(records[-1]) + 1
        if slot.end is not None and slot.next > slot.end:
            end = slot.next = slot.end
            records = [each for each in records if offset_of(each) < end]
        if records:
            before = self._handled.get(place)
            if before is not None:
                self._count_redelivered(slot, records, before)
            slot.records += records
            slot.done += bytes(len(records))
            slot.undone += len(records)
            slot.reads.append((slot.base + len(slot.records), now))
            self._busy_at = now
            if self.rounds is None:
                self._fill(slot, len(slot.records))
        self._update_intake(now)
        if self.rounds is not None:
            self._work_rounds(self.rounds, now)

    def _count_redelivered(
        self, slot: Slot, records: Sequence[Any], before: tuple[int, frozenset[int]]
    ) -> None:
        end, beyond = before
        last = self._offset_of(records[-1])
        if last >= end and not any(offset > last for offset in beyond):
            del self._handled[slot.place]
        count = sum(
            offset < end or offset in beyond for offset in map(self._offset_of, records)
        )
        if count:
            self._counts.add(slot.place.topic, "redelivered", count)

    def _fill(self, slot: Slot, until: int) -> None:
        """Put records into lanes, up to an index in the slot."""
        begin, slot.filled = slot.filled, until
        first, last = slot.base + begin, slot.base + until
        if self._by_key:
            self._fill_by_key(slot, range(first, last), slot.records[begin:until])
            return
        lane = slot.lanes.get(None)
        if lane is None:
            lane = slot.lanes[None] = Lane(None)
        lane.queue += range(first, last)
        if lane.waiting and self._is_ordered:
            slot.parked += last - first
        self._make_ready(slot, lane)

    def _fill_by_key(self, slot: Slot, seqs: range, records: list[Any]) -> None:
        if len(slot.lanes) > self._settings.max_in_flight:
            slot.forget_lanes()
        lanes, ready, key_of = slot.lanes, slot.ready, self._key_of
        for seq, record in zip(seqs, records, strict=True):
            key: Any = key_of(record)
            lane = lanes.get(key)
            if lane is None:
                if key is None:  # it has no order
                    key = seq
                lane = lanes[key] = Lane(key)
            lane.queue.append(seq)
            if not lane.is_ready:
                if lane.waiting:
                    slot.parked += 1
                elif not lane.is_busy:
                    lane.is_ready = True
                    ready.append(lane)
        if ready and not slot.is_in_turn:
            slot.is_in_turn = True
            self._turns.append(slot)

    def _make_ready(self, slot: Slot, lane: Lane) -> None:
        """Let workers take from a lane if it has something and waits for nothing."""
        if (
            lane.is_ready
            or not lane.queue
            or (self._is_ordered and (lane.is_busy or lane.waiting))
        ):
            return
        lane.is_ready = True
        slot.ready.append(lane)
        if not slot.is_in_turn:
            slot.is_in_turn = True
            self._turns.append(slot)

    def at_rest(self, positions: Mapping[TopicPartition, int], now: float) -> None:
        """Record the client's positions after a poll that has returned nothing.

        They pass what is no record: markers, aborted and compacted records.
        """
        for place, position in positions.items():
            slot = self.slots.get(place)
            if slot is not None and (slot.next is None or position > slot.next):
                slot.next = position
        self.tick(now)

    def polled(self, now: float) -> None:
        """Record that the client was polled."""
        self._polled_at = now

    def _live(self) -> int:
        """Return how many records are in memory, not done and not parked."""
        return sum(slot.undone - slot.parked for slot in self.slots.values())

    def _update_intake(self, now: float) -> None:
        """Stop or start reading; pause what has too much behind a waiting record."""
        most = self._settings.max_in_flight
        live = excess = 0
        for slot in self.slots.values():
            beyond = slot.parked - slot.undone
            live -= beyond
            excess += len(slot.records) + beyond
        # Without a record there is nothing to try a dependency with.
        is_down = self._outage is not None and (live or excess)
        is_open = (
            self.state is RunState.RUNNING
            and not is_down
            and (live < most if self.is_open else live <= most // 2)
        )
        if is_open != self.is_open:
            self.is_open = is_open
            self._closed_since = math.inf if is_open else now
        pauses_all = not is_open and (
            now - self._closed_since >= PATIENCE_S or self.state is not RunState.RUNNING
        )
        if pauses_all or self._has_paused or excess >= most:
            self._update_pauses(most, excess, pauses_all=pauses_all)

    def _update_pauses(self, most: int, excess: int, *, pauses_all: bool) -> None:
        slots = [slot for slot in self.slots.values() if slot.is_open]
        share = max(1, most // max(1, len(slots)))
        paused: list[TopicPartition] = []
        resumed: list[TopicPartition] = []
        self._has_paused = False
        for slot in slots:
            is_paused = slot.state is SlotState.PAUSED
            if pauses_all:
                must = True
            elif is_paused:
                must = excess * 2 > most and slot.excess * 2 > share
            else:
                must = excess >= most and slot.excess >= share
            self._has_paused |= must
            if must != is_paused:
                slot.happens(SlotEvent.PAUSE if must else SlotEvent.RESUME)
                (paused if must else resumed).append(slot.place)
        if paused:
            self._commands.append(Pause(paused))
        if resumed:
            self._commands.append(Resume(resumed))

    # --- work -------------------------------------------------------------------------

    def take(self, now: float) -> Chunk | None:
        """Return work for a free worker; None: there is none now."""
        if self.state not in (RunState.RUNNING, RunState.ENDING):
            return None
        if self.rounds is not None and not self.rounds.is_taking:
            return None
        self._free_retries(now)
        outage = self._outage
        if outage is not None and (outage.probe is not None or now < outage.due):
            return None
        turns = self._turns
        while turns:
            slot = turns.popleft()
            slot.is_in_turn = False
            if slot.is_gone or not slot.ready:
                continue
            size = 1 if outage is not None else self._size(slot)
            chunk = self._take_from(slot, size, now)
            if slot.ready:
                slot.is_in_turn = True
                turns.append(slot)
            if chunk is not None:
                if outage is not None:
                    outage.probe = chunk
                return chunk
        return None

    def _size(self, slot: Slot) -> int:
        """Return how many records a chunk has: what takes about ``CHUNK_S``."""
        if self._batch is not None:
            return slot.cap
        size = MOST
        if self._record_s * MOST > CHUNK_S:
            size = max(1, int(CHUNK_S / self._record_s))
        if self._workers > 1:
            size = min(size, 1 + slot.undone // self._workers)
        return size

    def _take_from(self, slot: Slot, size: int, now: float) -> Chunk | None:
        if slot.limit is not None:
            self._drop_beyond(slot, slot.limit)
            if not slot.ready:
                return None
            size = 1
        ready = slot.ready
        lane = ready.popleft()
        lane.is_ready = False
        seqs = lane.queue[:size]
        del lane.queue[:size]
        lanes = [lane]
        if not self._is_ordered:
            self._make_ready(slot, lane)
        elif self._by_key:
            lane.is_busy = True
            while ready and len(seqs) < size:
                lane = ready.popleft()
                lane.is_ready = False
                lane.is_busy = True
                room = size - len(seqs)
                seqs += lane.queue[:room]
                del lane.queue[:room]
                lanes.append(lane)
            if len(lanes) > 1:
                seqs.sort()
        else:
            lane.is_busy = True
        chunk = Chunk(slot, seqs, slot.take(seqs), lanes, now)
        slot.running += 1
        self._running.add(chunk)
        return chunk

    def _drop_beyond(self, slot: Slot, limit: int) -> None:
        """Leave out the lanes whose next record may not begin."""
        for lane in slot.ready:
            lane.is_ready = False
        slot.ready = deque(lane for lane in slot.ready if lane.queue[0] <= limit)
        for lane in slot.ready:
            lane.is_ready = True

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
        self._running.discard(chunk)
        self._busy_at = now
        slot = chunk.slot
        slot.running -= 1
        if attempted:
            cost = (now - chunk.started) / attempted
            self._record_s += (cost - self._record_s) * _WEIGHT
        if slot.is_gone:
            late = attempted - len(failures) - chunk.counted
            if late > 0 and WHOLE not in failures:
                self._counts.add(slot.place.topic, "late", late)
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
        slot, seqs, lanes = chunk.slot, chunk.seqs, chunk.lanes
        whole = failures.get(WHOLE)
        if whole is not None:
            failures, attempted = self._spread(slot, whole, seqs)
        elif self._batch is not None and seqs[-1] >= slot.split_end:
            slot.cap = self._batch
        done = seqs[chunk.counted : attempted]
        if failures:
            failed = {seqs[index] for index in failures}
            done = [seq for seq in done if seq not in failed]
        self._mark_done(slot, done)
        if attempted < len(seqs):
            self._put_back(slot, lanes, seqs[attempted:])
        outage, tries = self._outage, self._outage and self._outage.tries
        for index in sorted(failures):
            lane = self._lane_of(slot, lanes, seqs[index])
            self._failed(slot, seqs[index], lane, failures[index], now)
        self._release(slot, lanes)
        if self.rounds is None:
            slot.advance()
        if outage is not None and outage.probe is chunk:
            outage.probe = None
            if attempted and outage.tries == tries:
                self._end_outage(now)

    def _mark_done(self, slot: Slot, seqs: Sequence[int]) -> None:
        if seqs:
            slot.mark(seqs)
            self._letter_count.count_delivered(len(seqs))
            self._counts.add(slot.place.topic, "processed", len(seqs))

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

    def _lane_of(self, slot: Slot, lanes: list[Lane], seq: int) -> Lane:
        if len(lanes) == 1:
            return lanes[0]
        key = self._key_of(slot.record(seq))
        return slot.lanes[seq if key is None else key]

    def _put_back(self, slot: Slot, lanes: list[Lane], seqs: Sequence[int]) -> None:
        if len(lanes) == 1:
            insert(lanes[0].queue, seqs)
            return
        for seq in seqs:
            insert(self._lane_of(slot, lanes, seq).queue, [seq])

    def _release(self, slot: Slot, lanes: list[Lane]) -> None:
        """Free lanes that a worker had."""
        for lane in lanes:
            lane.is_busy = False
            if lane.queue:
                self._make_ready(slot, lane)

    # --- failures ---------------------------------------------------------------------

    def _failed(
        self, slot: Slot, seq: int, lane: Lane, error: BaseException, now: float
    ) -> None:
        judgement = self._judge.judge(error, slot.place.topic)
        match judgement.decision:
            case Decision.DONE:
                self._mark_done(slot, [seq])
                return
            case Decision.WAIT:
                self._put_back_failed(slot, lane, seq)
                self._wait_for_dependency(slot, seq, error, judgement, now)
                self._fail_round()
            case Decision.END:
                self._put_back_failed(slot, lane, seq)
                self._fail_run(slot, seq, error, now)
            case Decision.RETRY:
                self._retry(slot, seq, lane, error, judgement, now)
            case Decision.REJECT:
                self._reject(slot, seq, lane, error, judgement, now)

    def _fail_round(self) -> None:
        if self.rounds is not None:
            self.rounds.fail()
            self._stop_chunks(self.slots.values())

    def _put_back_failed(self, slot: Slot, lane: Lane, seq: int) -> None:
        insert(lane.queue, [seq])
        if lane.waiting and self._is_ordered:
            slot.parked += 1

    def _retry(
        self,
        slot: Slot,
        seq: int,
        lane: Lane,
        error: BaseException,
        judgement: Judgement,
        now: float,
    ) -> None:
        retry = slot.retries.get(seq)
        if retry is None:
            machine = Machine(now, self._random, repeatable=True)
            retry = slot.retries[seq] = Retry(slot, seq, lane, machine)
        retry.error, retry.lane = error, lane
        step = retry.machine.failed(judgement.verdict, judgement.ruling, now)
        if step.kind != "again":
            self._reject(slot, seq, lane, error, judgement, now)
            return
        retry.due = now + step.wait
        if self.rounds is None:
            retry.is_waiting = True
            if self._is_ordered:
                if not lane.waiting:
                    slot.parked += len(lane.queue)
                lane.waiting += 1
            heappush(self._retries, retry)
        else:
            self._fail_round()
        self._counts.add(slot.place.topic, "retried")
        event = HandlerFailedEvent(
            **self._about(slot, seq, error, retry.machine.attempts), wait=step.wait
        )
        self._commands.append(Tell(event))

    def _free_retries(self, now: float) -> None:
        """Put records whose time has come back into their lanes."""
        while self._retries and self._retries[0].due <= now:
            retry = heappop(self._retries)
            slot, lane = retry.slot, retry.lane
            if not (slot.is_open and retry.is_waiting):
                continue
            retry.is_waiting = False
            if self._is_ordered:
                lane.waiting -= 1
                if not lane.waiting:
                    slot.parked -= len(lane.queue)
            insert(lane.queue, [retry.seq])
            if lane.waiting and self._is_ordered:
                slot.parked += 1
            self._make_ready(slot, lane)

    def _reject(
        self,
        slot: Slot,
        seq: int,
        lane: Lane,
        error: BaseException,
        judgement: Judgement,
        now: float,
    ) -> None:
        """Set a record aside, or end the run, as ``on_reject`` says."""
        way = judgement.ruling.on_reject
        attempts = self._attempts(slot, seq)
        topic = slot.place.topic
        if way == "dead_letter":
            limit = self.policy.dead_letter.limit
            beyond = self._letter_count.count_letter(limit)
            if beyond is not None:
                error.add_note(f"kafkaguard: {beyond}")
                way = "raise"
        about = self._about(slot, seq, error, attempts)
        letter_topic = self.policy.dead_letter.topic_for(topic)
        event = RecordSetAsideEvent(
            **about,
            on_reject=way,
            dead_letter_topic=letter_topic if way == "dead_letter" else None,
        )
        if way == "raise":
            self._put_back_failed(slot, lane, seq)
            self._commands.append(Tell(event))
            self._fail_run(slot, seq, error, now, attempts)
        elif way == "drop":
            slot.mark([seq])
            self._letter_count.count_other()
            self._counts.add(topic, "dropped")
            self._commands.append(Tell(event))
        else:
            slot.letters += 1
            record = slot.record(seq)
            letter = SendLetter(slot, seq, record, error, attempts, letter_topic, now)
            self._commands += [Tell(event), letter]

    def letter_sent(
        self, letter: SendLetter, error: KafkaGuardError | None, now: float
    ) -> None:
        """Record that a dead letter is confirmed, or that it has failed."""
        slot = letter.slot
        self._busy_at = now
        if slot.is_gone:
            slot.letters -= 1
            self._go_on(now)
            return
        key = (slot, letter.seq)
        if error is None:
            self._letter_retries.pop(key, None)
            slot.letters -= 1
            slot.mark([letter.seq])
            self._counts.add(slot.place.topic, "dead_lettered")
            if self.rounds is None:
                slot.advance()
        else:
            context = CallContext(topic=letter.topic, client=self._client)
            ruling = self.policy.ruling(error.verdict, context, error)
            machine = self._letter_retries.setdefault(key, Machine(now, self._random))
            step = machine.failed(error.verdict, ruling, now)
            if step.kind == "again" and self.state is RunState.RUNNING:
                self._letters.append(replace(letter, due=now + step.wait))
            else:
                self._letter_count.undo_letter()
                self._letter_retries.pop(key, None)
                slot.letters -= 1
                self._fail_run(slot, letter.seq, error, now, letter.attempts)
        self.tick(now)

    def _fail_run(
        self,
        slot: Slot,
        seq: int,
        error: BaseException,
        now: float,
        attempts: int | None = None,
    ) -> None:
        """End the run with the exception of a record, and a note where it is."""
        attempts = self._attempts(slot, seq) if attempts is None else attempts
        offset = self._offset_of(slot.record(seq))
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

    def _attempts(self, slot: Slot, seq: int) -> int:
        """Return how often a record whose handler has raised was handled."""
        retry = slot.retries.get(seq)
        return 1 if retry is None else max(1, retry.machine.attempts)

    # --- a dependency that is down ----------------------------------------------------

    def _wait_for_dependency(
        self,
        slot: Slot,
        seq: int,
        error: BaseException,
        judgement: Judgement,
        now: float,
    ) -> None:
        outage = self._outage
        if outage is None:
            place = slot.place, self._offset_of(slot.record(seq)), _name(error)
            outage = self._outage = _Outage(now, place)
            self._tell_dependency("down", now)
            self._stop_chunks(self.slots.values())
        elif outage.tries and now < outage.due:
            return  # it began before the first failure
        outage.tries += 1
        wait = judgement.after
        if wait is None:
            backoff = judgement.ruling.backoff
            wait = draw_wait(backoff, outage.tries, outage.wait, self._random)
        outage.wait = max(0.0, wait)
        outage.due = now + outage.wait

    def _end_outage(self, now: float) -> None:
        self._tell_dependency("back", now)
        self._outage = None

    def _tell_dependency(self, state: Any, now: float) -> None:
        outage = self._outage
        assert outage is not None
        place, offset, error = outage.place
        event = DependencyEvent(
            **self._event(place, offset, error, 0),
            state=state,
            waited=now - outage.since,
        )
        self._commands.append(Tell(event))

    # --- commits ----------------------------------------------------------------------

    def _commit(self, slots: Iterable[Slot]) -> None:
        """Commit what is done of some partitions, unless it is committed."""
        offsets, kept = {}, {}
        for slot in slots:
            position = slot.position(self._offset_of)
            if position is not None and position != slot.committed:
                offsets[slot.place] = position
                kept[slot] = position, slot.passed
        if offsets:
            self._commit_number += 1
            self._commits[self._commit_number] = kept
            self._commands.append(Commit(self._commit_number, offsets))

    def committed(
        self,
        number: int,
        errors: Mapping[TopicPartition, KafkaGuardError],
        now: float,
    ) -> None:
        """Record the answer to a commit: the errors of the refused partitions."""
        kept = self._commits.pop(number)
        for slot, (position, passed) in kept.items():
            if slot.place not in errors:
                slot.committed = position
                self._count_committed(slot, passed)
        run = self._commit_run or CommitRun(
            self.policy,
            self._random,
            [slot.place for slot in kept],
            now + max(self._settings.commit_interval, LAST_COMMIT_S),
            client=self._client,
        )
        again = run.answered(errors, self.slots, now)
        self._commit_run = None if again is None else run
        if again is not None:
            self._commit_due = now + again.wait
        else:
            event = run.event()
            if event is not None:
                self._commands.append(Tell(event))
                if event.action is Action.FENCED:
                    self.fail(event.error, now)
        self._go_on(now)

    def _count_committed(self, slot: Slot, passed: int) -> None:
        if passed > slot.counted:
            count, slot.counted = passed - slot.counted, passed
            self._counts.add(slot.place.topic, "committed", count)

    # --- rounds (exactly once) --------------------------------------------------------

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
                self._count_committed(slot, slot.passed)
            slot.rewind()
        self._counts.end_round(is_committed=is_committed)
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
        plan, outage = [], self._outage
        slots = [slot for slot in self.slots.values() if slot.is_open]
        if self.state is RunState.RUNNING and (outage is None or now >= outage.due):
            plan = rounds.plan(slots, now, is_probe=outage is not None)
        if not plan and now >= self._commit_due:
            self._commit_due = now + self._settings.commit_interval
            plan = rounds.plan_rest(slots)
        for slot, until in plan:
            self._fill(slot, until)
        if plan:
            self._commands.append(BeginRound())

    def _work_rounds(self, rounds: Rounds, now: float) -> None:
        """Begin a round, or end the open one when its records are done."""
        if rounds.state is RoundState.NONE:
            self._begin_round(rounds, now)
        if rounds.state is not RoundState.OPEN:
            return
        if rounds.is_over(now) or self.state is not RunState.RUNNING:
            rounds.close()
            self._stop_chunks(self.slots.values())
        if any(slot.running or slot.letters for slot in rounds.slots):
            return
        command = rounds.end_command(self._offset_of)
        if command is not None:
            self._commands.append(command)

    # --- time and the end -------------------------------------------------------------

    def tick(self, now: float) -> None:
        """Do what is due."""
        if self.is_ended:
            return
        self._watch_chunks(now)
        if self._letters:
            self._commands += [
                each
                for each in self._letters
                if each.due <= now and not each.slot.is_gone
            ]
            self._letters = [each for each in self._letters if each.due > now]
        if self.state is RunState.RUNNING:
            self._update_intake(now)
            if self.rounds is None and now >= self._commit_due and not self._commits:
                self._commit_due = now + self._settings.commit_interval
                self._commit(self.slots.values())
            if self._is_over(now):
                self.stop(now)
        self._go_on(now)

    def _go_on(self, now: float) -> None:
        """Do what a fact may have made possible."""
        if self.rounds is not None:
            self._work_rounds(self.rounds, now)
        if self._drains:
            self._end_drains(now)
        match self.state:
            case RunState.RUNNING:
                if self._has_paused or not self.is_open:
                    self._update_intake(now)
            case RunState.ENDING:
                self._drain(now)
            case RunState.COMMITTING:
                self._end_if_committed(now)

    def _end_if_committed(self, now: float) -> None:
        """End the run when the last commit is answered, or its time is over."""
        if now < self._until:
            if self._commits:
                return
            if now >= self._commit_due:
                self._commit_due = math.inf
                self._commit(self.slots.values())
                return
            if self._commit_due < math.inf:
                return
        self.state = RUNS.after(self.state, RunEvent.COMMITTED)
        for drain in self._drains:
            self._commands.append(GiveUp([slot.place for slot in drain.slots]))
        self._drains.clear()
        self._commands.append(End(self._error))

    def _watch_chunks(self, now: float) -> None:
        limit = self._settings.timeout
        for chunk in self._running:
            at = chunk.at
            if at != chunk.seen_at:
                chunk.seen_at, chunk.since = at, now
                chunk.is_told = False
            if now - chunk.started > LONGEST_CHUNK_S:
                if not chunk.stops:
                    chunk.stop()
                self._count_early(chunk)  # its handler may hang: what is done counts
                if self.rounds is None and not chunk.slot.is_gone:
                    chunk.slot.advance()
            running = now - chunk.since
            if limit is not None and running > limit and not chunk.is_told:
                chunk.is_told = True
                slot, seq = chunk.slot, chunk.seqs[chunk.at]
                if not slot.is_gone:
                    about = self._about(slot, seq, None, self._attempts(slot, seq))
                    event = HandlerSlowEvent(**about, running=running)
                    self._commands.append(Tell(event))

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
        if self.state is not RunState.RUNNING:
            return
        self.state = RUNS.after(self.state, RunEvent.STOP)
        self._until = now + self._settings.drain_timeout
        self._commit_due = now
        self._close(self.slots.values())
        self._update_intake(now)
        self.tick(now)

    def fail(self, error: BaseException, now: float) -> None:
        """End the run with an error; the first one counts."""
        if self._error is None:
            self._error = error
        self.stop(now)

    def _drain(self, now: float) -> None:
        """Go on to the last commit when nothing runs any more, or its time is over."""
        rounds = self.rounds
        is_busy = (
            bool(self._running)
            or any(slot.letters or slot.has_holes for slot in self.slots.values())
            or (rounds is not None and rounds.state is not RoundState.NONE)
        )
        if is_busy and now < self._until:
            return
        for chunk in self._running:
            self._count_early(chunk)
            count = 1 if self._batch is None else len(chunk.seqs)
            self._counts.add(chunk.slot.place.topic, "abandoned", count)
        self.state = RUNS.after(self.state, RunEvent.DRAINED)
        self._until = now + LAST_COMMIT_S
        self._commit_due = math.inf
        if rounds is None:
            for slot in self.slots.values():
                slot.advance()
            self._commit(self.slots.values())
        self._end_if_committed(now)

    def work_due(self) -> float:
        """Return when ``take`` may have work that it has not now."""
        if self._outage is not None:
            return math.inf if self._outage.probe is not None else self._outage.due
        return self._retries[0].due if self._retries else math.inf

    def next_due(self) -> float:
        """Return when ``tick`` or ``take`` has something to do."""
        due = [self._until, self._commit_due, self.work_due()]
        due += [drain.until for drain in self._drains]
        due += [letter.due for letter in self._letters]
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
        if not self._commands:
            return ()
        taken, self._commands = self._commands, []
        return taken

    def report(self) -> ProcessReport:
        """Return the counts so far."""
        return self._counts.report()

    def progress(self, now: float) -> Progress:
        """Return how the run stands."""
        slots = self.slots.values()
        ages = [now - slot.reads[0][1] for slot in slots if slot.undone and slot.reads]
        return Progress(
            in_flight=self._live(),
            running=sum(len(chunk.seqs) - chunk.at for chunk in self._running),
            waiting=sum(len(slot.retries) for slot in slots),
            parked=sum(slot.parked for slot in slots),
            oldest_age=max(ages, default=0.0),
            last_poll_age=now - self._polled_at,
            is_waiting=self._outage is not None,
        )

    def _about(
        self, slot: Slot, seq: int, error: BaseException | None, attempts: int
    ) -> dict[str, Any]:
        offset = self._offset_of(slot.record(seq))
        name = "" if error is None else _name(error)
        return self._event(slot.place, offset, name, attempts)

    def _event(
        self, place: TopicPartition, offset: int, error: str, attempts: int
    ) -> dict[str, Any]:
        return {
            "policy": self.policy.name,
            "policy_id": self.policy.policy_id,
            "context": CallContext(topic=place.topic, client=self._client),
            "topic": place.topic,
            "partition": place.partition,
            "offset": offset,
            "attempts": attempts,
            "error": error,
        }


def _name(error: BaseException) -> str:
    return type(error).__qualname__
