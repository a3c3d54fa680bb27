"""The driver of the delivery machine in a task: facts and commands in sequence.

There is only one thread, so nothing needs a lock, and only a flush waits for records.
The machine is created at the first failure.
"""

from __future__ import annotations

from collections import defaultdict, deque
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from kafkaguard._common.logs import Log
from kafkaguard._delivery import commands
from kafkaguard._delivery.dead_letters import NO_ROOM, letter_for, reason_of
from kafkaguard._delivery.facts import Place, Traits
from kafkaguard._delivery.judging import add_words
from kafkaguard._delivery.letter_count import LetterCount
from kafkaguard._delivery.sizes import batch_size
from kafkaguard._errors import (
    CorruptMessageError,
    InvalidRecordError,
    KafkaGuardError,
    UnknownTopicOrPartitionError,
)
from kafkaguard_adapters.confluent.errors import errors
from kafkaguard_adapters.producing.application_calls import write_warning
from kafkaguard_adapters.spark.executor.arrow import (
    ANY_PARTITION,
    UNWRITABLE_TIMES,
    SinkRecord,
)
from kafkaguard_adapters.spark.executor.attempts import WindowAttempts
from kafkaguard_adapters.spark.executor.sent_records import (
    SentRecords,
    raw_of,
    split_superseded,
)
from kafkaguard_adapters.spark.policy import CLIENT
from kafkaguard_adapters.spark.report import TaskCounts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kafkaguard._delivery.commands import Command
    from kafkaguard._delivery.machine import DeliveryMachine
    from kafkaguard._delivery.records import Record
    from kafkaguard_adapters.spark.executor.arrow import Columns
    from kafkaguard_adapters.spark.executor.attempts import FailedRecord
    from kafkaguard_adapters.spark.executor.known_topics import KnownTopics
    from kafkaguard_adapters.spark.executor.sender import Sender
    from kafkaguard_adapters.spark.settings import SinkSettings

_log = Log("spark")

#: Codes of new and old brokers for a record without a key on a compacted topic.
_OF_NULL_KEYS = frozenset({InvalidRecordError.code, CorruptMessageError.code})
#: librdkafka's codes for a record whose topic may have been deleted: the broker's, that
#: of the metadata, and a time limit that was over before either was noticed.
_OF_NO_TOPIC = frozenset({UnknownTopicOrPartitionError.code, -188, -192})
#: The machine's time, always 0: librdkafka keeps the time limits in a task.
_TIME = 0.0


