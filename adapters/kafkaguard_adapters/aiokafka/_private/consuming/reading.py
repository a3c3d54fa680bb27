"""Reads of aiokafka: errors get both classes where they arise inside the client.

So the application awaits the client's own ``getone``, ``getmany`` and iterator, and a
record costs almost nothing more. The client checks for errors of its group at the
start of each read; the guard adds its own checks there. It also translates the errors
of fetches, of records that cannot be decoded, and of reads that wait.
"""

# ruff: noqa: SLF001 - this module exists to use private attributes

from __future__ import annotations

import logging
from asyncio import get_running_loop
from collections import OrderedDict
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from aiokafka.errors import ConsumerStoppedError, IllegalStateError, KafkaError

from kafkaguard.errors import ClientClosedError, ClientStateError, KafkaGuardError
from kafkaguard_adapters.aiokafka.errors import errors

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator

_log = logging.getLogger("kafkaguard.consumer")


class Reading:
    """Translates the errors of an ``AIOKafkaConsumer`` that was started.

    Args:
        consumer: The client's consumer.
        loop: The event loop of the consumer.
        tell: Calls the hook with the events until now; called before an error.

    Attributes:
        death: The error of each read after the fetcher has ended, or None.
    """

    death: KafkaGuardError | None = None

    def __init__(
        self,
        consumer: Any,
        loop: asyncio.AbstractEventLoop,
        tell: Callable[[], object],
    ) -> None:
        coordinator, subscription = consumer._coordinator, consumer._subscription
        self._fetcher = fetcher = consumer._fetcher
        self._loop = loop
        self._tell = tell
        self._check_errors = coordinator.check_errors
        self._abort = subscription.abort_waiters
        self._close = fetcher.close
        coordinator.check_errors = self._check
        subscription.abort_waiters = self._abort_waiters
        fetcher.close = self._close_fetcher
        fetched = _Fetched(tell)
        for place, result in fetcher._records.items():
            fetched[place] = result
        fetcher._records = fetched
        fetcher._fetch_task.add_done_callback(self._end)

    def _check(self) -> None:
        """Check what would make a read fail or wait for ever; called for each read."""
        if get_running_loop() is not self._loop:
            raise wrong_loop(self._loop)
        if self.death is not None:
            raise self.death
        try:
            self._check_errors()
        except KafkaError as error:
            self._tell()
            raise errors.translate(error) from error

    def _abort_waiters(self, exc: BaseException) -> None:
        """Fail the reads that wait; the client calls this for errors of its group."""
        self._tell()
        self._abort(errors.translate(exc))

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
        self.death = errors.make(
            ClientClosedError,
            f"the task that fetches has ended ({cause or 'it was cancelled'}), so "
            "nothing will be read any more: stop this consumer and build a new one",
        )
        self._fail(self.death)

    def _fail(self, error: KafkaGuardError) -> None:
        for waiter in [
            each for each in self._fetcher._fetch_waiters if not each.done()
        ]:
            waiter.set_exception(error)
            waiter.exception()  # else asyncio logs it if the read looks no more


class _Fetched(OrderedDict[Any, Any]):
    """What was fetched and not read yet, by partition; errors get both classes."""

    def __init__(self, tell: Callable[[], object]) -> None:
        super().__init__()
        self._tell = tell

    def __setitem__(self, place: Any, result: Any) -> None:
        """Keep records, or the error of a fetch."""
        try:
            if hasattr(result, "check_raise"):
                result = _Failed(place, result, self._tell)
            else:
                records = result._partition_records
                records._records_iterator = _decoded(place, records._records_iterator)
        except Exception:  # noqa: BLE001 - else the fetcher would end
            _log.exception("the guard failed; the consumer reads on without it")
        super().__setitem__(place, result)


class _Failed:
    """A failed fetch, as the client keeps it."""

    def __init__(self, place: Any, failed: Any, tell: Callable[[], object]) -> None:
        self._place = place
        self._raise = failed.check_raise
        self._tell = tell
        self.calculate_backoff = failed.calculate_backoff

    def check_raise(self) -> None:
        """Raise the error."""
        self._tell()
        with translated(topic=self._place.topic, partition=self._place.partition):
            self._raise()


def _decoded(place: Any, records: Iterator[Any]) -> Iterator[Any]:
    with translated(topic=place.topic, partition=place.partition):
        yield from records


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
        raise errors.translate(error, **place) from error


def wrong_loop(loop: asyncio.AbstractEventLoop) -> KafkaGuardError:
    """Return the error of a call from another event loop than the consumer's."""
    return errors.make(
        ClientStateError,
        f"the consumer belongs to the event loop {loop!r}, and the call came from "
        f"{get_running_loop()!r}: build it in the event loop that uses it",
        theirs=IllegalStateError,
    )
