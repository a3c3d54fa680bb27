"""What becomes of each record of a failed batch.

It has failed for good, is set aside, is sent again, or waits: for the answer to a
request that is on its way, or for the text of its error. What waits goes to the
backlog, which the thread that repairs works off.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kafkaguard_adapters.kafka_python import _failures
from kafkaguard_adapters.kafka_python._answers import Unanswered
from kafkaguard_adapters.kafka_python._backlog import Oversize
from kafkaguard_adapters.kafka_python._oversize import MESSAGE_TOO_LARGE
from kafkaguard_adapters.kafka_python._private import reading
from kafkaguard_adapters.kafka_python._rescue import Rescue

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkaguard.errors import KafkaGuardError
    from kafkaguard_adapters.kafka_python._backlog import Backlog
    from kafkaguard_adapters.kafka_python._failures import Failure
    from kafkaguard_adapters.kafka_python._fate import Fate
    from kafkaguard_adapters.kafka_python._private.reading import RawRecord
    from kafkaguard_adapters.kafka_python._session import Session
    from kafkaguard_adapters.kafka_python._tracking import TrackedBatch

_Judged = list[tuple["Fate", "Failure"]]


class Decisions:
    """Decides about records; all but ``judge`` under the lock of the backlog.

    Args:
        session: Whose records they are.
        backlog: Where those go that wait.
        rescue: Send records again that failed only with their batch.
        resend_in_doubt: Also those that may have been written.
    """

    def __init__(
        self,
        session: Session,
        backlog: Backlog,
        *,
        rescue: bool,
        resend_in_doubt: bool,
    ) -> None:
        self._session = session
        self._backlog = backlog
        self._rescue = rescue
        self._resend_in_doubt = resend_in_doubt

    def judge(self, batch: TrackedBatch, fates: Iterable[Fate]) -> _Judged:
        """Say why each record failed; forget what was wrong about its topic."""
        transactional = self._session.is_transactional
        judged = [
            (fate, _failures.judge(batch, fate, transactional=transactional))
            for fate in fates
        ]
        for _, failure in judged:
            if _failures.is_null_key_refusal(failure.error):
                self._session.cache.drop(batch.topic_partition.topic)
        return judged

    def decide(self, batch: TrackedBatch, judged: _Judged) -> list[Fate]:
        """Sort records by what becomes of them.

        Returns:
            The fates that failed for good and whose callbacks are due.
        """
        failed = []
        records = self._records(batch)
        waits = self._may_be_answered(batch)
        unanswered = Unanswered(batch, [])
        for fate, failure in judged:
            record = records[fate.index] if records else None
            if waits and failure.in_flight:
                fate.hold()
                unanswered.failures.append((fate, failure.error))
            elif record is not None and self._accepts(batch, fate, failure, record):
                self._hold(Rescue(batch, fate.index, fate, record, failure.error))
            elif failure.error.code == MESSAGE_TOO_LARGE and not self._is_closing:
                fate.hold()
                oversize = Oversize(batch, fate, failure.error, record)
                self._backlog.oversize.append(oversize)
            elif self.end(batch, fate, _failures.in_the_end(batch, failure), record):
                failed.append(fate)
        if unanswered.failures:
            self._backlog.unanswered.append(unanswered)
        batch.resolved = not batch.held
        return failed

    def end(
        self,
        batch: TrackedBatch,
        fate: Fate,
        error: KafkaGuardError,
        record: RawRecord | None,
    ) -> bool:
        """Fail a record that is not sent again, or set it aside as the policy says.

        Returns:
            Whether it has its outcome, so that its callbacks are due.
        """
        rejects = self._session.rejects
        on_reject = "raise" if fate.is_letter else rejects.on_reject(error)
        if on_reject != "raise":
            return rejects.set_aside(fate, error, record, on_reject)
        self.fail(batch, fate, error)
        return True

    def fail(self, batch: TrackedBatch, fate: Fate, error: KafkaGuardError) -> None:
        """Fail a record for good."""
        death = self._backlog.death
        if error.verdict.written != "no" and death is not None:
            death.leaves_in_doubt(batch)
        self._session.failed_for_good(error)
        fate.fail(error)

    def leave_in_doubt(
        self, batch: TrackedBatch, fate: Fate, error: KafkaGuardError
    ) -> bool:
        """Decide about a record that was on its way and has had no answer.

        Returns:
            Whether it has failed for good, so that its callbacks are due.
        """
        records = self._records(batch)
        if self._resend_in_doubt and records and self._rescue:
            self._hold(Rescue(batch, fate.index, fate, records[fate.index], error))
            return False
        self.fail(batch, fate, error)
        return True

    @property
    def _is_closing(self) -> bool:
        return self._backlog.closing.is_set()

    def _records(self, batch: TrackedBatch) -> list[RawRecord] | None:
        if self._session.is_transactional:
            return None
        return reading.records_of(batch.source)

    def _may_be_answered(self, batch: TrackedBatch) -> bool:
        session = self._session
        is_alive = self._backlog.death is None and batch.producer is session.producer
        return (
            not (is_alive or self._is_closing or session.is_transactional)
            and batch.producer is not None
            and reading.is_idempotent(batch.producer)
        )

    def _accepts(
        self, batch: TrackedBatch, fate: Fate, failure: Failure, record: RawRecord
    ) -> bool:
        return (
            self._rescue
            and not self._is_closing
            and (failure.unsent or failure.as_a_whole or not fate.was_rescued)
            and batch.due > time.monotonic()
            and _failures.may_send_again(
                failure, record, resend_in_doubt=self._resend_in_doubt
            )
        )

    def _hold(self, rescue: Rescue) -> None:
        rescue.fate.hold()
        if rescue.fate.order is None:
            rescue.fate.order = rescue.batch.position, rescue.index
        rescue.batch.held = True
        self._backlog.rescues.append(rescue)
        self._session.teller.sent_again(rescue.batch.topic_partition.topic)
