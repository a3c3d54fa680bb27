"""The future of a guarded record: kafka-python's class, with the final outcome."""

from __future__ import annotations

import os
import time
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from kafka.errors import KafkaTimeoutError

from kafkaguard._delivery.records import Record
from kafkaguard._delivery.report import ForkedProducerError
from kafkaguard._verdicts.bare_errors import current_error
from kafkaguard_adapters.kafka_python._private import reading
from kafkaguard_adapters.kafka_python.errors import errors
from kafkaguard_adapters.producing.forks import KNOWN_TO_PARENT

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from kafkaguard._errors import KafkaGuardError
    from kafkaguard_adapters.producing.driver import ThreadDriver


class GuardedFuture:
    """Stands in for kafka-python's ``FutureRecordMetadata``.

    It follows the client's future. If the client's future fails, the guard decides: it
    sends the record again, and this future follows the new one, or this future fails
    with an error of kafkaguard's and kafka-python's class.
    """

    __slots__ = ("_driver", "_inner")

    def __init__(self, inner: Any, driver: ThreadDriver) -> None:
        self._inner = inner
        self._driver = driver

    @property  # type: ignore[misc]  # object's has a setter
    def __class__(self) -> type:
        """The client's class, so that ``isinstance`` holds."""
        return type(self._inner)

    def __getattr__(self, name: str) -> Any:
        """Delegate everything else to the client's future."""
        return getattr(self._inner, name)

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        """Raise TypeError: only this object in this process gets the outcome."""
        raise TypeError(
            "the future of a record cannot be pickled or copied: use the result of "
            "get()"
        )

    def __repr__(self) -> str:
        """Show the state, never the record."""
        state = "pending"
        if self.is_done:
            state = "failed" if self._find_error(is_seen=False) else "delivered"
        return f"<GuardedFuture {state}>"

    @property
    def is_done(self) -> bool:
        """Whether the record was delivered or has finally failed."""
        record = self._record()
        if record is None:
            return bool(self._inner.is_done)
        return record.outcome is not None

    @property
    def value(self) -> Any:
        """The RecordMetadata of a delivered record, else None."""
        record = self._record()
        if record is None:
            return self._inner.value
        outcome = record.outcome
        if outcome is None or outcome.error is not None:
            return None
        if outcome.offset is not None:
            return reading.metadata_at(record.token, outcome.offset)
        return reading.metadata_of(record.token)

    @property
    def exception(self) -> BaseException | None:
        """The error of a record that has finally failed, else None."""
        return self._find_error()

    def succeeded(self) -> bool:
        """Return whether the record was delivered."""
        return self.is_done and self._find_error() is None

    def failed(self) -> bool:
        """Return whether the record has finally failed."""
        return self._find_error() is not None

    def retriable(self) -> bool:
        """Return whether the record has failed and may be sent again unchanged."""
        error = self._find_error()
        return error is not None and error.verdict.retriable

    def success(self, value: Any) -> GuardedFuture:
        """Set the result of the client's future."""
        self._inner.success(value)
        return self

    def failure(self, error: Any) -> GuardedFuture:
        """Set the exception of the client's future."""
        self._inner.failure(error)
        return self

    def get(self, timeout: float | None = None) -> Any:
        """Wait for the record's outcome.

        Args:
            timeout: The most seconds to wait. Default: no limit; the client's
                ``delivery_timeout_ms`` bounds the wait.

        Returns:
            The RecordMetadata.

        Raises:
            ForkedProducerError: The record was sent before ``fork()``, this is the
                child, and the outcome was not known then.
            KafkaGuardError: The record has failed, or has no outcome within the
                timeout. The error also has kafka-python's class.
        """
        if self._driver.is_inherited and not self.is_done:
            raise self._make_not_known_here()
        deadline = None if timeout is None else time.monotonic() + timeout
        while (record := self._record()) is None:
            seconds = (
                None if deadline is None else max(0.0, deadline - time.monotonic())
            )
            try:
                return self._inner.get(seconds)
            except Exception as error:
                if not self._inner.failed():
                    raise self._make_still_open(error, timeout) from error
        seconds = None if deadline is None else max(0.0, deadline - time.monotonic())
        is_open = record.outcome is None  # if not, the driver's lock is not needed
        if is_open and not self._driver.wait_until_settled(record, seconds):
            raise self._make_still_open(KafkaTimeoutError(), timeout)
        failure = self._find_error()
        if failure is not None:
            raise failure
        return self.value

    def add_callback(self, f: Any, *args: Any, **kwargs: Any) -> GuardedFuture:
        """Call ``f`` with the RecordMetadata once the record is delivered."""
        return self._hook(True, f, args, kwargs)

    def add_errback(self, f: Any, *args: Any, **kwargs: Any) -> GuardedFuture:
        """Call ``f`` with the exception once the record has finally failed."""
        return self._hook(False, f, args, kwargs)

    def add_both(self, f: Any, *args: Any, **kwargs: Any) -> GuardedFuture:
        """Call ``f`` with the RecordMetadata or the exception."""
        self.add_callback(f, *args, **kwargs)
        return self.add_errback(f, *args, **kwargs)

    def chain(self, future: Any) -> GuardedFuture:
        """Give this future's outcome to another future."""
        self.add_callback(future.success)
        return self.add_errback(future.failure)

    def __await__(self) -> Generator[GuardedFuture, None, Any]:
        """Wait within kafka-python's own event loop."""
        if not self.is_done:
            yield self
        error = self._find_error()
        if error is not None:
            raise error
        return self.value

    # --- for the guard ------------------------------------------------------------

    def _hook(self, on_success: bool, f: Any, args: Any, kwargs: Any) -> GuardedFuture:
        if args or kwargs:
            f = partial(f, *args, **kwargs)
        settled = partial(self._run, f, on_success=on_success)

        def run_or_wait(_: Any) -> None:
            record = self._record()
            if record is None:
                settled()
            else:
                self._driver.when_settled(record, settled)

        if record_of(self._inner) is None:
            # The client reports the batch's failure first.
            self._inner.add_both(run_or_wait)
        else:
            run_or_wait(None)
        return self

    def _run(self, f: Callable[[Any], Any], *, on_success: bool) -> None:
        """Call the application's function, if it is for this kind of outcome."""
        error = self._find_error(is_seen=False)
        if on_success != (error is None):
            return
        try:
            f(self.value if error is None else self._find_error())
        except BaseException as raised:  # noqa: BLE001 - must not end the guard's thread
            self._driver.callback_raised(raised)
        except:  # noqa: E722 - confluent-kafka's KafkaError is not a BaseException
            self._driver.callback_raised(current_error())

    def _record(self) -> Record | None:
        """Return the guard's record; None while the client's future has not failed."""
        inner = self._inner
        record = record_of(inner)
        if record is None and inner.failed():
            self._driver.report_early(inner)
            record = record_of(inner)
        return record

    def _find_error(self, *, is_seen: bool = True) -> KafkaGuardError | None:
        """Return the error, and mark it as seen by the application."""
        record = self._record()
        if record is None or record.outcome is None:
            return None
        if is_seen:
            record.outcome.seen = True
        return record.outcome.error

    def _make_not_known_here(self) -> Exception:
        topic, partition = reading.result_of(self._inner).topic_partition
        return errors.make(
            ForkedProducerError,
            f"this record was sent before fork(), and this process ({os.getpid()}) "
            "does not get its outcome; it may still be delivered",
            api="Produce",
            topic=topic,
            partition=partition,
            verdict=KNOWN_TO_PARENT,
        )

    def _make_still_open(self, original: Exception, timeout: float | None) -> Exception:
        topic, partition = reading.result_of(self._inner).topic_partition
        return errors.translate(
            original,
            message=f"no outcome within {timeout:g} s; the record may still be "
            "delivered: wait for the same future again",
            api="Produce",
            topic=topic,
            partition=partition,
        )


def record_of(inner: Any) -> Record | None:
    """Return the guard's record of a failed record, by the client's first future."""
    value = inner.value
    return value if isinstance(value, Record) else None
