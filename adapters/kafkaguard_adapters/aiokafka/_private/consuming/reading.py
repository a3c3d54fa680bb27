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

import logging
from asyncio import _get_running_loop
from collections import OrderedDict
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any

from aiokafka.errors import ConsumerStoppedError, KafkaError

from kafkaguard.errors import ClientClosedError, KafkaGuardError
from kafkaguard_adapters.aiokafka._private.consuming.names import NEEDS_LOOP
from kafkaguard_adapters.aiokafka.errors import errors, wrong_loop

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
        self._coordinator, subscription = consumer._coordinator, consumer._subscription
        self._fetcher = fetcher = consumer._fetcher
        self._loop = loop
        self._tell = tell
        self._check_errors = self._coordinator.check_errors
        self._abort = subscription.abort_waiters
        self._close = fetcher.close
        subscription.abort_waiters = self._abort_waiters
        fetcher.close = self._close_fetcher
        fetched = _Fetched(tell)
        for place, result in fetcher._records.items():
            fetched[place] = result
        fetcher._records = fetched
        fetcher._fetch_task.add_done_callback(self._end)
        for owner, name in NEEDS_LOOP:
            at = {"fetcher": fetcher, "subscription": subscription}[owner]
            setattr(at, name, self._in_loop(getattr(at, name)))

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
            raise self.death
        try:
            self._check_errors()
        except KafkaError as error:
            self._tell()
            raise errors.translate(error) from error
        del self._coordinator.check_errors  # the error has gone

    def _abort_waiters(self, exc: BaseException) -> None:
        """Fail the reads that wait; the client calls this for errors of its group."""
        self._coordinator.check_errors = self._check
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
        self._coordinator.check_errors = self._check
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
