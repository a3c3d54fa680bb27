"""A task that writes a shard in one transaction, exactly once."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kafkaguard._delivery.dead_letters import reason_of
from kafkaguard._errors import (
    KafkaGuardError,
    ProducerFencedError,
    TransactionAbortableError,
    for_code,
)
from kafkaguard._errors.base import Action
from kafkaguard_adapters.confluent.errors import errors
from kafkaguard_adapters.spark.executor.delivery import WINDOW_RECORDS, Delivery
from kafkaguard_adapters.spark.executor.earlier_attempts import (
    refused_rows,
    remember_rows,
)
from kafkaguard_adapters.spark.executor.input_end import check_end
from kafkaguard_adapters.spark.executor.known_topics import KnownTopics
from kafkaguard_adapters.spark.executor.sender import Sender
from kafkaguard_adapters.spark.executor.sent_records import identity
from kafkaguard_adapters.spark.executor.task import attempt_at
from kafkaguard_adapters.spark.once.offsets import offsets_for
from kafkaguard_adapters.spark.once.rules import (
    ForeignError,
    RefusedError,
    SupersededError,
    digest_of,
    play,
    write_shard,
)
from kafkaguard_adapters.spark.once.transaction import Transaction, transactional
from kafkaguard_adapters.spark.report import TaskCounts
from kafkaguard_adapters.spark.topics import look_up

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kafkaguard_adapters.spark.executor.arrow import Columns, SinkRecord
    from kafkaguard_adapters.spark.once.offsets import Home
    from kafkaguard_adapters.spark.once.rules import Marker, Plan, Step
    from kafkaguard_adapters.spark.settings import SinkSettings
    from kafkaguard_adapters.spark.topics import SinkTopic

#: The columns with the two hashes of a row.
DIGESTS = ("_kafkaguard_digest_a", "_kafkaguard_digest_b")
#: The schema of the row that a :class:`OnceTask` returns.
SHARD_SCHEMA = "counts string, replayed boolean, seconds double"


@dataclass(frozen=True)
class Ticket:
    """What the driver tells its tasks.

    Attributes:
        home: Where plan and markers are.
        run: The run of the driver.
        batch: The batch.
        retention: How long brokers keep offsets, in seconds.
        timeout: After how many seconds brokers abort an open transaction.
    """

    home: Home
    run: str
    batch: int
    retention: float
    timeout: float


@dataclass(frozen=True)
class OnceTask:
    """The function for ``mapInArrow``: writes a shard, returns one row.

    Args:
        settings: The settings of the write.
        topics: The facts about topics that the driver has looked up.
        ticket: What to write.
    """

    settings: SinkSettings
    topics: dict[str, SinkTopic]
    ticket: Ticket

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Write the rows of a partition."""
        import pyarrow as pa

        with attempt_at(self.settings) as context:
            attempt = context.attemptNumber()
            topics = look_up(self.settings) if attempt else self.topics
            shard = Shard(self.settings, topics, self.ticket, context)
            is_new = shard.write(batches)
        counts = shard.counts
        counts.attempt = attempt
        yield pa.record_batch(
            {
                "counts": [counts.to_json()],
                "replayed": [not is_new],
                "seconds": [shard.seconds],
            }
        )


