"""The future of a guarded record: kafka-python's, with the guard's outcome on top."""

from __future__ import annotations

import logging
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from kafka.errors import KafkaTimeoutError

from kafkaguard_adapters.kafka_python._fate import Fate, fate_of
from kafkaguard_adapters.kafka_python._private.reading import result_of
from kafkaguard_adapters.kafka_python.errors import errors

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from kafkaguard.errors import KafkaGuardError
    from kafkaguard_adapters.kafka_python._tracking import Tracker

_log = logging.getLogger("kafkaguard.producer")


class GuardedFuture:
    """Stands for kafka-python's ``FutureRecordMetadata``.

    It follows the client's future. Where that fails, the guard decides: the record is
    sent again and this future follows the new one, or it fails with an error that is
    both kafkaguard's and kafka-python's.
    """

    __slots__ = ("_inner", "_tracker")

    def __init__(self, inner: Any, tracker: Tracker) -> None:
        self._inner = inner
        self._tracker = tracker

    @property  # type: ignore[misc]  # object's own can be set, a stand-in's need not
    def __class__(self) -> type:
        """The client's class, so that ``isinstance`` holds."""
        return type(self._inner)

    def __getattr__(self, name: str) -> Any:
        """Hand everything else on to the client's future."""
        return getattr(self._inner, name)

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        """Refuse: the outcome comes to this process, and to one object."""
        raise TypeError(
            "a future of a record cannot be pickled or copied: take what get() returns"
        )

    def __repr__(self) -> str:
        """Show the state, never the record."""
        state = "pending"
        if self.is_done:
            state = "failed" if self._error() else "delivered"
        return f"<GuardedFuture {state}>"

    @property
    def is_done(self) -> bool:
        """Whether the record was delivered or has failed for good."""
        fate = self._fate()
        if fate is None:
            return bool(self._inner.is_done)
        return fate.error is not None

    @property
    def value(self) -> Any:
        """The RecordMetadata of a delivered record, else None."""
        value = self._inner.value if self._fate() is None else None
        return None if isinstance(value, Fate) else value

    @property
    def exception(self) -> BaseException | None:
        """Why the record failed for good, else None."""
        return self._look()

    def succeeded(self) -> bool:
        """Tell whether the record was delivered."""
        return self.is_done and self._look() is None

    def failed(self) -> bool:
        """Tell whether the record failed for good."""
        return self._look() is not None

    def retriable(self) -> bool:
        """Tell whether the record failed and the same one may be sent again."""
        error = self._look()
        return error is not None and error.verdict.retriable

    def success(self, value: Any) -> GuardedFuture:
        """Settle the client's future by hand."""
        self._inner.success(value)
        return self

    def failure(self, error: Any) -> GuardedFuture:
        """Fail the client's future by hand."""
        self._inner.failure(error)
        return self

    def get(self, timeout: float | None = None) -> Any:
        """Wait for the record's outcome.

        Args:
            timeout: Seconds to wait at most. Default: as long as it takes; the
                client's ``delivery_timeout_ms`` bounds that.

        Returns:
            The RecordMetadata.

        Raises:
            KafkaGuardError: Why it failed; also of kafka-python's class.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            fate = self._fate()
            if fate is None:
                inner = self._inner
                try:
                    return inner.get(left)
                except Exception as error:
                    if inner.failed():
                        continue
                    raise self._still_open(error, timeout) from error
            if fate.error is not None:
                fate.seen = True
                raise fate.error
            if not fate.decided.wait(left):
                raise self._still_open(KafkaTimeoutError(), timeout)

    def add_callback(self, f: Any, *args: Any, **kwargs: Any) -> GuardedFuture:
        """Call ``f`` with the RecordMetadata once the record is delivered."""
        return self._hook(True, f, args, kwargs)

    def add_errback(self, f: Any, *args: Any, **kwargs: Any) -> GuardedFuture:
        """Call ``f`` with the exception once the record has failed for good."""
        return self._hook(False, f, args, kwargs)

    def add_both(self, f: Any, *args: Any, **kwargs: Any) -> GuardedFuture:
        """Call ``f`` with the RecordMetadata or the exception."""
        self.add_callback(f, *args, **kwargs)
        return self.add_errback(f, *args, **kwargs)

    def chain(self, future: Any) -> GuardedFuture:
        """Settle another future with this one's outcome."""
        self.add_callback(future.success)
        return self.add_errback(future.failure)

    def __await__(self) -> Generator[GuardedFuture, None, Any]:
        """Wait within kafka-python's own event loop."""
        if not self.is_done:
            yield self
        error = self._look()
        if error is not None:
            raise error
        return self.value

    # --- for the guard ------------------------------------------------------------

    def _hook(self, on_success: bool, f: Any, args: Any, kwargs: Any) -> GuardedFuture:
        if args or kwargs:
            f = partial(f, *args, **kwargs)
        Hook(self, f, on_success=on_success).watch()
        return self

    def watch(self, hook: Hook) -> None:
        """Have a hook told of the outcome: by the client if it is good, else by us."""
        self._fate()
        inner = self._inner
        self._tracker.watch(hook, inner)
        inner.add_callback(hook.fire)

    def run(self, f: Callable[[Any], Any], *, on_success: bool) -> None:
        """Call the application's function, if the outcome is the one that it is for."""
        error = self._error()
        if on_success != (error is None):
            return
        try:
            f(self._inner.value if error is None else self._look())
        except Exception as raised:  # noqa: BLE001 - it is the application's
            _log.exception("a callback of the application raised")
            self._tracker.ledger.callback_raised(raised)

    def _fate(self) -> Fate | None:
        """Return the guard's decision, None as long as the client's future counts."""
        while True:
            inner = self._inner
            fate = fate_of(inner)
            if fate is None and inner.failed():
                self._tracker.settle_failed(inner)
                fate = fate_of(inner)
            if fate is None or not fate.rescued:
                return fate
            self._inner = fate.inner

    def _error(self) -> KafkaGuardError | None:
        fate = self._fate()
        return None if fate is None else fate.error

    def _look(self) -> KafkaGuardError | None:
        """Return the error and note that the application has seen it."""
        fate = self._fate()
        if fate is None or fate.error is None:
            return None
        fate.seen = True
        return fate.error

    def _still_open(self, original: Exception, timeout: float | None) -> Exception:
        topic, partition = result_of(self._inner).topic_partition
        return errors.translate(
            original,
            message=f"no outcome within {timeout:g} s; the record may still be "
            "delivered: wait for the same future again",
            api="Produce",
            topic=topic,
            partition=partition,
        )


class Hook:
    """A callback of the application, which is called at most once.

    Args:
        future: Whose outcome it waits for.
        f: What is called.
        on_success: With the metadata of a delivered record, or else with the error.
    """

    __slots__ = ("_f", "_future", "_on_success", "_once")

    def __init__(
        self, future: GuardedFuture, f: Callable[[Any], Any], *, on_success: bool
    ) -> None:
        self._future = future
        self._f = f
        self._on_success = on_success
        self._once = threading.Lock()

    def watch(self) -> None:
        """Wait for the outcome; it may be there."""
        self._future.watch(self)
        self.fire()

    def fire(self, _: Any = None) -> None:
        """Run, if the outcome is there and no other thread did."""
        if self._future.is_done and self._once.acquire(blocking=False):
            self._future.run(self._f, on_success=self._on_success)
