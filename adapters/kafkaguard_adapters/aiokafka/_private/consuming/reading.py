"""Reads of aiokafka: errors get both classes where they arise inside the client.

So the application awaits the client's own ``getone``, ``getmany`` and iterator, and a
record costs almost nothing more: the guard calls no function for it. The guard
translates the errors of the group, of fetches, of records that cannot be decoded, and
of reads that wait. After an error of the group or the end of the fetcher, the guard
takes the place of ``check_errors``, which the client calls for each read, until the
error has gone.
"""

# ruff: noqa: SLF001 - this module exists to use private attributes

from __future__ import annotations

import re
from asyncio import _get_running_loop
from collections import OrderedDict
from contextlib import contextmanager
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Final

from aiokafka.consumer.fetcher import PartitionRecords
from aiokafka.errors import ConsumerStoppedError, KafkaError

from kafkaguard._common.logs import Log
from kafkaguard._errors import ClientClosedError, KafkaGuardError
from kafkaguard_adapters.aiokafka._private.consuming.names import NEEDS_LOOP
from kafkaguard_adapters.aiokafka.errors import GROUP_ENDED, errors, wrong_loop

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator

_log = Log("consumer")
#: How the client names an error that it did not expect in the text of another.
_NAMED: Final = re.compile(r"(\w+)\(\)$")
#: How the client's error begins if a task for its group has ended for good.
_TASK_ENDED: Final = (
    "Unexpected error during coordination",
    "Unexpected exception in heartbeat task",
)


def close_unread(consumer: Any) -> None:
    """Close connections that nothing reads any more: requests would wait in vain.

    A second Ctrl-C lets ``asyncio.run()`` cancel all tasks, those that read answers
    too, and the client asks on until its request times out.
    """
    for connection in list(consumer._client._conns.values()):
        task = connection._read_task
        if task is not None and (task.done() or task.cancelling()):
            connection.close()


