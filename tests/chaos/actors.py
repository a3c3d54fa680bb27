"""What every actor of chaos is, and what it hands over at its end."""

from __future__ import annotations

from typing import NamedTuple


class Series(NamedTuple):
    """What one actor told and what is there, each as ``time.monotonic()``.

    Attributes:
        told: Records that were told as done.
        failed: Records that were told as not done.
        there: Records that were found.
        wrong: Records about which something wrong was told.
    """

    told: list[float]
    failed: list[float]
    there: list[float]
    wrong: list[float]


class Outcome(NamedTuple):
    """How an actor ended.

    Attributes:
        bad: Counts of what must not be, by name.
        facts: Counts of what may be, by name.
        series: When it happened.
    """

    bad: dict[str, int]
    facts: dict[str, int]
    series: Series


class Actor:
    """Somebody who works while everything fails.

    Attributes:
        name: Its name, which is also its user's.
        growing: A topic that may get more partitions; None: there is none.
        remade: A topic that may be deleted, and what makes it anew.
        compacted: A topic that may become compacted.
        kill: Kills it, and starts it again, with a ``Random``; None: it is not killed.
    """

    name = ""
    growing = None
    remade = None
    compacted = None
    kill = None

    def start(self):
        """Begin to work."""
        raise NotImplementedError

    def finish(self, faults):
        """End the work after the faults; compare, and return the ``Outcome``."""
        raise NotImplementedError

    def close(self):
        """Leave nothing that runs."""
