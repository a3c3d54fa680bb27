"""``replay``: dead letters go back to their topics, each once.

A transaction has the records that are sent, the letters that are left (they are
appended to the dead-letter topic again), and the new position of the replay's group. So
whatever is killed, the position says what remains.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer, TopicPartition

from kafkaguard._cluster.reports import make
from kafkaguard._delivery.dead_letters import ATTEMPTS, Reason
from kafkaguard._errors import KafkaGuardError
from kafkaguard._errors.base import Action
from kafkaguard._retries.backoff import draw_wait
from kafkaguard._verdicts.classification import classify
from kafkaguard_adapters.asking.cluster_calls import ClusterCalls
from kafkaguard_adapters.asking.cluster_view import ClusterView
from kafkaguard_adapters.asking.topic_settings import ask
from kafkaguard_adapters.confluent.settings import read_settings
from kafkaguard_adapters.guard import guard
from kafkaguard_adapters.replay.letters import (
    TRANSACTION,
    DeadLetter,
    Entry,
    Place,
    Selection,
    interleave,
    make_entry,
    read_letter,
    split_into_transactions,
)
from kafkaguard_adapters.replay.planning import (
    Target,
    describe_readers,
    describe_topic,
    look_at_target,
    why_left,
)
from kafkaguard_adapters.replay.reading import ID, LOOK_S, LetterReader, Returns
from kafkaguard_adapters.replay.report import (
    FIX_FAILED,
    NOT_SELECTED,
    ReplayPlan,
    ReplayReport,
)
from kafkaguard_adapters.wire.io_thread import run as run_in_loop

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from confluent_kafka import Message

    from kafkaguard._retries.events import Event
    from kafkaguard_policies.retry_policy import RetryPolicy

#: Seconds between two looks at a group that is watched.
_GLANCE_S = 1.0
#: PRODUCER_FENCED.
_FENCED = 90
#: The error of a record whose batch was refused for another one.
_MATE = "BATCH_MATE_REFUSED"
#: What is never taken, and what another attempt cannot change.
_FINAL = (Action.REJECT, Action.CONFIGURE)
_ENDED = (Action.FENCED, Action.CONFIGURE)


class Replay:
    """A replay of one dead-letter topic.

    Args:
        topic: The dead-letter topic.
        config: confluent-kafka's settings of the connection.
        policy: How hard a transaction is tried.
        to: The topic of all records. Default: that of each letter.
        selection: The letters that it takes.
        fix: Changes a letter; returns None to drop it, or raises to leave it.
        rate: The most letters a second. Default: no limit.
        tell: Called with a line of text about the progress.
        on_event: Called with each event of the producer.

    Attributes:
        plan: What would be sent.
        report: What was sent.
    """

    def __init__(  # noqa: PLR0913 - one for each wish
        self,
        topic: str,
        config: Mapping[str, Any],
        policy: RetryPolicy,
        *,
        to: str | None = None,
        selection: Selection | None = None,
        fix: Callable[[DeadLetter], DeadLetter | None] | None = None,
        rate: float | None = None,
        tell: Callable[[str], object] = lambda _: None,
        on_event: Callable[[Event], object] | None = None,
    ) -> None:
        self._topic = topic
        self._config = dict(config)
        self._policy = policy
        self._to = to
        self._selection = selection or Selection()
        self._fix = fix
        self._rate = rate
        self._tell = tell
        self._on_event = on_event
        settings = read_settings(self._config, make)
        self._calls = ClusterCalls()
        self._calls.cluster_view = ClusterView(lambda: settings, make)
        self._reader = LetterReader(self._config, topic)
        self._producer: Any = None
        self._targets: dict[str, Target] = {}
        self._entries: list[Entry] = []
        #: Letters that their topic has refused, and what became of those under way.
        self._refused: dict[Place, str] = {}
        self._outcomes: list[tuple[str, str]] = []
        #: Where letters were appended again, and where the canary's records are.
        self._own: set[Place] = set()
        self._sent_to: dict[tuple[str, int], int] = {}
        self._returns: Returns | None = None
        #: The position that the last own transaction has committed.
        self._position: dict[int, int] = {}
        self.plan = ReplayPlan(topic, ID + topic)
        self.report = ReplayReport(self.plan)

    # --- the plan ---------------------------------------------------------------------

    def look(self) -> ReplayPlan:
        """Read the letters, and say what would be sent.

        Raises:
            KafkaGuardError: The topic does not exist, or cannot be read.
        """
        plan = self.plan
        origins: Counter[Any] = Counter()
        set_aside_by: dict[str, set[str]] = {}
        self._reader.open(self._ask(_find_partitions, self._topic))
        for message in self._reader.read_all(self._positions(stable=False)):
            letter = _letter_of(message)
            topic = self._target_of(letter)
            plan.letters += 1
            plan.reasons[letter.reason or "unknown"] += 1
            plan.errors[letter.error or letter.exception or "unknown"] += 1
            if letter.offset is not None:
                origins[letter.topic, letter.partition, letter.offset] += 1
            if self._selection.takes(letter):
                plan.selected += 1
                if why := self._why_refused(letter, topic):
                    plan.refused[why] += 1
            if topic is not None:
                plan.topics[topic] += 1
                groups = set_aside_by.setdefault(topic, set())
                groups.add(letter.group or "")
            place = Place(message.partition(), message.offset())
            time_ms = message.timestamp()[1]
            self._entries.append(make_entry(place, time_ms, letter, topic))
        self._entries = interleave(self._entries)
        plan.remarks += self._ask(_ask_settings, self._topic)
        plan.remarks += describe_readers(
            self._calls, self._topic, plan.group, set_aside_by, LOOK_S
        )
        if repeated := origins.total() - len(origins):
            plan.remarks.append(
                f"{repeated} letters are of a record that has another letter here: "
                "each of them is sent"
            )
        if unknown := self._selection.reasons - plan.reasons.keys():
            plan.remarks.append(
                f"no letter has the reason {', '.join(sorted(unknown))}"
            )
        if superseded := plan.reasons[Reason.SUPERSEDED]:
            plan.remarks.append(
                f"{superseded} letters are SUPERSEDED: a newer record of their key is "
                "in the topic, so they are taken only if that reason is named"
            )
        chunks = split_into_transactions(self._entries)
        plan.largest_transaction = max(map(len, chunks), default=0)
        self.report.remaining = plan.letters
        return plan

    def _positions(self, *, stable: bool = True) -> dict[int, int]:
        """Return the committed positions.

        Args:
            stable: Wait until the open transaction of an earlier replay has ended.

        Raises:
            KafkaGuardError: They cannot be read.
        """
        report = self._calls.lag(
            groups=[self.plan.group],
            topics=[self._topic],
            stable=stable,
            timeout=LOOK_S,
        )
        group = report.groups[self.plan.group]
        errors = (group.error, *(each.error for each in group.partitions.values()))
        for error in filter(None, errors):
            raise error
        committed = {p.partition: e.committed for p, e in group.partitions.items()}
        return {
            number: max(start, committed.get(number) or 0)
            for number, start in self._reader.starts.items()
        }

    def _ask(
        self, question: Callable[[Any, str], Coroutine[Any, Any, Any]], topic: str
    ) -> Any:
        return run_in_loop(question(self._calls.cluster_view, topic))

    def _target_of(self, letter: DeadLetter) -> str | None:
        """Return the topic to which a letter goes; None if it is not taken."""
        return (self._to or letter.topic) if self._selection.takes(letter) else None

    def _why_refused(self, letter: DeadLetter, topic: str | None) -> str | None:
        """Return why a letter cannot be sent now; None if nothing is known."""
        why = why_left(letter, topic, self._topic)
        if why is not None or topic is None:
            return why
        if topic not in self._targets:
            self._targets[topic] = self._ask(look_at_target, topic)
        is_new = self._to is not None or topic != letter.topic
        return self._targets[topic].why_refused(letter, is_new=is_new)

    # --- sending ----------------------------------------------------------------------

    def run(
        self,
        *,
        canary: int | None = None,
        confirm: Callable[[], bool] = lambda: True,
        max_back: float | None = None,
    ) -> ReplayReport:
        """Send what the plan has; see :meth:`look`.

        Args:
            canary: The number of letters of the first transaction, after which
                ``confirm`` is asked whether to go on.
            confirm: Returns whether to go on.
            max_back: It stops if more letters than this come back a second.

        Raises:
            KafkaGuardError: The cluster refuses, or another replay of this topic has
                taken over. What was committed stays; nothing else was sent.
        """
        report = self.report
        if not self.plan.selected:  # nothing to send, so nothing is appended again
            if report.remaining:
                report.left[NOT_SELECTED], report.remaining = report.remaining, 0
            return report
        size = TRANSACTION
        if self._rate is not None:
            size = max(1, min(size, int(self._rate)))
        self._open_producer()
        self._returns = Returns(self._config, self._reader, self._own)
        self._position = self._positions()
        self._leave_out_what_was_sent()
        self._reader.begin(self._position)
        chunks = split_into_transactions(self._entries, canary, size)
        for number, entries in enumerate(chunks):
            started = time.monotonic()
            self._settle(entries)
            report.back = self._returns.look() if max_back or canary else report.back
            if max_back is not None and self._returns.rate() > max_back:
                report.came_back = True
                report.stopped = (
                    f"{self._returns.rate():.3g} letters a second came back, and "
                    f"--max-back is {max_back:g}"
                )
                break
            if canary is not None and number == 0 and report.remaining:
                if not confirm():
                    report.stopped = "it was not confirmed after the canary"
                    break
                started = time.monotonic()
            if self._rate is not None:
                pause = len(entries) / self._rate - (time.monotonic() - started)
                time.sleep(max(0.0, pause))
            done = self.plan.letters - report.remaining
            self._tell(f"{done:,} of {self.plan.letters:,} letters")
        report.back = self._returns.look()
        return report

    def _leave_out_what_was_sent(self) -> None:
        """Leave out what an earlier replay has committed since the plan was made."""
        there = len(self._entries)
        self._entries = [
            each
            for each in self._entries
            if each.place.offset >= self._position[each.place.partition]
        ]
        if sent := there - len(self._entries):
            self.report.remaining -= sent
            self._tell(f"an earlier replay has sent {sent:,} of them meanwhile")

    def watch(self, group: str, seconds: float) -> bool:
        """Wait until a group has passed what was sent; return whether it has.

        It is False also if a letter came back meanwhile.
        """
        assert self._returns is not None
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self._returns.look():
                return False
            lag = self._calls.lag(
                groups=[group], topics={topic for topic, _ in self._sent_to}
            )
            passed = {
                (each.topic, each.partition): each.committed or -1
                for each in lag.groups[group].partitions.values()
            }
            if all(passed.get(p, -1) > end for p, end in self._sent_to.items()):
                return self._returns.look() == 0
            time.sleep(_GLANCE_S)
        return False

    def _settle(self, entries: Sequence[Entry]) -> None:
        """Make one transaction; after a failure again, as often as the policy says.

        A new producer first ends the transaction of the old one. Then the position says
        whether it was committed.
        """
        failures, wait = 0, 0.0
        while True:
            messages = self._reader.read(entries)
            refused = len(self._refused)
            try:
                self._transact(messages)
            except KafkaGuardError as error:
                failures += len(self._refused) == refused
                attempts = self._policy.max_attempts
                is_last = attempts is not None and failures >= attempts
                if error.verdict.action in _ENDED or is_last:
                    raise
                if len(self._refused) == refused:
                    wait = draw_wait(
                        self._policy.backoff, failures, wait, random.random
                    )
                    self._tell(f"a transaction failed, again in {wait:.1f} s: {error}")
                    time.sleep(wait)
                self._open_producer()
                positions = self._positions()
                self._reader.begin(positions)
                if positions == self._position:
                    self.report.aborted += 1
                    continue
                if positions != self._position | _ends(messages):
                    raise make(
                        _FENCED,
                        "another replay of this topic has taken over: what it has sent "
                        "is not counted here",
                        api="EndTxn",
                        topic=self._topic,
                    ) from error
            break
        self._position |= _ends(messages)
        for what, why in self._outcomes:
            if what == "left":
                self.report.left[why] += 1
            elif what == "dropped":
                self.report.dropped += 1
            else:
                self.report.replayed += 1
        self.report.remaining -= len(self._outcomes)

    def _transact(self, messages: Sequence[Message]) -> None:
        self._outcomes.clear()
        ends = _ends(messages)
        with self._producer.transaction():
            for message in messages:
                self._send(message)
            self._producer.send_offsets_to_transaction(
                [TopicPartition(self._topic, *end) for end in ends.items()],
                self._reader.client.consumer_group_metadata(),
            )

    def _send(self, message: Message) -> None:
        """Send a letter's record, or append the letter to its topic again."""
        place = Place(message.partition(), message.offset())
        letter = _letter_of(message)
        topic = self._target_of(letter)
        why: str | None = NOT_SELECTED
        record: DeadLetter | None = letter
        if self._selection.takes(letter):
            why = self._refused.get(place)
            if why is None and self._fix is not None:
                record, why = self._fixed(letter)
            if record is None:
                self._outcomes.append(("dropped", ""))
                return
            topic = self._to or record.topic
            why = why or self._why_refused(record, topic)
        if why is not None or topic is None or record is None:
            self._outcomes.append(("left", why or NOT_SELECTED))
            self._append(message)
            return
        self._outcomes.append(("replayed", ""))
        self._produce(place, letter, record, topic)

    def _produce(
        self, place: Place, letter: DeadLetter, record: DeadLetter, topic: str
    ) -> None:
        is_own = self._to is None and topic == letter.topic
        has_partition = is_own and record.partition is not None
        try:
            self._producer.produce(
                topic,
                record.value,
                record.key,
                partition=record.partition if has_partition else -1,
                timestamp=record.timestamp_ms or 0,
                headers=[*record.headers, (ATTEMPTS, str(letter.attempts).encode())],
                on_delivery=lambda failed, sent: self._note(place, failed, sent),
            )
        except KafkaGuardError as error:
            self._note_refusal(place, error)
            raise

    def _fixed(self, letter: DeadLetter) -> tuple[DeadLetter | None, str | None]:
        assert self._fix is not None
        try:
            record = self._fix(letter)
        except Exception as error:  # noqa: BLE001 - an exception leaves the letter
            return letter, f"{FIX_FAILED}: {type(error).__name__}"
        if record is not None and not isinstance(record, DeadLetter):
            raise TypeError(
                f"fix returns a DeadLetter, or None to drop it, not "
                f"{type(record).__name__}"
            )
        if record is not None:
            record.check()
        return record, None

    def _append(self, message: Message) -> None:
        def note(error: Any, sent: Message) -> None:
            if error is None:
                self._own.add(Place(sent.partition(), sent.offset()))

        self._producer.produce(
            self._topic,
            message.value(),
            message.key(),
            partition=message.partition(),
            timestamp=message.timestamp()[1] if message.timestamp()[0] == 1 else 0,
            headers=message.headers() or [],
            on_delivery=note,
        )

    def _note(self, place: Place, failed: Any, sent: Message) -> None:
        """Keep where a record was put, or why it was refused."""
        if failed is not None:
            self._note_refusal(place, failed.error)
            return
        at = str(sent.topic()), int(sent.partition())
        self._sent_to[at] = max(self._sent_to.get(at, -1), sent.offset())

    def _note_refusal(self, place: Place, error: KafkaGuardError) -> None:
        """Keep a record that its topic never takes; its letter is left."""
        if error.code is None or error.code < 0 or error.name == _MATE:
            return
        if classify(error.code, api="Produce").action in _FINAL:
            self._refused[place] = error.name

    def _open_producer(self) -> None:
        """Take over the replay's transactions; this ends an earlier one that is open.

        Raises:
            KafkaGuardError: The id cannot be taken over.
        """
        if self._producer is not None:
            self._close_producer()
        self._producer = guard(
            factory=Producer,
            policy=self._policy,
            config={
                "partitioner": "murmur2_random",
                **self._config,
                "transactional.id": ID + self._topic,
            },
            on_event=self._on_event,
        )
        self._producer.init_transactions(LOOK_S)

    def _close_producer(self) -> None:
        try:
            self._producer.close(LOOK_S)
        except KafkaGuardError as error:
            self._tell(f"the producer was closed with an error: {error}")

    def close(self) -> None:
        """Close all clients."""
        if self._producer is not None:
            self._close_producer()
        if self._returns is not None:
            self._returns.close()
        self._reader.close()
        self._calls.close_view()


