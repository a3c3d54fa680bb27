"""``retry_testing``: no waits, a recorded schedule, forced outcomes."""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The current test, or None.
active: Recorder | None = None


@dataclass(slots=True)
class RetryTesting:
    """The waits that a test records, and the outcomes that it forces.

    Attributes:
        waits: The skipped waits, in seconds and in order.
    """

    waits: list[float] = field(default_factory=list)
    _forced: deque[Exception | None] = field(default_factory=deque)

    @property
    def skipped(self) -> float:
        """The sum of the skipped waits in seconds, by which the clock is ahead."""
        return sum(self.waits)

    def force(self, *outcomes: Exception | None) -> None:
        """Force the outcomes of the next attempts.

        Args:
            outcomes: For each attempt an exception to raise instead of calling, or
                None to call.

        Raises:
            TypeError: One of them is neither.
        """
        for outcome in outcomes:
            if outcome is not None and not isinstance(outcome, Exception):
                raise TypeError(
                    f"force() takes exceptions, such as errors.RequestTimedOutError(), "
                    f"and None for a real call, not {outcome!r}"
                )
        self._forced.extend(outcomes)


class Recorder(RetryTesting):
    """What retried calls use in place of their waits."""

    def next_forced(self) -> Exception | None:
        """Return the next forced outcome, or None to call."""
        return self._forced.popleft() if self._forced else None

    def sleep(self, wait: float) -> None:
        """Record a wait instead of waiting."""
        self.waits.append(wait)

    async def asleep(self, wait: float) -> None:
        """Record a wait instead of waiting."""
        self.waits.append(wait)


@contextmanager
def retry_testing() -> Iterator[RetryTesting]:
    """Skip the waits of all retried calls of the process within the block.

    Deadlines still apply: each skipped wait moves the clock of retried calls.

    Example:
        >>> from kafkaguard import errors
        >>> from kafkaguard.policies import RetryPolicy, retry_testing
        >>> with retry_testing() as testing:
        ...     testing.force(errors.CoordinatorLoadInProgressError())
        ...     RetryPolicy().call(lambda: "done")
        'done'
        >>> len(testing.waits)
        1
    """
    global active  # noqa: PLW0603 - the success path reads only one global
    before, active = active, Recorder()
    try:
        yield active
    finally:
        active = before
