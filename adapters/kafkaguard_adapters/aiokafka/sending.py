"""The guard's part of ``send``, the hot path.

The guard's check is inside the client, where a record is added to its batch: after the
serialisers and the partitioner. So it works for any signature of ``send`` in a
subclass. Nothing is awaited between the check for a hold and the batch. So a hold never
has to wait for a running send.
"""

from __future__ import annotations

import asyncio
import operator
import time
from threading import get_ident
from typing import TYPE_CHECKING, Any

from aiokafka.errors import (
    IllegalOperation,
    KafkaError,
    KafkaTimeoutError,
    ProducerClosed,
    UnknownTopicOrPartitionError,
)

from kafkaguard._delivery.facts import Place, Raw
from kafkaguard._delivery.records import Record
from kafkaguard._delivery.time_limit import TimeLimit
from kafkaguard._errors import (
    ClientNotConnectedError,
    InvalidRecordKeyError,
    KafkaGuardError,
    PartitionNotThereError,
)
from kafkaguard._verdicts.classification import classify
from kafkaguard_adapters.aiokafka._private.producing import moving, reading
from kafkaguard_adapters.aiokafka.errors import errors
from kafkaguard_adapters.client_errors import recast
from kafkaguard_adapters.producing import send_errors
from kafkaguard_adapters.producing.null_keys import is_disguise

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from kafkaguard._delivery.machine import DeliveryMachine
    from kafkaguard_adapters.aiokafka.shell import AIOKafkaShell
    from kafkaguard_adapters.aiokafka.transactions import Transactions
    from kafkaguard_adapters.producing.null_keys import AwaitedNullKeyCheck
    from kafkaguard_adapters.producing.task_driver import TaskDriver

_SETTING = "request_timeout_ms"


