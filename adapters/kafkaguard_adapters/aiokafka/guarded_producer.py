"""The guarded ``aiokafka.AIOKafkaProducer``."""

from __future__ import annotations

import asyncio
import os
import time
from asyncio import get_running_loop
from typing import TYPE_CHECKING, Any

from aiokafka.errors import IllegalStateError, KafkaError, ProducerClosed

from kafkaguard._common.observing import traced
from kafkaguard._delivery.judging import ends_all
from kafkaguard._delivery.report import DeliveryReport, ForkedProducerError
from kafkaguard._errors import (
    ClientClosedError,
    ClientStateError,
    ClientTimeoutError,
    KafkaGuardError,
)
from kafkaguard_adapters.aiokafka._private.producing import moving, reading
from kafkaguard_adapters.aiokafka.errors import NOT_STARTED, complete_table, errors
from kafkaguard_adapters.aiokafka.own_sending import OwnSending
from kafkaguard_adapters.aiokafka.sending import Sending, topic_of
from kafkaguard_adapters.aiokafka.shell import AIOKafkaShell
from kafkaguard_adapters.aiokafka.stand_in import StandIn
from kafkaguard_adapters.aiokafka.transactions import Transactions
from kafkaguard_adapters.aiokafka.view import view_of
from kafkaguard_adapters.asking.cluster_calls import AsyncClusterCalls
from kafkaguard_adapters.asking.topic_facts import AwaitedFactsLookup
from kafkaguard_adapters.building import Builder
from kafkaguard_adapters.client_errors import OF_PARENT
from kafkaguard_adapters.forks import at_fork
from kafkaguard_adapters.policy_in_effect import GovernedProducer
from kafkaguard_adapters.producing import send_errors
from kafkaguard_adapters.producing.null_keys import AwaitedNullKeyCheck
from kafkaguard_adapters.producing.policies import check_transactional
from kafkaguard_adapters.producing.task_driver import TaskDriver
from kafkaguard_policies.model.policy import ways_of_rejecting

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from kafkaguard_adapters.building import Wish


#: Seconds that stop() and leaving an ``async with`` block take at most by default.
STOP_S = 30.0
#: How long a cancelled stop() may take to close the client, in seconds.
_CANCELLED_S = 1.0
#: Seconds that flush() and start() wait beyond the client's ``request_timeout_ms``.
MARGIN_S = 10.0
#: Least seconds that the client has to end.
END_S = 1.0


