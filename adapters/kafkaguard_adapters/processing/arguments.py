"""The arguments of ``process()``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from kafkaguard._common.arguments import flag, one_of, seconds, whole_number
from kafkaguard._processing.policy import Order

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Arguments:
    """What ``process()`` was told.

    Attributes:
        handler: The application's function.
        workers: How many chunks run at a time.
        order: Which records are handled one after the other.
        batch: The most records of a batch; None: single records.
        producer: The producer of exactly-once rounds, or None.
        dead_letter_producer: Sends dead letters; None: one is built.
        stop: An event that ends the run, or None.
        idle_timeout: After so many seconds without a record the run ends.
        until_end: Whether it ends at the ends that the logs had at the start.
        letters: The dead-letter topic whose letters are handled again, or None.
    """

    handler: Callable[..., Any]
    workers: int = 1
    order: Order = "partition"
    batch: int | None = None
    producer: Any = None
    dead_letter_producer: Any = None
    stop: Any = None
    idle_timeout: float | None = None
    until_end: bool = False
    letters: str | None = None

    def __post_init__(self) -> None:
        """Check them.

        Raises:
            TypeError: One has the wrong type.
            ValueError: One is out of range.
        """
        if self.letters is not None:  # letters come to an end
            object.__setattr__(self, "until_end", True)
        if not callable(self.handler):
            raise TypeError(f"process() takes a function, not {self.handler!r}")
        whole_number("process(): workers", self.workers, lowest=1)
        one_of("process(): order", self.order, get_args(Order))
        if self.batch is not None:
            whole_number("process(): batch", self.batch, lowest=1)
        if self.idle_timeout is not None:
            seconds("process(): idle_timeout", self.idle_timeout)
        flag("process(): until_end", self.until_end)
        if self.letters is not None and not (
            isinstance(self.letters, str) and self.letters
        ):
            raise TypeError(
                f"process(): letters takes the name of a topic, not {self.letters!r}"
            )
        if self.letters is not None and self.batch is not None:
            raise ValueError(
                "process(): letters are handled one by one: leave batch out"
            )
        if self.stop is not None and not hasattr(self.stop, "is_set"):
            raise TypeError(
                "process(): stop takes an event (threading.Event, asyncio.Event), not "
                f"{self.stop!r}"
            )
