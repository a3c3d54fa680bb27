"""The application's callbacks, called in its own poll() and flush() only.

While the guard polls by itself, for a recovery or for room in a full queue, callbacks
wait in a queue; so they keep the order of the client's reports.
"""

from __future__ import annotations

import threading
from collections import deque
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkaguard._delivery.records import Outcome
    from kafkaguard._verdicts.verdict import Verdict
    from kafkaguard.errors import KafkaGuardError


class ReportedError(KafkaError):  # type: ignore[misc]  # confluent-kafka has no types
    """Why a record was not delivered, as its delivery callback gets it.

    Args:
        error: The exception that says the same.

    Attributes:
        error: That exception, which is also a ``KafkaException``.
    """

    def __init__(self, error: KafkaGuardError) -> None:
        told = error.args[0] if error.args else None
        code = told.code() if isinstance(told, KafkaError) else error.code
        super().__init__(KafkaError._FAIL if code is None else code, str(error))  # noqa: SLF001 - a documented constant
        self.error = error

    @property
    def verdict(self) -> Verdict:
        """What to do about it."""
        return self.error.verdict

    def __reduce__(self) -> tuple[Any, ...]:
        """Keep the exception when it is pickled or copied."""
        return type(self), (self.error,)


class Callbacks:
    """Calls the application's callbacks, or lets them wait.

    Args:
        on_error: Told of whatever one raises; Ctrl-C passes.

    Attributes:
        is_direct: The client's report may call at once: the application polls, and
            nothing waits.
        polling: The threads, by their ident, that are within a poll of the client. It
            crashes if one of its callbacks polls again.
    """

    def __init__(self, on_error: Callable[[BaseException], object]) -> None:
        self.is_direct = True
        self.polling: set[int] = set()
        self.on_error = on_error
        self._waiting: deque[Callable[[], object]] = deque()
        self._lock = threading.Lock()
        self._diversions = 0
        self._arrived = threading.Event()

    def __len__(self) -> int:
        """Count those that wait."""
        return len(self._waiting)

    def call(self, callback: Callable[..., object], *told: Any) -> None:
        """Call one now, or let it wait."""
        if self.is_direct:
            self._run(partial(callback, *told))
        else:
            self._put(partial(callback, *told))

    def put(
        self, callback: Callable[..., object], outcome: Outcome, message: Any
    ) -> None:
        """Let a delivery callback wait that is about a record which has failed before.

        Args:
            callback: What is called, with the error and the message.
            outcome: What became of the record.
            message: The client's last message about it.
        """
        self._put(partial(_tell, callback, outcome, message))

    def _put(self, task: Callable[[], object]) -> None:
        with self._lock:  # else serve() may find nothing, and a later one overtakes it
            self.is_direct = False
            self._waiting.append(task)
        self._arrived.set()

    def serve(self) -> int:
        """Call those that wait, in the application's thread; return how many."""
        served = 0
        while self._waiting:
            try:
                task = self._waiting.popleft()
            except IndexError:  # another thread was faster
                break
            served += 1
            self._run(task)
        with self._lock:
            self.is_direct = not (self._waiting or self._diversions)
        return served

    def _run(self, task: Callable[[], object]) -> None:
        try:
            task()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - SystemExit must lose no report
            self.on_error(error)

    @contextmanager
    def diverted(self) -> Iterator[None]:
        """Let all callbacks wait while the guard polls."""
        with self._lock:
            self._diversions += 1
            self.is_direct = False
        try:
            yield
        finally:
            with self._lock:
                self._diversions -= 1
            self._arrived.set()

    def wait(self, seconds: float) -> None:
        """Wait until one may have arrived."""
        self._arrived.wait(seconds)
        self._arrived.clear()


def _tell(callback: Callable[..., object], outcome: Outcome, message: Any) -> None:
    """Tell an outcome, which the application has then looked at."""
    outcome.seen = True
    error = None if outcome.error is None else ReportedError(outcome.error)
    callback(error, message)


class Chained:
    """A callback in the client's settings: the guard hears first, then the user's own.

    Args:
        own: The user's; None: there is none.

    Attributes:
        hear: The guard's.
        callbacks: Calls the user's own where that is not to be at once.
    """

    def __init__(self, own: Callable[..., Any] | None) -> None:
        self.own = own
        self.hear: Callable[..., Any] | None = None
        self.callbacks: Callbacks | None = None

    def __call__(self, *args: Any) -> Any:
        """Call both."""
        if self.hear is not None:
            self.hear(*args)
        if self.own is None:
            return None
        if self.callbacks is None:
            return self.own(*args)
        return self.callbacks.call(self.own, *args)
