"""Sending the records of one task, and settling the fate of each.

Sequence: records are handed to the producer until the window is full; a flush then
says of each whether it was accepted (the client reports failures only). Failures are
judged one by one:

* refused for good -> dead letter, or the job fails;
* failed with its batch -> sent again, first together with the other innocent ones,
  then, if refused once more, alone; unless a later record of the same key was accepted
  in the meantime (then it is superseded);
* in doubt -> the job fails, or it is reported;
* anything else -> the job fails.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from kafkaguard import classify
from kafkaguard import errors as e
from kafkaguard._common.topic_names import shortened
from kafkaguard._delivery.dead_letters import Reason, reason_of
from kafkaguard._verdicts.verdict import Action
from kafkaguard_adapters.confluent.errors import errors
from kafkaguard_adapters.spark.executor.arrow import Columns, Record
from kafkaguard_adapters.spark.executor.checks import find_refused
from kafkaguard_adapters.spark.executor.dead_letters import dead_letter, said_of
from kafkaguard_adapters.spark.executor.known_topics import KnownTopics
from kafkaguard_adapters.spark.executor.limits import exceeded
from kafkaguard_adapters.spark.executor.sender import borrow
from kafkaguard_adapters.spark.report import TaskCounts
from kafkaguard_adapters.spark.verdicts import (
    DEAD_LETTER_TOPIC_OF_A_RECORD,
    KEY_MADE_NULL,
    MALFORMED,
    NAMELESS_HEADER,
    NO_PARTITION_OF_A_RECORD,
    NO_TOPIC_OF_A_RECORD,
    NUL_IN_HEADER,
)

if TYPE_CHECKING:
    from typing import Self

    from kafkaguard._verdicts.verdict import Phase, Verdict
    from kafkaguard_adapters.spark.driver.sink_topic import SinkTopic
    from kafkaguard_adapters.spark.executor.limits import Limit
    from kafkaguard_adapters.spark.settings import SinkSettings

#: Records and bytes between two flushes: what a failure looks back on.
WINDOW_RECORDS = 500_000
WINDOW_BYTES = 64 * 1024 * 1024
#: What brokers answer to a record without a key on a compacted topic, new and old ones.
_OF_NULL_KEYS = frozenset({e.InvalidRecordError.code, e.CorruptMessageError.code})

_NAME_ONE = "name a dead-letter topic for such records"
_SAID = {
    Reason.NULL_KEY: (
        e.InvalidRecordKeyError,
        "a record without a key was meant for a compacted topic; give it a key or "
        + _NAME_ONE,
    ),
    Reason.TOO_LARGE: (
        e.MessageTooLargeError,
        f"a record is too large for its topic; {_NAME_ONE}",
    ),
    Reason.NULL_TOPIC: (
        e.InvalidTopicError,
        f"a record names no topic; fill the column topic or {_NAME_ONE}",
    ),
    Reason.DEAD_LETTER_TOPIC: (
        e.InvalidTopicError,
        "a record names the dead-letter topic, where it would look like a refused one",
    ),
    Reason.UNKNOWN_TOPIC: (
        e.UnknownTopicOrPartitionError,
        "a record names a topic that there is not",
    ),
    Reason.UNKNOWN_PARTITION: (
        e.UnknownTopicOrPartitionError,
        "a record names a partition that its topic does not have",
    ),
    Reason.NAMELESS_HEADER: (
        e.InvalidRecordError,
        f"a record has a header without a name; name it or {_NAME_ONE}",
    ),
    Reason.NUL_IN_HEADER: (
        e.InvalidRecordError,
        f"a header's name has a NUL, where it would be cut; rename it or {_NAME_ONE}",
    ),
    Reason.MALFORMED: (
        e.InvalidRecordError,
        "a line of the source cannot be read as its columns say",
    ),
    Reason.KEY_MADE_NULL: (
        e.InvalidRecordKeyError,
        f"a cast in select.key made null of a value; mend the value or {_NAME_ONE}",
    ),
    Reason.SUPERSEDED: (
        e.BatchMateRefusedError,
        f"a later record of its key was accepted, but it failed; {_NAME_ONE}",
    ),
}

_VERDICTS = {
    Reason.DEAD_LETTER_TOPIC: DEAD_LETTER_TOPIC_OF_A_RECORD,
    Reason.UNKNOWN_TOPIC: NO_TOPIC_OF_A_RECORD,
    Reason.UNKNOWN_PARTITION: NO_PARTITION_OF_A_RECORD,
    Reason.NAMELESS_HEADER: NAMELESS_HEADER,
    Reason.NUL_IN_HEADER: NUL_IN_HEADER,
    Reason.MALFORMED: MALFORMED,
    Reason.KEY_MADE_NULL: KEY_MADE_NULL,
}


def refusal(
    reason: Reason, topic: str | None, said: str | None = None
) -> e.KafkaGuardError:
    """Make the error for a record that can never be accepted.

    Args:
        reason: Why.
        topic: The topic that it was meant for.
        said: What is known of this very record. Default: what holds for the reason.
    """
    cls, text = _SAID[reason]
    return errors.make(
        cls,
        f"{reason}: {said or text}",
        topic=shortened(topic),
        api="Produce",
        verdict=_VERDICTS.get(reason),
    )


class Delivery:
    """The records of one task on their way.

    Args:
        settings: How to write.
        topics: What the driver knows of the topics.
        window: How many records are sent between two flushes.
    """

    def __init__(
        self,
        settings: SinkSettings,
        topics: dict[str, SinkTopic],
        window: int = WINDOW_RECORDS,
    ) -> None:
        self._settings = settings
        self._known = KnownTopics(settings, topics)
        self._window = window
        self._sent: list[Columns] = []
        self._open = 0
        self._open_bytes = 0
        self._sender = borrow(self._known.producer_config())
        self.counts = TaskCounts()

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        """Drop what was not sent yet, if the task fails."""
        if error is None:
            self._sender.keep()
        else:
            self._sender.discard()

    def send(self, batch: Any) -> None:
        """Send an Arrow batch, once its records have passed the checks.

        Raises:
            KafkaGuardError: The job is to fail because of a record.
        """
        columns = Columns(batch, self._settings.topic)
        self.counts.read += len(columns)
        self.counts.collapsed_keys += columns.collapsed_keys()
        if refused := find_refused(columns, self._known):
            self._set_aside(columns, refused)
            columns = columns.without(refused)
        self._sent.append(columns)
        if columns.are_plain:
            self._sender.produce_plain(columns.plain())
        else:
            self._sender.produce(columns.records())
        self._open += len(columns)
        self._open_bytes += batch.nbytes
        full = self._open >= self._window or self._open_bytes >= WINDOW_BYTES
        if self._sender.has_failed or full:
            self.settle()

    def _set_aside(self, columns: Columns, refused: dict[int, Reason]) -> None:
        """Send dead letters, once it is known of all of them that they can be made."""
        records = ((columns.record(row), reason) for row, reason in refused.items())
        letters = [
            self._letter(record, reason, self._refusal(record, reason))
            for record, reason in records
        ]
        self.counts.dead_lettered.update(refused.values())
        self._sender.produce(letters)

    def _refusal(self, record: Record, reason: Reason) -> e.KafkaGuardError:
        said = None
        if reason is Reason.TOO_LARGE:
            said = exceeded(self._limits(record), record.sizes)
        return refusal(reason, record.topic, said)

    def _limits(self, record: Record) -> list[Limit]:
        return [] if record.topic is None else self._known.limits(record.topic)

    def settle(self) -> None:
        """Wait until the fate of every record sent is known, and act on it.

        Raises:
            KafkaGuardError: The job is to fail because of a record.
        """
        self._sender.flush()
        sent, self._sent = self._sent, []
        opened, self._open, self._open_bytes = self._open, 0, 0
        failed = self._sender.take_failed()
        self.counts.delivered += opened - len(failed)
        if failed:
            self._rescue(failed, sent)
            self._sender.flush()
            self._check_dead_letters(self._sender.take_failed())

    def _rescue(self, failed: list[tuple[Any, Record]], sent: list[Columns]) -> None:
        mates = [record for error, record in failed if self._judge(error, record)]
        innocent, late = part_superseded(mates, sent)
        for record in late:
            error = refusal(Reason.SUPERSEDED, record.topic)
            self._refuse(record, Reason.SUPERSEDED, error)
        self.counts.resent += len(innocent)
        self._sender.produce(innocent)
        self._sender.flush()
        again = self._sender.take_failed()
        self.counts.delivered += len(innocent) - len(again)
        for _, record in again:
            self._send_alone(record)

    def _send_alone(self, record: Record) -> None:
        self._sender.produce([record])
        self._sender.flush()
        failed = self._sender.take_failed()
        if not failed:
            self.counts.delivered += 1
        for error, same in failed:
            if self._judge(error, same, phase="single"):
                raise self._translated(error, same, self._verdict(error, same, None))

    def _judge(self, error: Any, record: Record, phase: Phase | None = None) -> bool:
        """Act on a failure; True: send the record again.

        Raises:
            KafkaGuardError: The job is to fail.
        """
        verdict = self._verdict(error, record, phase)
        if verdict.retriable or (
            phase is None and self._batch_too_large(error, record)
        ):
            return True
        translated = self._translated(error, record, verdict)
        if record.topic == self._settings.dead_letter_topic:
            raise translated
        if verdict.action is Action.REJECT:
            self._refuse(record, reason_of(translated), translated)
        elif verdict.action is Action.IN_DOUBT and self._settings.on_doubt == "report":
            self.counts.in_doubt[translated.name] += 1
        else:
            raise translated
        return False

    def _verdict(self, error: Any, record: Record, phase: Phase | None) -> Verdict:
        null_key = record.key is None
        if null_key and error.code() in _OF_NULL_KEYS:
            self._known.look_again(record.topic)
        return classify(
            error,
            api="Produce",
            null_key=null_key,
            facts=self._known.facts(record.topic),
            idempotent=True,
            phase=phase,
        )

    def _batch_too_large(self, error: Any, record: Record) -> bool:
        """Whether the batch was too large, and not the record."""
        if error.code() != e.MessageTooLargeError.code:
            return False
        limits = self._limits(record)
        return bool(limits) and exceeded(limits, record.sizes) is None

    def _translated(
        self, error: Any, record: Record, verdict: Verdict
    ) -> e.KafkaGuardError:
        partition = record.partition if record.partition >= 0 else None
        letter = said_of(record)
        return errors.translate(
            error,
            message=f"{letter} was not accepted" if letter else None,
            topic=record.topic,
            partition=partition,
            api="Produce",
            verdict=verdict,
        )

    def _refuse(self, record: Record, reason: str, error: e.KafkaGuardError) -> None:
        letter = self._letter(record, reason, error)
        self.counts.dead_lettered[reason] += 1
        self._sender.produce([letter])

    def _letter(self, record: Record, reason: str, error: e.KafkaGuardError) -> Record:
        """Make the dead letter of a refused record.

        Raises:
            KafkaGuardError: The job is to fail instead, or there is no room for it.
        """
        if self._settings.on_reject == "fail":
            raise error
        topic = self._settings.dead_letter_topic
        assert topic is not None
        limit = self._known.largest_batch(topic)
        return dead_letter(record, topic, reason, error, limit)

    def _check_dead_letters(self, failed: list[tuple[Any, Record]]) -> None:
        for error, record in failed:
            raise self._translated(error, record, self._verdict(error, record, None))


def part_superseded(
    mates: list[Record], sent: list[Columns]
) -> tuple[list[Record], list[Record]]:
    """Part the records that may be sent again from those that must not be.

    Args:
        mates: Records that failed with their batch, in the order in which they failed.
        sent: All records of the window, in the order in which they were sent.

    Returns:
        Those that may, and those of whose key a later record was accepted. Records
        that are alike in everything are not told apart; the last of them counts as the
        failed one, which never loses the newest.
    """
    keys = {record.key for record in mates if record.key is not None}
    failed = Counter(map(_identity, mates))
    accepted: set[tuple[str | None, bytes | None]] = set()
    late: Counter[tuple[Any, ...]] = Counter()
    history = [r for columns in sent for r in columns.records() if r.key in keys]
    for record in reversed(history):
        identity, same = _identity(record), (record.topic, record.key)
        if not failed[identity]:
            accepted.add(same)
            continue
        failed[identity] -= 1
        late[identity] += same in accepted
    parts: tuple[list[Record], list[Record]] = ([], [])
    for record in mates:
        is_late = late[_identity(record)] > 0
        late[_identity(record)] -= is_late
        parts[is_late].append(record)
    return parts


def _identity(record: Record) -> tuple[Any, ...]:
    headers = tuple(map(tuple, record.headers or ()))
    return record.topic, record.key, record.value, headers