async def _find_partitions(view: ClusterView, topic: str) -> list[int]:
    """Return the partitions of a topic.

    Raises:
        KafkaGuardError: No broker answers, or there is no such topic.
    """
    deadline = asyncio.get_running_loop().time() + LOOK_S
    (found,) = (await view.cluster().refresh(deadline, [topic])).topics
    if found.error_code:
        raise make(
            found.error_code,
            "the dead-letter topic does not exist, or this user may not see it",
            api="Produce",
            topic=topic,
        )
    return sorted(each.partition_index for each in found.partitions)


async def _ask_settings(view: ClusterView, topic: str) -> list[str]:
    deadline = asyncio.get_running_loop().time() + LOOK_S
    try:
        answers = await ask(view.cluster(), [topic], deadline)
    except KafkaGuardError:
        answers = {}
    return describe_topic(answers.get(topic))


def _letter_of(message: Message) -> DeadLetter:
    return read_letter(
        message.key(),
        message.value(),
        message.headers() or [],
        message.timestamp()[1],
    )


def _ends(messages: Sequence[Message]) -> dict[int, int]:
    """Return the positions behind the letters of a transaction."""
    ends: dict[int, int] = {}
    for message in messages:
        at = message.partition()
        ends[at] = max(ends.get(at, 0), message.offset() + 1)
    return ends
