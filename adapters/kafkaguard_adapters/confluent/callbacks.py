"""The application's callbacks, called only in its own poll() and flush().

The guard also polls the client itself: during a recovery, and to make room in a full
queue. Callbacks wait in a queue meanwhile, so they keep the order of the client's
reports.
"""

from __future__ import annotations

import threading
from collections import deque
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError

from kafkaguard._errors import ClientStateError
from kafkaguard_adapters.confluent.errors import errors, inner_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkaguard._delivery.records import RecordOutcome
    from kafkaguard._errors import KafkaGuardError
    from kafkaguard._errors.base import Verdict


#: Errors of a client that are kept until the next poll ends.
_MOST_ERRORS = 1000


class ReportedError(KafkaError):  # type: ignore[misc]  # confluent-kafka has no types
    """Why a record was not delivered, as its delivery callback gets it.

    Args:
        error: The exception for the same failure.

    Attributes:
        error: The exception; it is also a ``KafkaException``.
    """

    def __init__(self, error: KafkaGuardError) -> None:
        inner = inner_error(error)
        code = error.code if inner is None else inner.code()
        super().__init__(KafkaError._FAIL if code is None else code, str(error))  # noqa: SLF001 - a documented constant
        self.error = error

    @property
    def verdict(self) -> Verdict:
        """The verdict on the failure."""
        return self.error.verdict

    def __reduce__(self) -> tuple[Any, ...]:
        """Keep the exception when it is pickled or copied."""
        return type(self), (self.error,)


class Callbacks:
    """Calls the application's callbacks, or queues them.

    Args:
        on_error: Receives what a callback raises, except ``KeyboardInterrupt``.

    Attributes:
        is_direct: Whether a report of the client may call the callback at once: the
            application polls, and the queue is empty.
        polling: Idents of the threads that are inside a poll of the client. A call in a
            callback that polls the client again, or waits in it, aborts the process.
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
        """Return how many callbacks are queued."""
        return len(self._waiting)

    def call(self, callback: Callable[..., object], *told: Any) -> None:
        """Call a callback now, or queue it."""
        if self.is_direct:
            self._run(partial(callback, *told))
        else:
            self._put(partial(callback, *told))

    def put(
        self, callback: Callable[..., object], outcome: RecordOutcome, message: Any
    ) -> None:
        """Queue the delivery callback of a record that had failed before.

        Args:
            callback: Called with the error and the message.
            outcome: The record's outcome.
            message: The client's last message about the record.
        """
        self._put(partial(_call_with, callback, outcome, message))

    def _put(self, task: Callable[[], object]) -> None:
        with self._lock:  # else a later callback could overtake this one
            self.is_direct = False
            self._waiting.append(task)
        self._arrived.set()

    def serve(self) -> int:
        """Call the queued callbacks in the application's thread; return how many."""
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
        except BaseException as error:  # noqa: BLE001 - SystemExit must not lose a report
            self.on_error(error)

    @contextmanager
    def inside_client(self) -> Iterator[None]:
        """Note that this thread polls the client; polls are not nested."""
        me = threading.get_ident()
        self.polling.add(me)
        try:
            yield
        finally:
            self.polling.discard(me)

    def is_inside(self) -> bool:
        """Return whether this thread is inside a poll of the client: in a callback."""
        return threading.get_ident() in self.polling

    def refuse_inside(self, method: str) -> None:
        """Refuse a call that would abort the process, because it is in a callback.

        Raises:
            ClientStateError: This thread is inside a poll of the client.
        """
        if self.is_inside():
            raise errors.make(
                ClientStateError,
                f"{method}() in a callback did nothing: confluent-kafka would abort "
                "the process. Call it after poll() or flush(), or in another thread",
            )

    @contextmanager
    def diverted(self) -> Iterator[None]:
        """Queue all callbacks while the guard polls."""
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
        """Wait until a callback may have been queued, at most so many seconds."""
        self._arrived.wait(seconds)
        self._arrived.clear()


def _call_with(
    callback: Callable[..., object], outcome: RecordOutcome, message: Any
) -> None:
    """Call a callback with an outcome, and mark the outcome as seen."""
    outcome.seen = True
    error = None if outcome.error is None else ReportedError(outcome.error)
    callback(error, message)


class ErrorLog:
    """The ``error_cb`` in the settings: keeps the client's errors until they are read.

    The client loses what is raised in an ``error_cb``, and raises a SystemError. Ctrl-C
    strikes when Python code begins to run, so mostly there; ``deque.append`` runs none.

    Args:
        own: The user's ``error_cb``; None: there is none.
    """

    def __init__(self, own: Callable[[Any], Any] | None) -> None:
        self.own = own
        self.unread: deque[Any] = deque(maxlen=_MOST_ERRORS)
        self.callback = self.unread.append

    def read(self) -> Iterator[Any]:
        """Yield the errors that nobody has read, and forget them."""
        while self.unread:
            try:
                yield self.unread.popleft()
            except IndexError:  # another thread was faster
                return


class Chained:
    """A callback in the client's settings: calls the guard's, then the user's.

    Args:
        own: The user's callback; None: there is none.

    Attributes:
        hear: The guard's callback.
        callbacks: Calls or queues the user's callback; None: it is called at once.
    """

    def __init__(self, own: Callable[..., Any] | None) -> None:
        self.own = own
        self.hear: Callable[..., Any] | None = None
        self.callbacks: Callbacks | None = None

    def __call__(self, *args: Any) -> Any:
        """Call both callbacks."""
        if self.hear is not None:
            self.hear(*args)
        if self.own is None:
            return None
        if self.callbacks is None:
            return self.own(*args)
        return self.callbacks.call(self.own, *args)
