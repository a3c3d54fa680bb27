"""Transactional calls of a guarded confluent-kafka producer.

For each failure, librdkafka says whether the same call can be retried, the transaction
must be aborted, or the producer is dead. ``commit_transaction`` waits for the delivery
reports of all records, and these come only if somebody polls. So the guard serves the
reports before it calls ``commit_transaction``.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException

from kafkaguard._delivery.time_limit import TimeLimit
from kafkaguard._delivery.transaction_calls import (
    DONE,
    Answer,
    Step,
    TransactionCalls,
)
from kafkaguard._delivery.transaction_errors import (
    BEGIN,
    OFFSETS,
    Call,
    TransactionTraits,
)
from kafkaguard._errors import KafkaGuardError
from kafkaguard_adapters.confluent.errors import errors, inner_error
from kafkaguard_adapters.producing.transactions import ThreadTransactions, left

if TYPE_CHECKING:
    from kafkaguard._delivery.shell import Policy
    from kafkaguard_adapters.confluent.producer_settings import ProducerSettings
    from kafkaguard_adapters.confluent.shell import ConfluentShell
    from kafkaguard_adapters.producing.driver import ThreadDriver

#: A call that does not fit to the client's state, or to another thread's call.
_OUT_OF_ORDER = frozenset({KafkaError._STATE, KafkaError._CONFLICT})  # noqa: SLF001 - documented constants


class Transactions(ThreadTransactions):
    """Begins and ends transactions.

    Args:
        shell: The shell of the client.
        driver: Tracks the client's records.
        settings: The producer's settings.
        limit: What a call may take by default.
        policy: How often a call of a block is made.
    """

    def __init__(
        self,
        shell: ConfluentShell,
        driver: ThreadDriver,
        settings: ProducerSettings,
        limit: TimeLimit,
        policy: Policy,
    ) -> None:
        traits = TransactionTraits(
            settings.transactional_id,
            settings.transaction_timeout,
            "transaction.timeout.ms",
            send="produce",
            can_build=shell.builder.can_build,
            offsets_in_turn=False,
        )
        calls = TransactionCalls(driver.machine.transaction, errors, traits, policy)
        super().__init__(driver, calls, transactional=shell.traits.transactional)
        self._shell = shell
        self._default_limit = limit
        self._longest = TimeLimit(settings.transaction_timeout, traits.timeout_setting)

    def _limit(self, timeout: float | None = None) -> TimeLimit:
        if timeout is None or timeout < 0:
            return self._default_limit
        return TimeLimit(timeout, "timeout")

    def _refuse(self, call: Call) -> None:
        self._shell.callbacks.refuse_inside(call.method)

    def _not_transactional(self, call: Call) -> KafkaGuardError:
        """Return what the client says about it; it may also be closed."""
        answer: Answer = self._make(Step("begin", 0.0))
        return self._calls.errors.make_judged(answer.cause, call)

    def add_offsets(
        self, offsets: Any, group: Any, timeout: float | None = None
    ) -> None:
        """Add a consumer's offsets.

        Raises:
            KafkaGuardError: The offsets were not added.
        """
        self._refuse(OFFSETS)
        if not self._transactional:
            with suppress(KafkaException, RuntimeError):  # it checks the arguments
                self._shell.client.send_offsets_to_transaction(offsets, group, 0.0)
        super().add_offsets(offsets, group, timeout)

    def init(self, timeout: float | None = None) -> None:
        """Take over the ``transactional.id``.

        Raises:
            KafkaGuardError: The ``transactional.id`` was not taken over.
        """
        try:
            super().init(timeout)
        except KafkaGuardError as error:
            raise self._shell.explain_error(error) from error.__cause__

    def error_of(self, error: KafkaException, topic: str) -> KafkaGuardError | None:
        """Return the error for a record outside a sound transaction; None: it is in."""
        inner = inner_error(error)
        if inner is None or inner.code() != KafkaError._STATE:  # noqa: SLF001 - a documented constant
            return None
        answer = Answer("failed", self._shell.death or error)
        return self.send_error(error, topic, answer)

    def death_of(self, error: Exception, topic: str) -> KafkaGuardError | None:
        """Return the error for a record that a dead client did not accept.

        None: the client has no transactions.
        """
        if not self._transactional:
            return None
        answer = Answer("failed", self._shell.death or error)
        return self.send_error(error, topic, answer)

    # --- steps ------------------------------------------------------------------------

    def _make(self, step: Step) -> Answer:
        try:
            answer: Answer = super()._make(step)
        except KafkaGuardError:
            raise
        except (KafkaException, RuntimeError) as error:
            return self._failed(error)
        return answer

    def _failed(self, error: Exception) -> Answer:
        inner = inner_error(error)
        if inner is None:
            return Answer("failed", error)
        if inner.code() in _OUT_OF_ORDER and not inner.fatal():
            return Answer("order", error)
        if inner.retriable():
            return Answer("late", error)
        return Answer("dead" if inner.fatal() else "failed", error)

    def _init(self, step: Step) -> Answer:
        self._shell.client.init_transactions(left(step))
        return DONE

    def _begin(self, _: Step) -> Answer:
        self._shell.client.begin_transaction()
        return DONE

    def _offsets(self, step: Step) -> Answer:
        self._shell.client.send_offsets_to_transaction(*step.offsets, left(step))
        return DONE

    def _await_records(self, step: Step) -> Answer:
        self._shell.serve_transaction(step.until)
        is_judging = self._driver.machine.is_troubled
        if self._shell.count_pending() or (
            is_judging and self._driver.wait(step.until)
        ):
            return Answer("late")
        return self._look(step)

    def _look(self, _: Step | None = None) -> Answer:
        death = self._shell.death
        return DONE if death is None else Answer("failed", death)

    def _commit(self, step: Step) -> Answer:
        try:
            self._shell.client.commit_transaction(left(step))
        except (KafkaException, RuntimeError) as error:
            # The client repeats a request without an answer by itself, so that the
            # transaction may be committed whatever comes later.
            answer = self._failed(error)
            return answer._replace(may_be_done=answer.kind != "order")
        return DONE

    def _abort(self, step: Step) -> Answer:
        try:
            self._shell.client.abort_transaction(left(step))
        except (KafkaException, RuntimeError) as error:
            answer = self._failed(error)
            return answer if answer.kind == "late" else answer._replace(kind="failed")
        return DONE

    def _renew(self, step: Step) -> Answer:
        self._refuse(BEGIN)
        self._driver.recreated()
        self._shell.renew(lambda new: new.init_transactions(left(step)))
        self._driver.retire()
        return DONE
