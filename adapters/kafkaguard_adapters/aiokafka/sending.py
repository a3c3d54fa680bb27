"""The guard's part of ``send``, the hot path.

The guard stands inside the client, where a record comes to its batch: after the
serialisers and the choice of a partition, whatever signature a subclass gives ``send``.
Between the look at what is held and the batch nothing is awaited, so no record comes
into a batch that a hold would have to wait for.
"""

from __future__ import annotations

import asyncio
import time
from asyncio import get_running_loop
from functools import partial
from typing import TYPE_CHECKING, Any

from aiokafka.errors import (
    IllegalOperation,
    KafkaError,
    KafkaTimeoutError,
    ProducerClosed,
)

from kafkaguard._delivery.facts import Place, Raw
from kafkaguard._delivery.records import Record
from kafkaguard._verdicts.classification import classify
from kafkaguard.errors import (
    InvalidRecordKeyError,
    KafkaGuardError,
    PartitionNotThereError,
)
from kafkaguard_adapters.aiokafka._private.producing import moving
from kafkaguard_adapters.aiokafka.errors import errors
from kafkaguard_adapters.client_errors import recast
from kafkaguard_adapters.producing import told
from kafkaguard_adapters.producing.barrier import Limit
from kafkaguard_adapters.producing.null_keys import is_disguise

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaguard._delivery.machine import DeliveryMachine
    from kafkaguard._verdicts.topic_facts import AwaitedFactsLookup
    from kafkaguard_adapters.aiokafka.shell import AIOKafkaShell
    from kafkaguard_adapters.aiokafka.transactions import Transactions
    from kafkaguard_adapters.producing.null_keys import NullKeyRule
    from kafkaguard_adapters.producing.task_driver import TaskDriver

_SETTING = "request_timeout_ms"


