"""``process()`` of guarded consumers."""

from __future__ import annotations

from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any

from kafkaguard._delivery.dialects import has_group
from kafkaguard._errors import ClientConfigurationError, ClientStateError
from kafkaguard._processing.handling import never_runs
from kafkaguard_adapters.guard import guard
from kafkaguard_adapters.processing.arguments import Arguments
from kafkaguard_adapters.processing.driver_base import LETTERS_GROUP
from kafkaguard_adapters.processing.task_driver import TaskDriver
from kafkaguard_adapters.processing.thread_driver import ThreadDriver

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kafkaguard._processing.policy import Order
    from kafkaguard._processing.report import ProcessReport, Progress
    from kafkaguard_adapters.building import Wish
    from kafkaguard_adapters.processing.shell import AwaitedShell, ThreadShell

NOT_RUNNING = "this consumer handles no records now: progress() works during process()"
RUNNING = "process() is running already: call it once, with more workers"


class ProcessingBase:
    """What consumers with blocking and with awaited calls do alike."""

    _wish: Wish
    _group: str | None
    _group_setting, _reset_setting = "group_id", "auto_offset_reset"
    _run_driver: Any = None

    def progress(self) -> Progress:
        """Return how the run of ``process()`` stands; with threads, in any of them.

        Raises:
            ClientStateError: ``process()`` does not run.
        """
        if self._run_driver is None:
            raise ClientStateError(NOT_RUNNING)
        progress: Progress = self._run_driver.progress()
        return progress

    def _begin_run(self, arguments: Arguments) -> Any:
        """Return the consumer that a run reads with: this one, or that of the letters.

        Raises:
            ClientStateError: A run is under way.
            ClientConfigurationError: The consumer of letters cannot be built.
        """
        if self._run_driver is not None:
            raise ClientStateError(RUNNING)
        return self._open_letters(arguments.letters) if arguments.letters else self

    def _given_config(self) -> dict[str, Any]:
        return dict(self._wish.config or {})

    def _open_letters(self, topic: str) -> Any:
        """Build a guarded consumer of the group of letters.

        Raises:
            ClientConfigurationError: The guard cannot build it, or the letters do not
                say which group has set them aside.
        """
        wish, group = self._wish, self._group
        dialect = wish.policy.dead_letter.headers
        why = None
        if wish.factory is None:
            why = "the guard must build the consumer: guard(factory=..., config={...})"
        elif group is None:
            why = "the consumer has no group"
        elif not has_group(dialect):
            why = (
                f"dead letters with dead_letter.headers: {dialect} do not say which "
                "group has set them aside"
            )
        if why is not None or wish.factory is None:
            raise ClientConfigurationError(f"process(letters={topic!r}): {why}")
        config = self._given_config() | {
            self._group_setting: f"{group}{LETTERS_GROUP}",
            self._reset_setting: "earliest",
        }
        letters = wish.policy.dead_letter.model_copy(update={"topic": topic})
        other = guard(
            factory=wish.factory,
            config=config,
            policy=wish.policy.replace(dead_letter=letters),
            on_event=wish.on_event,
        )
        other.subscribe([topic])
        return other


class Processing(ProcessingBase):
    """The part of a guarded consumer that handles records."""

    _run_driver: ThreadDriver | None = None

    def _make_process_shell(self, arguments: Arguments) -> ThreadShell:
        """Return the shell of a run.

        Raises:
            KafkaGuardError: The client's settings do not allow it.
        """
        raise NotImplementedError

    def process(  # noqa: PLR0913 - each is a choice of the caller
        self,
        handler: Callable[[Any], object],
        *,
        workers: int = 1,
        order: Order = "partition",
        batch: int | None = None,
        producer: Any = None,
        dead_letter_producer: Any = None,
        stop: Any = None,
        idle_timeout: float | None = None,
        until_end: bool = False,
        letters: str | None = None,
    ) -> ProcessReport:
        """Read records and call a handler with each, until the run is told to end.

        What is done is committed; what fails is tried again or set aside, as the block
        ``handler`` of the policy, ``on_reject`` and ``dead_letter`` say. A record is
        handled at least once.

        Args:
            handler: Gets the client's record; with ``batch``, a list of them. It runs
                in a thread of its own. So do the client's deserialisers.
            workers: How many calls of the handler run at a time.
            order: Which records are handled one after the other: those of a
                ``"partition"``, of a ``"key"`` (records without a key have no order),
                or ``"none"``.
            batch: The most records of a list for the handler. Default: single records.
            producer: A guarded transactional producer: what the handler sends through
                it, dead letters and offsets are committed together, exactly once. What
                a handler sends is kept until it returns, and dropped if it raises. The
                consumer must read ``read_committed``.
            dead_letter_producer: The producer of dead letters, without serialisers.
                Default: one with the consumer's settings, where they are known.
            stop: An event (``threading.Event``) that ends the run.
            idle_timeout: After so many seconds without a record the run ends.
            until_end: Whether the run ends at the ends that the logs had when it read
                their partitions first.
            letters: Handle the dead letters of this consumer's group in this topic
                again, as the records that were first read, instead of what the consumer
                has subscribed to. Another consumer, of the group ``<group>.letters``,
                reads them, up to their end. The guard must have built the consumer.

        Returns:
            How many records were handled, retried, set aside, committed.

        Raises:
            TypeError: An argument has the wrong type, or the handler is a coroutine
                function.
            ValueError: An argument is out of range.
            KafkaGuardError: The client's settings do not allow it, or it failed.
            Exception: What the handler raised for a record, with ``on_reject: raise``.
                A note names the record's topic, partition, offset and attempts.
        """
        if (why := never_runs(handler, awaited=False)) is not None:
            raise TypeError(
                f"process() of this client calls plain functions, and {why}: write "
                "`def handle(record)`, or use aiokafka for `async def`"
            )
        arguments = Arguments(
            *(handler, workers, order, batch, producer, dead_letter_producer, stop),
            *(idle_timeout, until_end, letters),
        )
        consumer = self._begin_run(arguments)
        try:
            shell = consumer._make_process_shell(arguments)  # noqa: SLF001 - of this class
            wish = consumer._wish  # noqa: SLF001 - of this class
            self._run_driver = driver = ThreadDriver(
                shell, arguments, wish.policy, wish.on_event
            )
            return driver.run()
        finally:
            self._run_driver = None
            if consumer is not self:
                consumer.close()

    def _finish_run(self) -> None:
        """End the run, and wait for it, before the client is closed."""
        driver = self._run_driver
        if driver is not None:
            driver.finish()


