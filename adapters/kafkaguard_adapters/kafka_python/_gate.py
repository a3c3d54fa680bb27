"""Where sends wait while a producer is being replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kafka.errors import KafkaTimeoutError

from kafkaguard._verdicts.classification import classify
from kafkaguard.errors import ClientClosedError, ClientTimeoutError
from kafkaguard_adapters.kafka_python.errors import errors

if TYPE_CHECKING:
    import threading

    from kafkaguard.errors import KafkaGuardError


class Limit(NamedTuple):
    """For how long a send may wait, and who said so."""

    seconds: float
    name: str

    @classmethod
    def of(cls, producer: Any, timeout: float | None) -> Limit:
        """Return the lesser of ``max_block_ms`` and what the caller gave."""
        most = cls(producer.config["max_block_ms"] / 1000, "max_block_ms")
        return most if timeout is None else min(most, cls(timeout, "timeout"))

    def __str__(self) -> str:
        """Show both."""
        return f"{self.seconds:g} s ({self.name})"


class Gate:
    """Lets sends wait.

    Args:
        changed: The condition under whose lock it is closed and opened.
    """

    def __init__(self, changed: threading.Condition) -> None:
        self._changed = changed
        self._waiting = 0
        self.is_closed = False

    @property
    def has_waiters(self) -> bool:
        """Whether any send waits."""
        return self._waiting > 0

    def open(self) -> None:
        """Let the sends go on, to whatever they find."""
        self.is_closed = False
        self._changed.notify_all()

    def wait(self, seconds: float) -> bool:
        """Wait until it is open; tell whether it is."""
        with self._changed:
            self._waiting += 1
            try:
                return self._changed.wait_for(lambda: not self.is_closed, seconds)
            finally:
                self._waiting -= 1


def still_closed(limit: Limit, why: BaseException | None) -> KafkaGuardError:
    """Make the error of a send that has waited too long.

    Args:
        limit: How long it has waited.
        why: Why the last attempt to build a producer failed.
    """
    reason = "" if why is None else f" ({why})"
    return errors.make(
        ClientTimeoutError,
        f"the producer is being replaced{reason} and {limit} were not enough; nothing "
        "was sent: send the same record again",
        verdict=classify(KafkaTimeoutError(), api="Produce", phase="enqueue"),
    )


def without_successor(why: BaseException | None) -> KafkaGuardError:
    """Make the error of a send that finds a dead producer."""
    return errors.make(
        ClientClosedError,
        f"the producer is dead and could not be replaced: {why}; nothing was sent",
    )
