"""The end of a dead producer, and the one that takes its place."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from kafka.errors import RetriableError

from kafkaguard_adapters.kafka_python._private import moving, reading

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from kafkaguard_adapters.kafka_python._building import Builder
    from kafkaguard_adapters.kafka_python._tracking import Tracker

_log = logging.getLogger("kafkaguard.producer")

#: Seconds that requests on their way have to be answered.
ANSWER_S = 5.0
#: Seconds that a dead producer's thread has to end before it is left behind.
STOP_S = 0.75
#: Seconds that closing a dead producer may take.
RETIRE_S = 5.0
#: Seconds that a new producer has to get its id, where it takes another one over.
IDENTITY_S = 5.0
#: Seconds until building is tried again: at first, and at most.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.25, 10.0


class Succession:
    """Builds the successor of a dead producer, again and again within bounds.

    Args:
        builder: Builds a producer.
        is_awaited: Tells whether anybody waits for the successor.
        closed: Set when nobody wants one any more.
    """

    def __init__(
        self,
        builder: Builder,
        is_awaited: Callable[[], bool],
        closed: threading.Event,
    ) -> None:
        #: Why the last one could not be built.
        self.error: Exception | None = None
        self._builder = builder
        self._is_awaited = is_awaited
        self._closed = closed
        self._failures = 0
        self._not_before = 0.0

    def build(self, dead: Any) -> Any:
        """Build a producer, with growing pauses between the attempts.

        Raises:
            Exception: It cannot be built, or not now and nobody waits for it.
        """
        while True:
            self._closed.wait(max(0.0, self._not_before - time.monotonic()))
            try:
                successor = self._builder.build(dead)
            except Exception as error:
                self._take_note(error)
                if self._closed.is_set() or not (
                    may_pass(error) and self._is_awaited()
                ):
                    raise
                _log.info("a new producer cannot be built yet (%s)", error)
            else:
                self.error, self._failures = None, 0
                return successor

    def _take_note(self, error: Exception) -> None:
        pause = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2**self._failures)
        self._failures += 1
        self._not_before = time.monotonic() + pause
        self.error = error


def may_pass(error: BaseException) -> bool:
    """Tell whether building a producer may succeed later."""
    return isinstance(error, (RetriableError, OSError))


def hear_out(tracker: Tracker, dead: Any, seconds: float = ANSWER_S) -> None:
    """Wait for the answers to what a producer that still lives has sent."""
    deadline = time.monotonic() + seconds
    sent = [b for b in tracker.batches(dead) if reading.was_sent(b.source)]
    tracker.wait(sent, deadline)


def end(tracker: Tracker, dead: Any) -> None:
    """End a dead producer: what it has not sent is given up."""
    moving.shut(dead)
    moving.stop(dead, STOP_S)
    moving.let_go(dead)
    tracker.settle_done()


def take_over(successor: Any, identity: Any) -> None:
    """Lock out what the dead producer has left on its way, if that can be done.

    A request may lie in a broker's buffers for as long as that is paused. With the
    same id and a newer epoch, whatever comes before it, it cannot come after.
    """
    if identity is None or not reading.is_idempotent(successor):
        return
    if not moving.take_identity(successor, identity, IDENTITY_S):
        _log.warning(
            "the new producer did not get an id within %g s: a record reported in "
            "doubt may still be written after later ones of its key",
            IDENTITY_S,
        )


def retire(dead: Any) -> None:
    """Close a dead producer; what its successor uses stays open."""
    try:
        moving.stop(dead, STOP_S)
        moving.detach_serializers(dead)
        dead.close(timeout=RETIRE_S)
    except Exception:  # noqa: BLE001 - it is dead in any case
        _log.exception("a dead producer could not be closed")