class Sending:
    """Hands records to the client that is in use.

    Args:
        harmless: Topics for which a record without a key may pass unseen.
        lookup: Finds out which topics are compacted.
        rule: Says what becomes of a record without a key for such a topic.
        checks_keys: Refuse a record without a key for a compacted topic.
        sets_aside: There may be dead letters.
        loop: The event loop that all of it belongs to.
        check: Raises where nothing can be sent.

    Attributes:
        is_usable: Nothing is known that would keep ``check`` from passing.
    """

    __slots__ = (
        "_client",
        "_harmless",
        "_is_disguised",
        "_lookup",
        "_loop",
        "_rule",
        "_sets_aside",
        "check",
        "checks_keys",
        "driver",
        "is_usable",
        "machine",
        "shell",
        "transactions",
    )

    shell: AIOKafkaShell
    driver: TaskDriver
    machine: DeliveryMachine
    transactions: Transactions

    def __init__(
        self,
        harmless: set[str],
        lookup: AwaitedFactsLookup,
        rule: NullKeyRule,
        *,
        checks_keys: bool,
        sets_aside: bool,
        loop: asyncio.AbstractEventLoop,
        check: Callable[[], None],
    ) -> None:
        self._harmless = harmless
        self._lookup = lookup
        self._rule = rule
        self.checks_keys = checks_keys
        self._sets_aside = sets_aside
        self._loop = loop
        self.check = check
        self.is_usable = False
        self._client: Any = None
        #: The key of the next record is a text that was made of None.
        self._is_disguised = False

    def use(
        self, shell: AIOKafkaShell, driver: TaskDriver, transactions: Transactions
    ) -> None:
        """Send by these from now on."""
        self.shell, self.driver, self.machine = shell, driver, driver.machine
        self.transactions = transactions

    def use_client(self, producer: Any) -> None:
        """Send with this client from now on."""
        if producer is self._client:
            return
        self._client = producer
        if self.checks_keys and self._rule.minds_disguises:
            moving.wrap_key_serializer(producer, self._note_key)
        if self._sets_aside:
            moving.keep_large_records(producer)
        moving.check_partitioner(producer, partial(told.not_there, errors))

    def _note_key(self, key: Any, sent: Any) -> None:
        self._is_disguised = key is None and is_disguise(sent)

    async def send(self, *args: Any, **kwargs: Any) -> Any:
        """Send a record, as ``AIOKafkaProducer.send`` does.

        Args:
            args: As the client's own ``send`` takes them.
            kwargs: The same.

        Returns:
            The client's own future. Where the policy sets a refused record aside
            (``on_reject``), it fails with the error.

        Raises:
            InvalidRecordKeyError: The topic is compacted and the record has no key,
                after serialisers. Nothing was sent. Also an ``InvalidRecordError`` of
                aiokafka's kind.
            KafkaGuardError: What else the client raises, also of its own class.
        """
        if not self.is_usable or get_running_loop() is not self._loop:
            await self.ready(topic_of(args, kwargs))
        client = self._client
        try:
            # Looked up each time: instrumentation may replace it.
            return await client.send(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - raised again, unless mended
            return await self.not_accepted(error, client, self.send, args, kwargs)

    async def ready(self, topic: str) -> None:
        """Wait for a client, if one is being built.

        Raises:
            KafkaGuardError: There is none, or it takes too long.
        """
        self.check()
        await self._free(topic, self.shell.traits.delivery_timeout)

    # --- before a record comes into a batch: Gate -------------------------------------

    def adding(self, add: moving.Add) -> moving.Add:
        """Return what takes in a record, as the accumulator's own function does."""
        sending, harmless = self, self._harmless

        def add_message(
            tp: Any,
            key: Any,
            value: Any,
            timeout: float,
            timestamp_ms: Any = None,
            headers: Any = None,
        ) -> Any:
            if (
                sending.machine.holds
                or (key is None and tp.topic not in harmless)
                or sending._is_disguised
            ):
                raw = Raw(key, value, headers, timestamp_ms)
                return sending._add_checked(tp, raw, timeout)
            return add(tp, key, value, timeout, timestamp_ms, headers)

        return add_message

    async def _add_checked(self, tp: Any, raw: Raw, within: float) -> Any:
        """Record a record whose key has to be looked at, or whose topic is held."""
        is_disguised, self._is_disguised = self._is_disguised, False
        if raw.key is None or is_disguised:
            refusal = await self._refusal(tp.topic, is_disguised=is_disguised)
            if refusal is not None:
                self.transactions.refused_at_once(refusal)
                return self._refused(refusal, Place(tp.topic), raw)
        left = await self._free(tp.topic, within)
        return await self.shell.add(
            tp, raw.key, raw.value, left, raw.timestamp_ms, raw.headers
        )

    async def add_batch(self, builder: Any, tp: Any, timeout: float) -> Any:  # noqa: ASYNC109 - the client's own signature
        """Record a batch of the application's own."""
        count = moving.null_keys_in(builder)
        if count:
            refusal = await self._refusal(tp.topic, is_disguised=False)
            if refusal is not None:
                refusal.summary = (
                    f"topic is compacted and {count} of {builder.record_count()} "
                    "records of the batch have no key; nothing of it was sent"
                )
                self.transactions.refused_at_once(refusal)
                self.driver.raised(refusal)
                raise refusal
        left = await self._free(tp.topic, timeout)
        return await self.shell.add_batch(builder, tp, left)

    async def wait_for_room(self, topic: str) -> None:
        """Let a record that waited for room wait for what is sent again, too."""
        await self._free(topic, self.shell.traits.delivery_timeout)

    async def _free(self, topic: str, within: float) -> float:
        """Wait until a topic is free; return the seconds that are left."""
        if self.machine.holds and self.driver.is_held(topic):
            return await self.driver.wait_for(topic, Limit(within, _SETTING))
        return within

    async def _refusal(
        self, topic: str, *, is_disguised: bool
    ) -> InvalidRecordKeyError | None:
        """Return the error of a record without a key for a compacted topic."""
        if not self.checks_keys:
            return None
        try:
            if (await self._lookup.facts(topic)).compacted:
                self._rule.refuse(topic, is_disguised=is_disguised)
        except InvalidRecordKeyError as error:
            return error
        except Exception as error:  # noqa: BLE001 - a fault of ours must fail no send
            self.driver.fault(
                "the check for a null key failed; the batch is sent without it", error
            )
        return None

    # --- what the guard or the client refuses -----------------------------------------

    def _refused(
        self, error: KafkaGuardError, place: Place, raw: Raw | None
    ) -> asyncio.Future[Any]:
        """Deal with a record that is refused, as the policy says.

        Returns:
            The future of a record that is set aside.

        Raises:
            KafkaGuardError: It is not set aside.
        """
        if self.machine.on_reject(error) == "raise":
            self.driver.raised(error)
            raise error
        future = self._loop.create_future()
        self.driver.refused_at_once(future, place, raw, error)
        return future

    async def not_accepted(
        self,
        error: Exception,
        client: Any,
        send: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        call: Record | None = None,
    ) -> Any:
        """Deal with what a method of the client has raised that sends.

        Args:
            error: What it has raised.
            client: Who has.
            send: What to call again where the client is being replaced.
            args: With what it was called.
            kwargs: The same.
            call: Its attempts, if it was tried again before.

        Raises:
            KafkaGuardError: It did not take the record.
            Exception: Anything else that it has raised.
        """
        topic = topic_of(args, kwargs)
        if isinstance(error, PartitionNotThereError):
            self.transactions.refused_at_once(error)
            raw = moving.bytes_of(error, args, kwargs)
            if raw is not None:
                return self._refused(error, Place(topic), raw)
            self.driver.raised(error)  # a batch of the application's own
        if isinstance(error, KafkaGuardError):
            raise error
        if isinstance(error, IllegalOperation) and self.shell.is_transactional:
            raise self.transactions.refusal_of(error, topic) from error
        if not isinstance(error, KafkaError):
            self.transactions.refused_at_once(told.not_taken(errors, error, topic))
            raise error
        has_died = client is not self._client or self.shell.death is not None
        if isinstance(error, ProducerClosed) or has_died:
            if self._is_being_replaced(topic):
                return await send(*args, **kwargs)
            self.check()
        refusal = self.refusal_of(error, topic)
        if isinstance(error, KafkaTimeoutError):
            now = time.monotonic()
            # The call has had the client's time by now.
            due = now + self.shell.traits.margin
            call = call or Record(None, None, 0, Place(topic), due, None)
            wait = self.machine.wait_after(call, refusal, now)
            if wait is not None:
                return await self._try_again(wait, call, send, args, kwargs)
        self.transactions.refused_at_once(refusal)
        return self._refused(
            refusal, Place(topic), moving.bytes_of(error, args, kwargs)
        )

    async def _try_again(
        self,
        wait: float,
        call: Record,
        send: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Try anew, after the policy's wait, a call for which there was no room."""
        await asyncio.sleep(wait)
        client = self._client
        try:
            return await getattr(client, send.__name__)(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - raised again, unless mended
            return await self.not_accepted(error, client, send, args, kwargs, call)

    def _is_being_replaced(self, topic: str) -> bool:
        """Return whether a send that comes now waits, or finds another client."""
        return self.is_usable or self.driver.is_held(topic)

    # --- what an error means ----------------------------------------------------------

    async def check_letter(self, topic: str, key: bytes | None) -> None:
        """Refuse a dead letter without a key for a compacted topic.

        Raises:
            InvalidRecordKeyError: It is one.
        """
        if key is None:
            refusal = await self._refusal(topic, is_disguised=False)
            if refusal is not None:
                raise refusal

    def not_sent(self, error: Exception, topic: str) -> Exception:
        """Say why the client did not take a dead letter."""
        if isinstance(error, PartitionNotThereError):
            return error
        if isinstance(error, KafkaError):
            return self.refusal_of(error, topic)
        return told.not_taken(errors, error, topic)

    def refusal_of(self, error: KafkaError, topic: str) -> KafkaGuardError:
        """Make the error for a record that the client did not take."""
        if isinstance(error, ProducerClosed):
            return recast(told.closed(errors, topic), ProducerClosed)
        if self.shell.is_transactional:
            return self.transactions.refusal_of(error, topic)
        known: dict[str, Any] = {}
        message = None
        if isinstance(error, KafkaTimeoutError):
            message = (
                f"nothing was sent within {self.shell.traits.delivery_timeout:g} s "
                f"({_SETTING}): the client's buffer has no room, because earlier "
                "batches of this partition have no answer yet"
            )
            known["verdict"] = classify(error, api="Produce", phase="enqueue")
        return errors.translate(
            error,
            message=message,
            context={"phase": "enqueue"},
            api="Produce",
            topic=topic,
            **known,
        )


def topic_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Return the topic of a call, as far as it can be told."""
    given = (*kwargs.values(), *args) if "topic" not in kwargs else (kwargs["topic"],)
    named = [each for each in (*args[:2], *given) if isinstance(each, str)]
    return named[0] if named else ""