class GuardedProducer(AsyncClusterCalls, GovernedProducer, StandIn):
    """An AIOKafkaProducer with the guard in front; other attributes are the client's.

    ``send`` is the method of ``Sending``. It is an attribute of the instance: on a
    class with ``__getattr__``, looking up a method takes twice as long.

    Args:
        producer: The client's producer.
        wish: What ``guard()`` was told.

    Raises:
        ClientConfigurationError: The policy does not suit a transactional producer.
        TypeError: The producer is guarded already.
    """

    _kind = "producer"
    _library = "aiokafka"

    def __init__(self, producer: Any, wish: Wish) -> None:
        if reading.is_guarded(producer):
            raise send_errors.make_guarded_already(producer)
        if reading.transactional_id(producer) is not None:
            check_transactional(wish.policy, errors)
        complete_table()
        super().__init__(producer, view_of(producer, wish.config, wish.cache))
        settings = reading.settings_of(producer)
        self._builder = Builder(wish, producer, settings, errors.make)
        self._wish = wish
        self._is_forked = self._is_stopped = False
        self._begin(producer)
        at_fork(self)

    def _begin(self, producer: Any) -> None:
        """Set up everything for a client, with no record pending."""
        view, cache, policy = self.cluster_view, self._wish.cache, self._wish.policy
        self._loop = loop = reading.loop_of(producer)
        self._why_not_started: BaseException | None = None
        self._lookup = AwaitedFactsLookup(view.topic_facts, cache)
        null_keys = AwaitedNullKeyCheck(
            self._lookup,
            errors,
            policy,
            transactional=reading.transactional_id(producer) is not None,
        )
        sending = OwnSending if reading.has_own_send(producer) else Sending
        self._sending = sending(
            cache.null_keys_allowed,
            null_keys,
            sets_aside="dead_letter" in ways_of_rejecting(policy),
            loop=loop,
            check=self._check,
        )
        self._shell = AIOKafkaShell(
            producer, self._builder, view.size_limit, self._sending, self._use
        )
        self._driver = TaskDriver(self._shell, self._wish, view, loop)
        self._transactions = Transactions(self._shell, self._driver, policy)
        self._sending.use(self._shell, self._driver, self._transactions)
        hook = self._wish.on_event
        self.send = traced(hook, self._sending.send)
        waiting = GuardedProducer.send_and_wait.__get__(self)
        call = traced(hook, waiting, producer.send_and_wait)
        if call is not waiting:
            self.__dict__["send_and_wait"] = call

    def _use(self, producer: Any) -> None:
        """Record the client in use, and whether it is alive."""
        self.client = producer
        self._sending.use_client(producer)
        self._look_whether_usable()

    def _look_whether_usable(self) -> None:
        self._sending.is_usable = (
            reading.was_started(self.client)
            and not self._is_stopped
            and not self._is_forked
            and self._shell.death is None
        )

    # --- the life of a producer -------------------------------------------------------

    async def start(self) -> None:
        """Start the client; if that fails, close what it has opened.

        After a failed start, you can call it again. If the producer is started already,
        the call does nothing.

        Raises:
            KafkaGuardError: The client raised an error, which also has the client's
                class; or it did not start within ``request_timeout_ms`` plus 10 s.
        """
        await self._begin_in_child()
        self._check_process()
        await self._start()

    async def _start(self) -> None:
        if self._is_stopped:
            raise self._closed("start() does not open it again")
        if reading.was_started(self.client):
            return
        within = self._shell.traits.delivery_timeout + MARGIN_S
        try:
            async with asyncio.timeout(within):
                await super().start()
        except TimeoutError as error:
            self._why_not_started = late = errors.make(
                ClientTimeoutError,
                f"the producer did not start within {within:g} s: check "
                "bootstrap_servers and whether a broker answers",
            )
            raise late from error
        except BaseException as error:
            self._why_not_started = error
            raise
        self._why_not_started = None
        self._shell.watch(self.client)
        self._look_whether_usable()

    # --- forks ------------------------------------------------------------------------

    def after_fork(self) -> Any:
        """In a forked child: stop using the client; return what must stay alive."""
        self._is_forked = True
        self._sending.is_usable = False
        self._beginning = asyncio.Lock()
        self.send = self._send_in_child
        return [self._shell, self.client]

    async def _send_in_child(self, *args: Any, **kwargs: Any) -> Any:
        """Send with a new producer that belongs to the forked child."""
        await self._begin_in_child()
        self._check_process()
        return await self.send(*args, **kwargs)

    async def _begin_in_child(self) -> None:
        """Build and start a producer for the forked child, if a factory was given."""
        if not (self._is_forked and self._builder.was_given) or self._is_stopped:
            return
        async with self._beginning:
            if not self._is_forked:
                return  # another call has done it
            refuse = self.send
            try:
                self._begin(self._builder.build())
                await self._start()
            finally:
                self._is_forked = not reading.was_started(self.client)
                if self._is_forked:
                    self.send = refuse
            self._look_whether_usable()

    # --- whether it can be used -------------------------------------------------------

    def _check(self) -> None:
        """Refuse a call that would wait for ever inside the client.

        Raises:
            KafkaGuardError: The producer was not started, did not start, was stopped,
                is dead, or belongs to another event loop or process.
        """
        self._check_process()
        if self._is_stopped:
            raise self._closed("nothing was sent")
        if self._why_not_started is not None:
            why = self._why_not_started
            raise errors.make(
                ClientStateError,
                f"the producer did not start ({_reason(why)}), so nothing was sent",
                theirs=IllegalStateError,
                verdict=NOT_STARTED,
            ) from why
        if not reading.was_started(self.client):
            raise errors.make(
                ClientStateError,
                "the producer was not started, so nothing was sent: await "
                "producer.start() first, or use async with",
                theirs=IllegalStateError,
                verdict=NOT_STARTED,
            )
        death = self._shell.death
        if self._shell.is_transactional:
            return  # the transactional calls raise the right error
        if death is not None and None not in self._driver.machine.holds:
            raise self._dead(death)

    def _check_process(self) -> None:
        if self._is_forked:
            raise errors.make(
                ForkedProducerError,
                "this producer was made before fork(): its connections are the "
                f"parent's, and its tasks are not in this process ({os.getpid()}). "
                "Build it in the child: guard(factory=AIOKafkaProducer, config={...})",
                theirs=IllegalStateError,
                verdict=OF_PARENT,
            )
        self._check_loop()

    def _closed(self, consequence: str) -> KafkaGuardError:
        return errors.make(
            ClientClosedError,
            f"the producer was stopped: {consequence}. Build a new one",
            theirs=ProducerClosed,
        )

    def _dead(self, cause: BaseException) -> KafkaGuardError:
        advice = (
            "" if self._shell.traits.replaceable else
            "; it cannot be built again from its settings: use "
            "guard(factory=..., config={...})"
        )  # fmt: skip
        text = (
            f"the producer is dead ({type(cause).__name__}: {cause}), and nothing was "
            f"sent{advice}"
        )
        if ends_all(cause):
            return errors.translate(cause, message=text, api="Produce")
        error = errors.make(
            ClientClosedError, text, api="Produce", theirs=ProducerClosed
        )
        error.__cause__ = cause
        return error

    # --- sending ----------------------------------------------------------------------

    async def send_and_wait(self, *args: Any, **kwargs: Any) -> Any:
        """Send a record and wait for its outcome, as the client's own method does.

        Raises:
            KafkaGuardError: As for ``send``, and why the record failed.
        """
        return await self._call_client("send_and_wait", args, kwargs)

    async def send_batch(self, *args: Any, **kwargs: Any) -> Any:
        """Send a batch that ``create_batch`` has made, as the client's own method does.

        Returns:
            A future with one outcome for all records. If only some of the records are
            refused, the others are delivered, and the future fails with the error of a
            refused record.

        Raises:
            InvalidRecordKeyError: The topic is compacted, and a record has no key.
                Nothing was sent.
            KafkaGuardError: The client raised another error. It also has the client's
                class.
        """
        return await self._call_client("send_batch", args, kwargs)

    async def _call_client(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if self._is_forked:
            await self._begin_in_child()
        if not self._sending.is_usable or get_running_loop() is not self._loop:
            await self._sending.ready(topic_of(args, kwargs))
        client = self.client
        try:
            return await getattr(client, name)(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - raised again, unless handled
            future = await self._sending.handle_exception(
                error, client, getattr(self, name), args, kwargs
            )
            is_outcome = name == "send_and_wait" and isinstance(future, asyncio.Future)
            return await future if is_outcome else future

    def create_batch(self) -> Any:
        """Return an empty batch, as ``AIOKafkaProducer.create_batch`` does."""
        builder = self.client.create_batch()
        if self._sending.null_keys.is_on:
            moving.NullKeyNotes(builder)
        return builder

    async def partitions_for(self, topic: str) -> Any:
        """Return the partitions of a topic, as the client's own method does.

        Raises:
            KafkaGuardError: The client raised an error, which also has the client's
                class; or the call took longer than ``request_timeout_ms`` plus 10 s.
        """
        await self._begin_in_child()
        await self._sending.ready(topic)
        within = self._shell.traits.delivery_timeout + MARGIN_S
        try:
            async with asyncio.timeout(within):
                partitions = await self.client.partitions_for(topic)
                return set(partitions)  # sends of the topic use the same set
        except KafkaError as error:
            raise errors.translate(error, api="Metadata", topic=topic) from error
        except TimeoutError as error:
            raise errors.make(
                ClientTimeoutError,
                f"no broker answered with the partitions within {within:g} s",
                api="Metadata",
                topic=topic,
            ) from error

    # --- reports ----------------------------------------------------------------------

    async def flush(self, timeout: float | None = None) -> DeliveryReport:  # noqa: ASYNC109 - as for other clients
        """Wait until every record has its outcome, and return the report.

        Args:
            timeout: Seconds to wait at most, 0 or more. Default: the client's
                ``request_timeout_ms`` plus 10 s.

        Returns:
            The outcomes of the records since the last report.

        Raises:
            DeliveryFailed: Records failed and nobody has seen the failures, or records
                were still pending at the end (then also a ``KafkaTimeoutError``).
            TypeError: ``timeout`` is not a number.
            ValueError: ``timeout`` is negative.
        """
        send_errors.check_timeout("flush", timeout)
        self._check_process()
        if timeout is None:
            timeout = self._driver.machine.longest_s + MARGIN_S
        return self._report(await self._driver.wait(time.monotonic() + timeout))

    def report(self) -> DeliveryReport:
        """Return the outcomes of records since the last report, without waiting.

        The failures in the report count as seen from now on.
        """
        return self._driver.report(self._driver.pending())

    def _report(self, pending: int) -> DeliveryReport:
        report = self._driver.report(pending)
        if report.errors or report.pending:
            raise send_errors.make_delivery_failed(errors, report)
        return report

    async def stop(self, timeout: float | None = None) -> DeliveryReport:  # noqa: ASYNC109 - as for other clients
        """Flush, then stop the client, within a bound.

        Args:
            timeout: Seconds to wait at most, 0 or more. Default: 30. Records that are
                pending then are given up: IN_DOUBT if they were in flight, else failed.

        Returns:
            The outcomes of the records since the last report.

        Raises:
            asyncio.CancelledError: The call was cancelled; the client is closed then
                within a second or two, and a second call tells the outcomes.
            DeliveryFailed: Records failed, and nobody has seen the failures.
            ClientStateError: A transaction was open.
            TypeError: ``timeout`` is not a number.
            ValueError: ``timeout`` is negative.
        """
        send_errors.check_timeout("stop", timeout)
        if self._is_forked:
            return DeliveryReport()
        if self._is_stopped:
            return self._report(self._driver.pending())
        self._check_process()
        deadline = time.monotonic() + (STOP_S if timeout is None else timeout)
        late: KafkaGuardError | None = None
        try:
            await self._driver.wait(deadline)
            self._is_stopped = True
            self._look_whether_usable()
            self._shell.stop_replacing()
            left_open = await self._transactions.close(_left(deadline))
        except asyncio.CancelledError:
            deadline = min(deadline, time.monotonic() + _CANCELLED_S)
            raise
        finally:
            await self._driver.stop()
            await self._driver.settle_all()
            late = await self._close(_left(deadline))
        await self._driver.let_readers_run()
        if left_open is not None:
            report = self._driver.report(self._driver.pending())
            error = send_errors.make_left_open(errors, report, left_open.why)
            if late is not None:
                error.add_note(f"besides, on closing: {late}")
            raise error
        if late is not None:
            raise late
        return self._report(self._driver.pending())

    async def _close(self, within: float) -> KafkaGuardError | None:
        """Close the client; return the error if that took too long."""
        self._is_stopped = True
        self._look_whether_usable()
        self._lookup.close()
        await self.cluster_view.close()
        try:
            await self._shell.close(within)
        except TimeoutError as error:
            late = errors.make(
                ClientTimeoutError,
                f"the client's connections did not close within {within:g} s",
            )
            late.__cause__ = error
            return late
        return None

    async def _end(self) -> None:
        await self.stop()

    # --- transactions -----------------------------------------------------------------

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        """Begin a transaction; the end of the block commits it, an exception aborts it.

        Raises:
            KafkaGuardError: As for ``begin_transaction`` and ``commit_transaction``.
        """
        return self._transactions.block(self)

    async def begin_transaction(self) -> None:
        """Begin a transaction; after a failed one, with a new producer of the same id.

        Raises:
            KafkaGuardError: The transaction cannot begin. FENCED: another instance has
                taken over the ``transactional_id``.
        """
        await self._begin_in_child()
        self._check()
        await self._transactions.begin()

    async def commit_transaction(self) -> None:
        """Commit within ``request_timeout_ms``; call it again to wait for longer.

        Raises:
            KafkaGuardError: ABORT: a record of the transaction failed. FENCED: another
                instance uses this ``transactional_id``. IN_DOUBT: the transaction may
                have been committed; the error says how to find out.
        """
        self._check_process()
        await self._transactions.commit()

    async def abort_transaction(self) -> None:
        """Abort within ``request_timeout_ms``.

        Raises:
            KafkaGuardError: The abort failed; the error says what to do.
        """
        self._check_process()
        await self._transactions.abort()

    async def send_offsets_to_transaction(self, offsets: Any, group_id: Any) -> None:
        """Add a consumer's offsets to the transaction, within ``request_timeout_ms``.

        aiokafka uses TxnOffsetCommit version 0, which has no generation. So a member of
        an older generation is not fenced. If two members may read the same partition,
        use one ``transactional_id`` for each input partition.

        Raises:
            KafkaGuardError: The offsets were not added.
        """
        self._check_process()
        await self._transactions.add_offsets(offsets, group_id)


def _reason(error: BaseException) -> str:
    """Say why start() failed, without the advice of its own error."""
    if isinstance(error, asyncio.CancelledError):
        return "start() was cancelled"
    if isinstance(error, KafkaGuardError):
        return f"{error.name}: {error.summary or error.original_text}"
    return f"{type(error).__name__}: {error}"


def _left(deadline: float) -> float:
    return max(END_S, deadline - time.monotonic())