@dataclass
class _Digest:
    """Adds up the hashes of rows."""

    rows: int = 0
    sums: list[int] = field(default_factory=lambda: [0, 0])

    def count(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield batches, and count them.

        Raises:
            KafkaGuardError: Spark has closed the connection before the last one.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        for batch in batches:
            self.rows += batch.num_rows
            for index, name in enumerate(DIGESTS):
                hashes = batch.column(name).view(pa.uint64())
                self.sums[index] += pc.sum(hashes).as_py() or 0
            yield batch
        check_end(self.rows)

    @property
    def answer(self) -> tuple[int, str]:
        """The number of rows, and their digest."""
        return self.rows, digest_of((self.sums[0], self.sums[1]))


class Shard:
    """Makes the steps of a shard.

    Args:
        settings: The settings of the write.
        topics: Facts about the topics.
        ticket: What to write.
        context: Spark's context of the task.

    Attributes:
        counts: The outcomes of the records.
        seconds: For how long the transaction was open.
    """

    def __init__(
        self,
        settings: SinkSettings,
        topics: dict[str, SinkTopic],
        ticket: Ticket,
        context: Any,
    ) -> None:
        self.counts = TaskCounts()
        self.seconds = 0.0
        self._ticket = ticket
        self._shard: int = context.partitionId()
        self._offsets = offsets_for(settings.client)
        config = KnownTopics(settings, topics).producer_config()
        noted = refused_rows(context)
        if noted is not None:
            # Which record is refused is known only if each is sent alone.
            config["batch.num.messages"] = "1"
        transactional_id = ticket.home.id_of(self._shard)
        sender = Sender(transactional(config, transactional_id, ticket.timeout))
        self._transaction = Transaction(sender.producer, ticket.home, self._shard)
        self._delivery = _ShardDelivery(settings, topics, sender, context, noted)
        self._batches: Iterable[Any] = ()

    def write(self, batches: Iterable[Any]) -> bool:
        """Write the shard; return False if it was written before.

        Raises:
            KafkaGuardError: It was not written, or that is unknown.
        """
        self._batches = batches
        ticket = self._ticket
        flow = write_shard(
            ticket.run, ticket.batch, self._shard, ticket.retention, time.time
        )
        try:
            return play(flow, lambda step: getattr(self, f"_{step.do}")(step))
        except SupersededError as error:
            text = f"{ticket.home.id_of(self._shard)}: {error}"
            raise errors.make(ProducerFencedError, text, api="EndTxn") from None
        except (ForeignError, RefusedError) as error:
            raise ticket.home.refuse(error, ticket.batch) from None
        finally:
            self._transaction.abort()

    def _init(self, _: Step) -> None:
        self._transaction.init()

    def _look(self, _: Step) -> tuple[Plan | None, dict[int, Marker]]:
        found = self._offsets.look(self._ticket.home, [self._shard], stable=True)
        return found[:2]

    def _send(self, _: Step) -> tuple[int, str]:
        digest = _Digest()
        self._transaction.begin()
        try:
            for batch in digest.count(self._batches):
                self._delivery.send(batch)
            self._delivery.end_window()
        except KafkaGuardError as error:
            raise self._transaction.cause_of(error) from error
        self.counts = self._delivery.counts
        return digest.answer

    def _count(self, _: Step) -> tuple[int, str]:
        digest = _Digest()
        for _batch in digest.count(self._batches):
            continue
        self.counts = TaskCounts(read=digest.rows, delivered=digest.rows)
        return digest.answer

    def _commit(self, step: Step) -> None:
        assert step.entry is not None
        self.seconds = self._transaction.commit(step.entry)


class _ShardDelivery(Delivery):
    """Sends the records of a shard; a record that fails, fails the transaction.

    A broker refuses a whole batch, and librdkafka does not say for which record. So
    after a refusal, the next attempt looks the topics up again, and sends each record
    alone. The rows that are refused then are noted, and the attempt after that sets
    them aside. Their positions would be no use: Spark reads a shuffle in any order.
    """

    def __init__(
        self,
        settings: SinkSettings,
        topics: dict[str, SinkTopic],
        sender: Sender,
        context: Any,
        noted: Mapping[str, int] | None,
    ) -> None:
        super().__init__(settings, topics, WINDOW_RECORDS, sender)
        self._context = context
        self._is_alone = noted is not None
        self._noted = noted or {}

    def end_window(self) -> None:
        """Wait for all records of a window.

        Raises:
            KafkaGuardError: A record failed.
        """
        self._sender.flush_transaction()
        if failed := self._sender.take_failed():
            raise self._error_of(failed)
        super().end_window()

    def _find_refused(self, columns: Columns) -> Mapping[int, str]:
        refused: dict[int, str] = dict(super()._find_refused(columns))
        if self._noted:
            for row, record in enumerate(columns.records()):
                if code := self._noted.get(_hash(record)):
                    refused.setdefault(row, reason_of(for_code(code)()))
        return refused

    def _make_error(self, record: SinkRecord, reason: str) -> KafkaGuardError:
        if code := self._noted.get(_hash(record)):
            text = "the broker refused the record in an earlier attempt at the task"
            return errors.make(code, text, api="Produce", topic=record.topic)
        return super()._make_error(record, reason)

    def _error_of(self, failed: Sequence[tuple[Any, SinkRecord]]) -> KafkaGuardError:
        """Return the error that fails the task; note the rows to set aside."""
        causes = {
            error.code(): errors.translate(error, api="Produce", topic=record.topic)
            for error, record in failed
        }
        rejected = {
            _hash(record): error.code()
            for error, record in failed
            if error.code() > 0 and causes[error.code()].verdict.action is Action.REJECT
        }
        cause = causes[next(iter(rejected.values()), failed[0][0].code())]
        if not rejected or self._settings.on_reject(cause) == "raise":
            return cause
        remember_rows(
            self._context, rejected if self._is_alone or len(rejected) == 1 else {}
        )
        return errors.make(
            TransactionAbortableError,
            f"the broker refused records ({cause.name}), so the transaction was "
            "aborted; the next attempts at the task find them and set them aside. If "
            "there was none, raise spark.task.maxFailures",
            api="Produce",
            topic=cause.topic,
        )


def _hash(record: SinkRecord) -> str:
    return hashlib.blake2b(repr(identity(record)).encode(), digest_size=16).hexdigest()
