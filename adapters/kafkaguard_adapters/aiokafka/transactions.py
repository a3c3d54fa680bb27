"""The transactional calls of a guarded producer: bounded, their failures told apart."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from kafkaguard_adapters.aiokafka.errors import errors

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from aiokafka.errors import KafkaError

    from kafkaguard.errors import KafkaGuardError
    from kafkaguard_adapters.aiokafka.shell import AIOKafkaShell
    from kafkaguard_adapters.producing.task_driver import TaskDriver


class Transactions:
    """Begins and ends transactions.

    Args:
        shell: The client.
        driver: Follows its records.
    """

    def __init__(self, shell: AIOKafkaShell, driver: TaskDriver) -> None:
        self._shell = shell
        self._driver = driver
        self._is_open = False

    def refused_at_once(self, error: KafkaGuardError) -> None:
        """Take note of a record that was never handed over: the rest is incomplete."""
        if self._shell.is_transactional:
            self._driver.machine.spoil_transaction(error)

    def refusal_of(self, error: KafkaError, topic: str) -> KafkaGuardError:
        """Make the error for a record that the client did not take."""
        return errors.translate(
            error, api="Produce", topic=topic, context={"transactional": True}
        )

    async def begin(self) -> None:
        """Begin a transaction."""
        await self._shell.producer.begin_transaction()
        self._driver.machine.new_transaction()
        self._is_open = True

    async def commit(self) -> None:
        """Commit."""
        await self._driver.wait(time.monotonic() + self._shell.traits.delivery_timeout)
        if self._driver.machine.transaction_failure is not None:
            raise self._driver.machine.transaction_failure
        await self._shell.producer.commit_transaction()
        self._is_open = False

    async def abort(self) -> None:
        """Abort."""
        await self._shell.producer.abort_transaction()
        self._is_open = False

    async def add_offsets(self, offsets: Any, group_id: Any) -> None:
        """Add offsets."""
        await self._shell.producer.send_offsets_to_transaction(offsets, group_id)

    async def give_up(self, seconds: float) -> KafkaGuardError | None:
        """Abort what is open, within seconds."""
        if self._is_open:
            async with asyncio.timeout(seconds):
                await self.abort()
        return None

    @asynccontextmanager
    async def block(self, producer: Any) -> AsyncIterator[Any]:
        """Begin, and commit or abort."""
        await producer.begin_transaction()
        try:
            yield producer
        except BaseException:
            await producer.abort_transaction()
            raise
        await producer.commit_transaction()
