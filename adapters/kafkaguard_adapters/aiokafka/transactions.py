"""Transactional calls of a guarded aiokafka producer.

If the answer to a commit is lost, aiokafka itself repeats the request. Its background
task ends at any answer that it does not expect. Then a new producer takes over the same
``transactional_id``: after its first request, the coordinator aborts the open
transaction. aiokafka cannot send the epoch of the old producer to the coordinator. So a
fenced producer is never replaced.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from aiokafka.errors import KafkaError

from kafkaguard._delivery.table import TransactionEvent
from kafkaguard._delivery.time_limit import TimeLimit
from kafkaguard._delivery.transaction_calls import DONE, Answer, TransactionCalls
from kafkaguard._delivery.transaction_errors import (
    BEGIN,
    COMMIT,
    TransactionTraits,
)
from kafkaguard_adapters.aiokafka._private.producing import reading
from kafkaguard_adapters.aiokafka._private.producing import transactions as inside
from kafkaguard_adapters.aiokafka.errors import IllegalCallError, errors
from kafkaguard_adapters.producing.transactions import TransactionsBase, left

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kafkaguard._delivery.shell import Policy
    from kafkaguard._delivery.transaction_calls import LeftOpen, Step
    from kafkaguard._errors import KafkaGuardError
    from kafkaguard_adapters.aiokafka.shell import AIOKafkaShell
    from kafkaguard_adapters.producing.task_driver import TaskDriver

#: Steps whose time the client does not limit by itself.
_UNLIMITED = ("offsets", "commit", "abort")


class Transactions(TransactionsBase):
    """Begins and ends transactions, as the machine decides.

    Args:
        shell: The shell of the client.
        driver: Tracks the client's records, and runs the machine.
        policy: How often a call of a block is made.
    """

    def __init__(
        self, shell: AIOKafkaShell, driver: TaskDriver, policy: Policy
    ) -> None:
        transactional = shell.is_transactional
        traits = TransactionTraits(
            reading.transactional_id(shell.producer),
            inside.time_limit(shell.producer) if transactional else 0.0,
            "transaction_timeout_ms",
            can_build=shell.traits.replaceable,
            has_gaps=False,
            theirs=IllegalCallError,
        )
        transaction = driver.machine.transaction
        calls = TransactionCalls(transaction, errors, traits, policy)
        super().__init__(driver, calls, transactional=transactional)
        self._shell = shell
        self._task: asyncio.Task[None] | None = None
        transaction.happens(TransactionEvent.TOOK_OVER)  # by ``start()``
        if transactional and inside.is_open(shell.producer):
            transaction.happens(TransactionEvent.BEGAN)

    def _limit(self, timeout: float | None = None) -> TimeLimit:  # noqa: ARG002 - the calls have no timeout
        traits = self._shell.traits
        return TimeLimit(traits.delivery_timeout, traits.timeout_setting)

    def error_of(self, error: Exception, topic: str) -> KafkaGuardError:
        """Return the error for a record that the client did not accept."""
        return self.send_error(error, topic, self._why()) or errors.translate(
            error, api="Produce", topic=topic, context={"transactional": True}
        )

    async def close(self, seconds: float) -> LeftOpen | None:
        """End an open transaction when the producer is stopped."""
        try:
            left_open: LeftOpen | None = await super().close(seconds)
        finally:
            self._drop_offsets()
        return left_open

    @asynccontextmanager
    async def block(self, producer: Any) -> AsyncIterator[Any]:
        """Begin a transaction, and commit it after the body, or abort it.

        Args:
            producer: The guarded producer, which the body gets.

        Raises:
            KafkaGuardError: The transaction was not committed; the verdict says what
                to do.
            BaseException: The exception of the body, after the abort.
        """
        calls, limit = self._calls, self._limit()
        await self._run(BEGIN, calls.begin_block(limit))
        try:
            yield producer
        except BaseException as error:
            await self._driver.run(calls.abort_block(limit, error), self._make)
            raise
        await self._run(COMMIT, calls.commit_block(limit))

    # --- steps ------------------------------------------------------------------------

    async def _make(self, step: Step) -> Answer:
        try:
            async with asyncio.timeout(left(step) if step.do in _UNLIMITED else None):
                answer: Answer = await super()._make(step)
                return answer
        except TimeoutError:
            return Answer("late")
        except (KafkaError, OSError) as error:
            cause = self._cause()
            return Answer("failed" if cause is None else "dead", cause or error)

    async def _begin(self, _: Step) -> Answer:
        cause = self._cause()
        if self._shell.has_gap or cause is not None:
            error = KafkaError("the producer lacks sequence numbers")
            return Answer("dead", cause or error)
        await self._shell.producer.begin_transaction()
        return DONE

    async def _offsets(self, step: Step) -> Answer:
        if self._task is None:
            call = self._shell.producer.send_offsets_to_transaction(*step.offsets)
            self._task = asyncio.ensure_future(call)
        await asyncio.wait([self._task])
        task, self._task = self._task, None
        task.result()
        return DONE

    async def _await_records(self, step: Step) -> Answer:
        if await self._driver.wait(step.until):
            return Answer("late")
        return self._why()

    async def _look(self, _: Step | None = None) -> Answer:
        return self._why()

    def _why(self) -> Answer:
        cause = self._cause()
        return DONE if cause is None else Answer("failed", cause)

    async def _commit(self, _: Step) -> Answer:
        producer = self._shell.producer
        if inside.is_in_transaction(producer):
            self._shell.forget_end()
            inside.end(producer, commit=True)
        try:
            await inside.ended(producer)
        except Exception as error:  # noqa: BLE001 - whatever has ended the client's task
            cause = self._cause() or error.__cause__ or error
            return Answer("dead", cause, may_be_done=self._shell.lost_end)
        return DONE

    async def _abort(self, _: Step) -> Answer:
        producer = self._shell.producer
        cause = self._cause()
        if cause is not None and not inside.has_failed(producer):
            return Answer("dead", cause)
        self._drop_offsets()
        if not inside.is_open(producer):
            return DONE  # an earlier call, which was cancelled, has aborted
        inside.end(producer, commit=False)
        try:
            await inside.ended(producer)
        except Exception as error:  # noqa: BLE001 - as for a commit
            return Answer("failed", self._cause() or error.__cause__ or error)
        return DONE

    async def _renew(self, step: Step) -> Answer:
        self._driver.recreated()
        try:
            await self._shell.renew(left(step))
        except (KafkaError, OSError) as error:
            return Answer("failed", error)
        self._task = None
        self._driver.retire()
        return DONE

    async def _sleep(self, step: Step) -> Answer:
        await asyncio.sleep(left(step))
        return DONE

    def _drop_offsets(self) -> None:
        """Stop asking for offsets that were not confirmed in time."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
            inside.drop_offsets(self._shell.producer)

    def _cause(self) -> BaseException | None:
        """Return why the client cannot continue the transaction; None: it can."""
        shell = self._shell
        return inside.why_failed(shell.producer) or shell.death