class AwaitedProcessing(ProcessingBase):
    """The part of a guarded consumer with awaited calls that handles records."""

    _run_driver: TaskDriver | None = None

    async def _make_process_shell(self, arguments: Arguments) -> AwaitedShell:
        """Return the shell of a run; see :class:`Processing`."""
        raise NotImplementedError

    async def process(  # noqa: PLR0913 - each is a choice of the caller
        self,
        handler: Callable[[Any], Awaitable[object]],
        *,
        workers: int = 1,
        order: Order = "partition",
        batch: int | None = None,
        producer: Any = None,
        dead_letter_producer: Any = None,
        stop: Any = None,
        idle_timeout: float | None = None,
        until_end: bool = False,
        letters: str | None = None,
    ) -> ProcessReport:
        """Read records and call a handler with each, until the run is told to end.

        What is done is committed; what fails is tried again or set aside, as the block
        ``handler`` of the policy, ``on_reject`` and ``dead_letter`` say. A record is
        handled at least once. If the task is cancelled, what runs may end first.

        Args:
            handler: A coroutine function, which gets the client's record; with
                ``batch``, a list of them.
            workers: How many calls of the handler run at a time.
            order: Which records are handled one after the other: those of a
                ``"partition"``, of a ``"key"`` (records without a key have no order),
                or ``"none"``.
            batch: The most records of a list for the handler. Default: single records.
            producer: A guarded transactional producer, which was started: what the
                handler sends through it, dead letters and offsets are committed
                together, exactly once. Only with ``assign()``, and with one
                ``transactional_id`` for these partitions: aiokafka commits offsets in a
                transaction without the group's generation, so the broker cannot fence a
                member of a group that has lost its partitions.
            dead_letter_producer: The producer of dead letters, without serialisers.
                Default: one with the consumer's settings.
            stop: An event (``asyncio.Event``) that ends the run.
            idle_timeout: After so many seconds without a record the run ends.
            until_end: Whether the run ends at the ends that the logs had when it read
                their partitions first.
            letters: Handle the dead letters of this consumer's group in this topic
                again, as the records that were first read, instead of what the consumer
                has subscribed to. Another consumer, of the group ``<group>.letters``,
                reads them, up to their end. The guard must have built the consumer.

        Returns:
            How many records were handled, retried, set aside, committed.

        Raises:
            TypeError: An argument has the wrong type, or the handler is no coroutine
                function.
            ValueError: An argument is out of range.
            KafkaGuardError: The client's settings do not allow it, or it failed.
            Exception: What the handler raised for a record, with ``on_reject: raise``.
                A note names the record's topic, partition, offset and attempts.
        """
        if not (
            iscoroutinefunction(handler)
            or iscoroutinefunction(getattr(handler, "__call__", None))  # noqa: B004 - of an object
        ):
            raise TypeError(
                "process() of aiokafka calls coroutine functions: write `async def "
                "handle(record)`; a plain function would stop the event loop"
            )
        arguments = Arguments(
            *(handler, workers, order, batch, producer, dead_letter_producer, stop),
            *(idle_timeout, until_end, letters),
        )
        consumer = self._begin_run(arguments)
        if consumer is not self:
            await consumer.start()
        try:
            make = consumer._make_process_shell  # noqa: SLF001 - of this class
            shell, wish = await make(arguments), consumer._wish  # noqa: SLF001 - the same
            self._run_driver = driver = TaskDriver(
                shell, arguments, wish.policy, wish.on_event
            )
            return await driver.run()
        finally:
            self._run_driver = None
            if consumer is not self:
                await consumer.stop()

    async def _finish_run(self) -> None:
        """End the run, and wait for it, before the client is closed."""
        driver = self._run_driver
        if driver is not None:
            await driver.finish()
