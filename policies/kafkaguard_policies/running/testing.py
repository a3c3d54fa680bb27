"""A mode for users' tests: no waits, the schedule recorded, outcomes forced."""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The test that is going on; None: none.
active: RetryTesting | None = None


@dataclass(slots=True)
class RetryTesting:
    """What a test sees and orders.

    Attributes:
        waits: The waits that would have been, in seconds and in order.
    """

    waits: list[float] = field(default_factory=list)
    _forced: deque[Exception | None] = field(default_factory=deque)

    @property
    def skipped(self) -> float:
        """Seconds that the clock of guarded calls is ahead, for the waits skipped."""
        return sum(self.waits)

    def force(self, *outcomes: Exception | None) -> None:
        """Order what the next attempts do.

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

    def next_forced(self) -> Exception | None:
        """Take the next outcome ordered; None: call."""
        return self._forced.popleft() if self._forced else None

    def sleep(self, wait: float) -> None:
        """Record a wait instead of waiting."""
        self.waits.append(wait)

    async def asleep(self, wait: float) -> None:
        """Record a wait instead of waiting."""
        self.waits.append(wait)


@contextmanager
def retry_testing() -> Iterator[RetryTesting]:
    """Let all guarded calls of the process run without waiting, until the block ends.

    Deadlines still hold: the clock of guarded calls moves on by each skipped wait.

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
    global active  # noqa: PLW0603 - one look at a global is all the success path pays
    before, active = active, RetryTesting()
    try:
        yield active
    finally:
        active = before