class Sending:
    """Hands records to the client that is in use.

    Args:
        null_keys_allowed: Topics for which records without a key need no check.
        null_keys: Refuses records without a key.
        sets_aside: Whether the policy may send dead letters.
        loop: The event loop of the producer.
        check: Raises an error if nothing can be sent.

    Attributes:
        is_usable: Whether ``check`` would pass, as far as is known.
    """

    __slots__ = (
        "_client",
        "_is_disguised",
        "_is_running",
        "_loop",
        "_null_keys_allowed",
        "_sets_aside",
        "_thread",
        "check",
        "driver",
        "is_usable",
        "machine",
        "null_keys",
        "shell",
        "transactions",
    )

    shell: AIOKafkaShell
    driver: TaskDriver
    machine: DeliveryMachine
    transactions: Transactions

    def __init__(
        self,
        null_keys_allowed: set[str],
        null_keys: AwaitedNullKeyCheck,
        *,
        sets_aside: bool,
        loop: asyncio.AbstractEventLoop,
        check: Callable[[], None],
    ) -> None:
        self._null_keys_allowed = null_keys_allowed
        self.null_keys = null_keys
        self._sets_aside = sets_aside
        self._loop = loop
        #: Whether the loop runs, and the thread in which a check found it running.
        #: Together they mean ``get_running_loop() is loop``, which is a system call in
        #: Python 3.11.
        self._is_running = loop.is_running
        self._thread: int | None = None
        self.check = check
        self.is_usable = False
        self._client: Any = None
        #: Whether the serialiser has turned the next record's key from None into text.
        self._is_disguised = False

    def use(
        self, shell: AIOKafkaShell, driver: TaskDriver, transactions: Transactions
    ) -> None:
        """Use this shell, driver and these transactions from now on."""
        self.shell, self.driver, self.machine = shell, driver, driver.machine
        self.transactions = transactions

    def use_client(self, producer: Any) -> None:
        """Send with this client from now on."""
        if producer is self._client:
            return
        self._client = producer
        if self.null_keys.minds_disguises:
            moving.wrap_key_serializer(producer, self._note_key)
        if self._sets_aside:
            moving.keep_large_records(producer)
        moving.check_topic_names(producer)
        moving.answer_for_known_topics(producer)

    def _note_key(self, key: Any, sent: Any) -> None:
        self._is_disguised = key is None and is_disguise(sent)

    async def send(
        self,
        topic: Any,
        value: Any = None,
        key: Any = None,
        partition: Any = None,
        timestamp_ms: Any = None,
        headers: Any = None,
    ) -> Any:
        """Send a record, as ``AIOKafkaProducer.send`` does.

        Args:
            topic: The topic. This and the next arguments are those of aiokafka.
            value: The value.
            key: The key.
            partition: The partition.
            timestamp_ms: The timestamp, in milliseconds since 1970.
            headers: The headers.

        Returns:
            The client's own future. If a record is refused and the policy's
            ``on_reject`` is not "raise", a future that fails with the error.

        Raises:
            InvalidRecordKeyError: The topic is compacted and the record has no key
                after serialisation. Nothing was sent. Also aiokafka's
                ``InvalidRecordError``.
            KafkaGuardError: The client raised another error. It also has the client's
                class.
        """
        if not (self.is_usable and get_ident() == self._thread and self._is_running()):
            await self.ready(topic_of((topic,), {}))
        client = self._client
        try:
            # Looked up each time: instrumentation may replace it, and adds headers if
            # the call has none. So what is None is left out.
            if partition is None and timestamp_ms is None and headers is None:
                return await client.send(topic, value, key)
            rest = _omit_none(
                partition=partition, timestamp_ms=timestamp_ms, headers=headers
            )
            return await client.send(topic, value, key, **rest)
        except Exception as error:  # noqa: BLE001 - raised again, unless handled
            rest = _omit_none(
                partition=partition, timestamp_ms=timestamp_ms, headers=headers
            )
            args = topic, value, key
            return await self.handle_exception(error, client, self.send, args, rest)

    async def ready(self, topic: str) -> None:
        """Wait for a client, if one is being built.

        Raises:
            KafkaGuardError: There is no client, or building it takes too long.
        """
        self.check()
        self._thread = get_ident()  # the check has found the loop running in it
        await self._wait_until_free(topic, self.shell.traits.delivery_timeout)

    # --- before a record comes into a batch: Gate -------------------------------------

    def adding(self, add: moving.Add) -> moving.Add:
        """Return a function that adds a record, with the accumulator's parameters."""
        sending, null_keys_allowed = self, self._null_keys_allowed

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
                or (key is None and tp.topic not in null_keys_allowed)
                or sending._is_disguised
                or type(tp.partition) is not int
            ):
                raw = Raw(key, value, headers, timestamp_ms)
                return sending._add_checked(tp, raw, timeout)
            return add(tp, key, value, timeout, timestamp_ms, headers)

        return add_message

    async def _add_checked(self, tp: Any, raw: Raw, within: float) -> Any:
        """Add a record whose key must be checked, or whose topic may be held.

        Raises:
            TypeError: The partition is not a number: the client's sender would die
                of it.
        """
        operator.index(tp.partition)
        is_disguised, self._is_disguised = self._is_disguised, False
        if raw.key is None or is_disguised:
            record_error = await self._key_error(tp.topic, is_disguised=is_disguised)
            if record_error is not None:
                self.transactions.spoil(record_error)
                return self._refuse(record_error, Place(tp.topic), raw)
        seconds = await self._wait_until_free(tp.topic, within)
        return await self.shell.add(
            tp, raw.key, raw.value, seconds, raw.timestamp_ms, raw.headers
        )

    async def add_batch(self, builder: Any, tp: Any, timeout: float) -> Any:  # noqa: ASYNC109 - the client's own signature
        """Add a batch that the application has built.

        Raises:
            TypeError: It is not a batch, or the partition is not a number: the client's
                sender would die of it.
        """
        if not moving.is_batch(builder):
            raise TypeError(
                "send_batch(batch): what create_batch() has returned, not "
                f"{type(builder).__name__}; nothing was sent"
            )
        operator.index(tp.partition)
        count = moving.null_keys_in(builder)
        if count:
            record_error = await self._key_error(tp.topic, is_disguised=False)
            if record_error is not None:
                record_error.summary = (
                    f"topic is compacted and {count} of {builder.record_count()} "
                    "records of the batch have no key; nothing of it was sent"
                )
                self.transactions.spoil(record_error)
                self.driver.raised(record_error)
                raise record_error
        seconds = await self._wait_until_free(tp.topic, timeout)
        return await self.shell.add_batch(builder, tp, seconds)

    async def wait_for_room(self, topic: str) -> None:
        """Let a record that waited for room also wait for a hold of its topic."""
        await self._wait_until_free(topic, self.shell.traits.delivery_timeout)

    async def _wait_until_free(self, topic: str, within: float) -> float:
        """Wait until a topic is not held; return the seconds that are left."""
        if self.machine.holds and self.driver.is_held(topic):
            return await self.driver.wait_while_held(topic, TimeLimit(within, _SETTING))
        return within

    async def _key_error(
        self, topic: str, *, is_disguised: bool
    ) -> InvalidRecordKeyError | None:
        """Return the error of a record without a key for a compacted topic."""
        try:
            await self.null_keys.check(topic, is_disguised=is_disguised)
        except InvalidRecordKeyError as error:
            return error
        except Exception as error:  # noqa: BLE001 - a bug of the guard must not fail a send
            self.driver.fault(
                "the check for a null key failed; the batch is sent without it", error
            )
        return None

    # --- records that the guard or the client refuses ---------------------------------

    def _refuse(
        self, error: KafkaGuardError, place: Place, raw: Raw | None
    ) -> asyncio.Future[Any]:
        """Handle a refused record as the policy says.

        Returns:
            A future that gets the record's outcome.

        Raises:
            KafkaGuardError: The policy's ``on_reject`` is "raise".
        """
        if self.machine.on_reject(error) == "raise":
            self.driver.raised(error)
            raise error
        future = self._loop.create_future()
        self.driver.refused_at_once(future, place, raw, error)
        return future

    async def handle_exception(
        self,
        error: Exception,
        client: Any,
        send: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        call: Record | None = None,
    ) -> Any:
        """Handle what a sending method of the client has raised.

        Args:
            error: The exception.
            client: The client that has raised it.
            send: The method to call again if the client is being replaced.
            args: The positional arguments of the call.
            kwargs: The keyword arguments of the call.
            call: The call's attempts, if it was retried before.

        Raises:
            KafkaGuardError: The client did not accept the record.
            Exception: The client raised anything else.
        """
        topic = topic_of(args, kwargs)
        if isinstance(error, AssertionError):
            error = moving.refused_partition(client, error, _make_not_there) or error
        if isinstance(error, PartitionNotThereError):
            return await self._look_for_partition(error, client, send, args, kwargs)
        if isinstance(error, KafkaGuardError):
            raise error
        if isinstance(error, IllegalOperation) and self.shell.is_transactional:
            raise self.transactions.error_of(error, topic) from error
        if not isinstance(error, KafkaError):
            self.transactions.spoil(send_errors.make_raised(errors, error, topic))
            raise error
        is_dead = client is not self._client or self.shell.death is not None
        if isinstance(error, ProducerClosed) or is_dead:
            if self._is_being_replaced(topic):
                return await send(*args, **kwargs)
            self.check()
        record_error = self.error_of(error, topic)
        if isinstance(error, KafkaTimeoutError):
            now = time.monotonic()
            # The client has used up its own time limit for the call.
            due = now + self.shell.traits.margin
            call = call or Record(None, None, 0, Place(topic), due, None)
            wait = self.machine.wait_after(call, record_error, now)
            if wait is not None:
                return await self._try_again(wait, call, send, args, kwargs)
        self.transactions.spoil(record_error)
        return self._refuse(
            record_error, Place(topic), moving.bytes_of(error, args, kwargs)
        )

    async def _try_again(
        self,
        wait: float,
        call: Record,
        send: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Retry, after the policy's wait, a call for which there was no room."""
        await asyncio.sleep(wait)
        client = self._client
        try:
            return await getattr(client, send.__name__)(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - raised again, unless handled
            return await self.handle_exception(error, client, send, args, kwargs, call)

    async def _look_for_partition(
        self,
        error: PartitionNotThereError,
        client: Any,
        send: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Handle a record for a partition that the client does not know.

        Its knowledge may be old, so the brokers are asked first.
        """
        topic, partition = topic_of(args, kwargs), error.partition
        within = self.shell.traits.delivery_timeout
        partitions = await moving.fresh_partitions(client, topic, within)
        if partitions is not None and partition in partitions:
            return await send(*args, **kwargs)
        partition_error = _make_not_there(topic, partition, partitions)
        self.transactions.spoil(partition_error)
        raw = moving.bytes_of(error, args, kwargs)
        if raw is not None:
            return self._refuse(partition_error, Place(topic), raw)
        self.driver.raised(partition_error)  # a batch that the application has built
        raise partition_error

    def _is_being_replaced(self, topic: str) -> bool:
        """Return whether a new send would wait for, or use, another client."""
        return self.is_usable or self.driver.is_held(topic)

    # --- errors -----------------------------------------------------------------------

    async def check_letter(self, topic: str, key: bytes | None) -> None:
        """Refuse a dead letter without a key for a compacted topic.

        Raises:
            InvalidRecordKeyError: The topic is compacted and the key is missing.
        """
        if key is None:
            record_error = await self._key_error(topic, is_disguised=False)
            if record_error is not None:
                raise record_error

    def not_sent(self, error: Exception, topic: str) -> Exception:
        """Return the error of a dead letter that the client did not accept."""
        return send_errors.make_letter_error(
            errors, error, topic, KafkaError, self.error_of
        )

    def error_of(self, error: KafkaError, topic: str) -> KafkaGuardError:
        """Return the error for a record that the client did not accept."""
        if isinstance(error, ProducerClosed):
            return recast(send_errors.make_closed(errors, topic), ProducerClosed)
        if self.shell.is_transactional:
            return self.transactions.error_of(error, topic)
        seconds = self.shell.traits.delivery_timeout
        limit = f"{seconds:g} s ({_SETTING})"
        is_unknown = isinstance(error, UnknownTopicOrPartitionError)
        start = time.time() - seconds
        if is_unknown and not reading.has_metadata_since(self._client, start):
            why = "no broker answers: check bootstrap_servers and the network"
            if reading.has_connection(self._client):
                why = f"no broker has said in this time whether topic {topic} exists"
            return errors.make(
                ClientNotConnectedError,
                f"nothing was sent within {limit}, because {why}",
                verdict=classify(ClientNotConnectedError(), api="Produce"),
                theirs=type(error),
                original=error,
                api="Produce",
                topic=topic,
            )
        details: dict[str, Any] = {}
        message = None
        if isinstance(error, KafkaTimeoutError):
            message = (
                f"nothing was sent within {limit}, because the client's buffer has no "
                "room: earlier batches of this partition have no answer yet"
            )
            details["verdict"] = classify(error, api="Produce", phase="enqueue")
        return errors.translate(
            error,
            message=message,
            context={"phase": "enqueue"},
            api="Produce",
            topic=topic,
            **details,
        )


def _omit_none(**arguments: Any) -> dict[str, Any]:
    return {name: each for name, each in arguments.items() if each is not None}


def topic_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Return the topic of a call; an empty string if it is not known."""
    values = (*kwargs.values(), *args) if "topic" not in kwargs else (kwargs["topic"],)
    names = (each for each in (*args[:2], *values) if isinstance(each, str))
    return next(names, "")


def _make_not_there(
    topic: str, partition: Any, partitions: Collection[int] | None
) -> KafkaGuardError:
    """Make the error for a partition, in the class that aiokafka raises for it."""
    return send_errors.make_not_there(
        errors, topic, partition, partitions, theirs=AssertionError
    )