class WindowDriver:
    """Drives a task's machine, from one flush to the next.

    Args:
        settings: The settings of the write.
        known: Cached facts about topics.
        sender: Gives records to the client.
        config: The client's settings.

    Attributes:
        counts: The outcomes of the records.
    """

    def __init__(
        self,
        settings: SinkSettings,
        known: KnownTopics,
        sender: Sender,
        config: Mapping[str, str],
    ) -> None:
        self.counts = TaskCounts()
        self._settings = settings
        self._known = known
        self._sender = sender
        self._config = config
        self._attempts = WindowAttempts(settings)
        self._letters = LetterCount()
        self._batches = 0
        self._commands: deque[Command] = deque()

    @cached_property
    def _machine(self) -> DeliveryMachine:
        from kafkaguard._delivery.machine import DeliveryMachine  # for a failure only

        policy = self._settings.policy
        # The machine does not see the delivered records. So dead letters are counted
        # here, and its policy has no limit of them.
        letters = policy.dead_letter.model_copy(update={"limit": None})
        timeout = float(self._config["delivery.timeout.ms"]) / 1000
        traits = Traits(
            CLIENT,
            timeout,
            "delivery.timeout.ms",
            largest_request=int(self._config["message.max.bytes"]),
            replaceable=False,
            unwritable_times=UNWRITABLE_TIMES,
        )
        return DeliveryMachine(
            traits,
            policy.replace(dead_letter=letters),
            errors,
            size_alone=lambda raw: batch_size(raw.key, raw.value, raw.headers),
            facts=self._known.facts,
        )

    def open_window(self) -> None:
        """Begin a window: its first records are about to be sent."""
        self._attempts.open_window()

    def assume_delivered(self, count: int) -> None:
        """Count records that were given to the client as delivered.

        Only failures are reported, and ``dead_letter.limit`` needs a total before the
        flush. A record that gets a dead letter is taken back (``undo_delivered``).
        """
        self._letters.count_delivered(count)

    def refused_at_once(
        self, record: SinkRecord, reason: str, error: KafkaGuardError
    ) -> None:
        """Handle a record that no broker would accept; its dead letter is sent later.

        Raises:
            KafkaGuardError: The record fails the job.
        """
        if self._settings.on_reject(error) == "dead_letter":
            self._claim_letter(error, record.topic)
        else:
            self._letters.count_other()
        place = Place(record.topic or "", _partition(record))
        self._commands += self._machine.refused_at_once(
            object(), place, raw_of(record), error, _TIME, reason=reason
        )
        self._carry_out(but=commands.Send)

    def _claim_letter(
        self,
        error: KafkaGuardError,
        topic: str | None,
        failed: Record | None = None,
    ) -> None:
        """Count a dead letter, unless a record may not become one.

        Args:
            error: Why it was refused.
            topic: Its topic.
            failed: The record, if it was sent.

        Raises:
            KafkaGuardError: There are too many dead letters; or the name of the
                dead-letter topic needs the record's topic, and the record has none.
        """
        letters = self._settings.policy.dead_letter
        why = self._letters.count_letter(letters.limit, failed)
        if topic is None and "{topic}" in letters.topic:
            why = (
                f"the name of the dead-letter topic ({letters.topic}) needs the "
                "record's topic, and the record has none"
            )
        if why is not None:
            add_words(error, f"no dead letter was sent: {why}")
            raise error

    def end_window(self, count: int, sent: Sequence[Columns]) -> None:
        """Handle the failures of a window until each record has its outcome.

        Args:
            count: How many records were sent.
            sent: The records that were sent.

        Raises:
            KafkaGuardError: A record fails the job.
        """
        failed = self._sender.take_failed()
        records: Sequence[SinkRecord] = ()
        if failed:
            records = [record for columns in sent for record in columns.records()]
            remaining = self._send_again(failed, records)
            self.counts.resent += len(failed) - len(remaining)
            failed = remaining
            if (fatal := self._attempts.fatal(failed)) is not None:
                raise fatal
        self.counts.delivered += count - len(failed)
        by_topic: defaultdict[str, list[FailedRecord]] = defaultdict(list)
        for error, record in failed:
            assert record.topic is not None
            by_topic[record.topic].append((error, record))
        for topic, failures in by_topic.items():
            mine = (record for record in records if record.topic == topic)
            self._commands += self._report_ended(
                self._begin_batch(topic, mine, failures)
            )
        self._carry_out()

    def _send_again(
        self, failed: list[FailedRecord], records: Sequence[SinkRecord]
    ) -> list[FailedRecord]:
        """Send records again that were not written and may succeed, as the policy says.

        Args:
            failed: The records that failed.
            records: All records that were sent together, in their order.

        Returns:
            The failures for which sending again does not help.

        Raises:
            KafkaGuardError: The policy allows no further attempt, or a topic was
                deleted meanwhile.
        """
        self._attempts.begin()
        remaining: list[FailedRecord] = []
        while failed:
            again, others = self._split(failed, records)
            remaining += others
            records = [record for _, record in again]
            failed = self._attempt(again) if again else []
        if error := self._find_deleted_topic(remaining):
            raise error
        return remaining

    def _split(
        self, failed: list[FailedRecord], records: Sequence[SinkRecord]
    ) -> tuple[list[FailedRecord], list[FailedRecord]]:
        """Separate the failures that the policy tries again from the others."""
        may_be_tried = self._attempts.may_be_tried
        if not any(map(may_be_tried, failed)):
            return [], failed
        late: list[FailedRecord] = []
        if self._settings.policy.rescue != "any_order":
            late, failed = split_superseded(records, failed)
        again = [failure for failure in failed if may_be_tried(failure)]
        return again, late + [each for each in failed if not may_be_tried(each)]

    def _attempt(self, again: Sequence[FailedRecord]) -> list[FailedRecord]:
        """Send records again after the policy's wait; return those that have failed."""
        try:
            self._attempts.wait(again)
        except KafkaGuardError as error:
            deleted = self._find_deleted_topic(again)
            if deleted is None:
                raise
            deleted.add_note("; ".join(error.__notes__))
            raise deleted from error
        self._sender.produce([record for _, record in again])
        self._sender.flush()
        failed = self._sender.take_failed()
        if len(failed) < len(again):
            self._attempts.succeeded()
        return failed

    def _find_deleted_topic(
        self, failed: Sequence[FailedRecord]
    ) -> KafkaGuardError | None:
        """Return the error of a topic that was deleted meanwhile, or None."""
        topics = {r.topic for error, r in failed if error.code() in _OF_NO_TOPIC}
        results = (self._known.find_deletion(topic) for topic in topics if topic)
        return next(filter(None, results), None)

    def _begin_batch(
        self,
        topic: str,
        records: Iterable[SinkRecord],
        failures: Sequence[FailedRecord],
        tokens: Sequence[object] | None = None,
    ) -> SentRecords:
        """Begin a batch: the records of a topic that were sent together."""
        self._batches += 1
        batch = SentRecords(topic, self._batches, records, failures, tokens)
        self._machine.began(batch)
        return batch

    def _report_ended(self, batch: SentRecords) -> Sequence[Command]:
        """Report to the machine which records of a batch failed.

        After a refused null key the topic is looked up first: it may be compacted now.
        """
        refusals = tuple(batch.refusals())
        if any(r.null_key and r.cause.code() in _OF_NULL_KEYS for r in refusals):
            self._known.look_again(batch.place.topic)
        return self._machine.failed(batch, refusals, _TIME)

    # --- commands ---------------------------------------------------------------------

    def _carry_out(self, but: type[Command] | None = None) -> None:
        """Execute the machine's commands until none is left; keep some for later."""
        later = []
        while self._commands:
            command = self._commands.popleft()
            if but is not None and isinstance(command, but):
                later.append(command)
            else:
                self._commands += self._do(command)
        self._commands += later

    def _do(self, command: Command) -> Sequence[Command]:
        """Execute a command; those about waiting sends or events need nothing here."""
        match command:
            case commands.HoldSends(topic):
                return self._machine.held(topic, _TIME)
            case commands.Send(topic, records):
                return self._send(topic, records)
            case commands.AskSizeLimit(topic):
                return self._machine.size_limit(topic, self._size_limit(topic), _TIME)
            case commands.ForgetFacts(topic):
                self._known.look_again(topic)
            case commands.Settle(record):
                self._settle(record)
            case commands.Warn():
                _warn_once(command)
        return ()

    def _send(self, topic: str, records: Sequence[Record]) -> Sequence[Command]:
        """Send records again, or dead letters, and wait for their outcomes."""
        for record in records:
            refused = record.origin
            if refused and refused.reason is None and not record.resend_count:
                assert refused.error is not None
                self._letters.undo_delivered()
                self._claim_letter(refused.error, refused.place.topic, refused)
        again = [_make_record(record) for record in records]
        self.open_window()
        self._sender.produce(again)
        self._sender.flush()
        failed = self._send_again(self._sender.take_failed(), again)
        tokens = [object() for _ in again]
        batch = self._begin_batch(topic, again, failed, tokens)
        out = self._machine.sent(topic, tokens, _TIME)
        return [*out, *self._report_ended(batch)]

    def _size_limit(self, topic: str) -> int | None:
        if not self._known.takes_dead_letters(topic):
            self._known.look_again(topic)
        return self._known.max_message_bytes(topic)

    def _settle(self, record: Record) -> None:
        outcome = record.outcome
        assert outcome is not None
        self.counts.resent += record.token is not record.first_token
        error = outcome.error
        if error is None:
            self.counts.delivered += 1
        elif outcome.ending == "dead_lettered":
            self.counts.dead_lettered[record.reason or reason_of(error)] += 1
        elif outcome.ending == "dropped":
            self.counts.dropped[record.reason or reason_of(error)] += 1
        elif outcome.ending == "in_doubt" and outcome.seen:
            self.counts.in_doubt[error.name] += 1
        elif record.letter_error is not None:
            raise _explain_letter(record.letter_error, record, error)
        else:
            raise error


@lru_cache(maxsize=64)
def _warn_once(warning: commands.Warn) -> None:
    """Log a warning, once in a process: it runs many tasks of the same write."""
    write_warning(_log, warning)


def _make_record(record: Record) -> SinkRecord:
    raw = record.raw
    assert raw is not None
    partition = record.place.partition
    return SinkRecord(
        record.place.topic,
        raw.key,
        raw.value,
        list(raw.headers) or None,
        ANY_PARTITION if partition is None else partition,
        raw.timestamp_ms,
    )


def _explain_letter(
    letter_error: KafkaGuardError, record: Record, error: KafkaGuardError
) -> KafkaGuardError:
    """Return the error of a dead letter that was not delivered."""
    if letter_error.verdict is not NO_ROOM:  # whose text is complete
        reason = record.reason or reason_of(error)
        letter = letter_for(error.topic)
        letter_error.summary = f"{letter} ({reason}) was not delivered"
    return letter_error


def _partition(record: SinkRecord) -> int | None:
    return record.partition if record.partition >= 0 else None