class Reading:
    """Translates the errors of an ``AIOKafkaConsumer`` that was started.

    Args:
        consumer: The client's consumer.
        loop: The event loop of the consumer.
        tell: Calls the hook with the events until now; called before an error.

    Attributes:
        death: The error of each read after the consumer has ended, or None.
    """

    death: KafkaGuardError | None = None

    def __init__(
        self,
        consumer: Any,
        loop: asyncio.AbstractEventLoop,
        tell: Callable[[], object],
    ) -> None:
        self._coordinator, subscription = consumer._coordinator, consumer._subscription
        self._fetcher = fetcher = consumer._fetcher
        self._loop = loop
        self._tell = tell
        self._check_errors = self._coordinator.check_errors
        self._abort = subscription.abort_waiters
        self._close = fetcher.close
        subscription.abort_waiters = self._abort_waiters
        fetcher.close = self._close_fetcher
        fetched = _Fetched(tell, self._wake)
        for place, result in fetcher._records.items():
            fetched[place] = result
        fetcher._records = fetched
        fetcher._fetch_task.add_done_callback(self._end)
        for owner, name in NEEDS_LOOP:
            at = {"fetcher": fetcher, "subscription": subscription}[owner]
            setattr(at, name, self._in_loop(getattr(at, name)))

    def _wake(self) -> None:
        """Let the reads that wait look again, once they do wait."""
        self._loop.call_soon(self._notify_waiters)

    def _notify_waiters(self) -> None:
        for waiter in list(self._fetcher._fetch_waiters):
            self._fetcher._notify(waiter)

    def _in_loop(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Let a call fail in another event loop, where a read would wait for ever."""

        @wraps(call)
        def checked(*args: Any) -> Any:
            if _get_running_loop() not in (self._loop, None):
                raise wrong_loop("consumer")
            return call(*args)

        return checked

    def _check(self) -> None:
        """Raise the error of the group or of the fetcher; called for each read."""
        if self.death is not None:
            raise self.death.with_traceback(None)
        try:
            self._check_errors()
        except KafkaError as error:
            self._tell()
            raise _of_group(error) from error
        del self._coordinator.check_errors  # the error has gone

    def _abort_waiters(self, exc: BaseException) -> None:
        """Fail the reads that wait; the client calls this for errors of its group."""
        self._coordinator.check_errors = self._check
        self._tell()
        self._abort(_of_group(exc))

    async def _close_fetcher(self) -> None:
        """Fail ``getone``, as the client does; a ``getmany`` that waits ends empty."""
        self._fetcher._closed = True  # so that a getmany does not look at the error
        self._fail(errors.translate(ConsumerStoppedError()))
        await self._close()

    def _end(self, task: asyncio.Task[Any]) -> None:
        """Fail the pending reads if the fetcher has ended without ``stop()``."""
        if self._fetcher._closed:
            return
        cause = None if task.cancelled() else task.exception()
        self.end(
            errors.make(
                ClientClosedError,
                f"aiokafka's fetch task has ended ({cause!r}), so nothing will be read "
                "any more: stop this consumer and build a new one"
                if cause
                else "aiokafka's fetch task was cancelled, so nothing will be read any "
                "more: stop this consumer and build a new one",
            )
        )

    def end(self, error: KafkaGuardError) -> None:
        """Let all reads raise an error, those that wait too."""
        self.death = error
        self._coordinator.check_errors = self._check
        self._abort(error)
        self._fail(error)

    def _fail(self, error: KafkaGuardError) -> None:
        for waiter in [
            each for each in self._fetcher._fetch_waiters if not each.done()
        ]:
            waiter.set_exception(error)
            waiter.exception()  # else asyncio logs it if the read looks no more


def _of_group(error: BaseException) -> KafkaGuardError:
    """Return our error for one of the task that keeps the client in its group."""
    if any(text in str(error) for text in _TASK_ENDED):
        return errors.translate(error, verdict=GROUP_ENDED)
    named = _NAMED.search(str(error)) if type(error) is KafkaError else None
    cls = errors.class_named(named[1]) if named else None
    return errors.translate_read(error if cls is None else cls())


class _Fetched(OrderedDict[Any, Any]):
    """What was fetched and not read yet, by partition; errors get both classes.

    If a record cannot be decoded, the iterator over its fetch ends before it, and the
    client deletes the fetch. An error takes the place of the fetch then: the client
    raises it when it has nothing else to return, and fetches again from the position.
    """

    def __init__(self, tell: Callable[[], object], wake: Callable[[], object]) -> None:
        super().__init__()
        self.tell = tell
        self._wake = wake
        self._stops: dict[Any, _Undecoded] = {}

    def __setitem__(self, place: Any, result: Any) -> None:
        """Keep records, or the error of a fetch."""
        try:
            if hasattr(result, "check_raise"):
                result = _Failed(place, result, self.tell)
            else:
                records = result._partition_records
                records._records_iterator = self._decoded(
                    place, result, records._records_iterator
                )
        except Exception:  # noqa: BLE001 - else the fetcher would end
            _log.exception(
                "consumer_guard_failed",
                "the guard failed (a bug in kafkaguard: report it); the consumer reads "
                "on without it",
                topic=place.topic,
                partition=place.partition,
            )
        super().__setitem__(place, result)

    def __delitem__(self, place: Any) -> None:
        """Forget a fetch, and keep the error that has ended it."""
        super().__delitem__(place)
        stop = self._stops.pop(place, None)
        if stop is not None:
            super().__setitem__(place, stop)
            self._wake()

    def _decoded(self, place: Any, fetch: Any, records: Iterator[Any]) -> Iterator[Any]:
        """Yield the records of a fetch, up to the first that cannot be decoded."""
        try:
            yield from records
        except Exception as error:  # noqa: BLE001 - of the application's deserializer
            self._stops[place] = _Undecoded(place, fetch, error, self)


class _Failed:
    """A failed fetch, as the client keeps it."""

    def __init__(self, place: Any, result: Any, tell: Callable[[], object]) -> None:
        self._place = place
        self._raise = result.check_raise
        self._tell = tell
        self.calculate_backoff = result.calculate_backoff

    def check_raise(self) -> None:
        """Raise the error."""
        self._tell()
        with translated(topic=self._place.topic, partition=self._place.partition):
            self._raise()


class _Undecoded:
    """A fetch whose next record cannot be decoded.

    Args:
        place: The partition.
        fetch: The client's object for the fetch.
        error: What was raised.
        fetched: Where the rest of the fetch is put, once the error was raised.
    """

    def __init__(
        self, place: Any, fetch: Any, error: Exception, fetched: _Fetched
    ) -> None:
        self._place = place
        self._fetch = fetch
        self._records = fetch._partition_records
        self._position = self._records.next_fetch_offset
        self._error = error
        self._fetched = fetched

    def calculate_backoff(self) -> float:
        """Return how long other partitions of the same broker wait for this one."""
        return 0.0

    def check_raise(self) -> None:
        """Raise the error and go on behind the record, unless the position has moved.

        An error that is not about a single record leaves the position as it is.
        """
        assignment, error, place = self._fetch._assignment, self._error, self._place
        state = assignment.active and assignment.state_value(place)
        if not state or state.paused or not state.has_valid_position:
            return  # the client fetches from its position later
        if state.position != self._position:
            return
        self._fetched.tell()
        decoding = _variables(error, PartitionRecords._consumer_record)
        record = decoding.get("record")
        if record is None:
            with translated(topic=place.topic, partition=place.partition):
                raise error
        state.consumed_to(record.offset + 1)
        unpacking = _variables(error, _unpack_rest, PartitionRecords._unpack_records)
        batch = unpacking.get("next_batch")
        if hasattr(batch, "__next__"):  # else, in an old format, it is fetched again
            records = self._fetch._partition_records = self._records
            records.next_fetch_offset = record.offset + 1
            records._records_iterator = _unpack_rest(records, batch)
            self._fetched[place] = self._fetch
        raise errors.undecoded(
            error,
            "value" if "key" in decoding else "key",
            topic=place.topic,
            partition=place.partition,
            offset=record.offset,
            key=record.key,
            value=record.value,
            headers=tuple(record.headers),
        ) from error


def _unpack_rest(records: Any, next_batch: Any) -> Iterator[Any]:
    """Decode the rest of a batch, and the batches after it, as the client does.

    The client's own generator has ended with the error of a record in this batch.
    """
    for record in iter(partial(next, next_batch, None), None):
        decoded = records._consumer_record(records._tp, record)
        records.next_fetch_offset = record.offset + 1
        yield decoded
    records.next_fetch_offset = next_batch.next_offset
    yield from records._unpack_records()


def _variables(error: BaseException, *functions: Any) -> dict[str, Any]:
    """Return the variables of the first of these functions that raised an exception.

    The client's own variables have the record and its batch: nothing else needs to be
    kept for each record.
    """
    codes = {each.__code__ for each in functions}
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code in codes:
            return trace.tb_frame.f_locals
        trace = trace.tb_next
    return {}


@contextmanager
def translated(**place: Any) -> Iterator[None]:
    """Raise the client's errors as instances of both classes.

    Args:
        place: ``topic``, ``partition`` ...
    """
    try:
        yield
    except KafkaGuardError:
        raise
    except (KafkaError, ConsumerStoppedError) as error:
        raise errors.translate_read(error, **place) from error
