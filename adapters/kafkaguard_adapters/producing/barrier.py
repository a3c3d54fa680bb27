"""The barrier that holds sends while records of their topic are sent again."""

from __future__ import annotations

import threading
import time
from typing import Protocol

#: Seconds from one check to the next. A send that notified the waiting thread would pay
#: for it each time; so it writes to a dict only.
_POLL_S = 0.001


class Barrier(Protocol):
    """Waits until every running send has seen a hold."""

    def wait_for_sends(self, topic: str | None, deadline: float) -> bool:
        """Wait for running sends of a topic (None: all), until monotonic seconds.

        Returns:
            Whether none is running.
        """


class SendBarrier:
    """Tracks running sends, so that a hold begins when none of the topic's is left.

    Attributes:
        under_way: The topic to which each thread is sending, by thread ident; None: the
            thread is not sending. A send sets its topic before it checks whether the
            topic is held, and sets None when it has ended or waits. Entries are not
            removed, because that would double their cost. There are few of them, since
            idents are reused.
    """

    def __init__(self) -> None:
        self.under_way: dict[int, str | None] = {}

    def wait_for_sends(self, topic: str | None, deadline: float) -> bool:
        """Wait until no send of a topic is running, except the caller's own.

        The caller's own send would never end: a callback may run within it.

        Args:
            topic: The topic, which is already held; None: all topics.
            deadline: In monotonic seconds.

        Returns:
            True if no send is running, False if the deadline has passed.
        """
        me = threading.get_ident()
        while any(
            topic in (None, to)
            for ident, to in self.under_way.copy().items()  # sends add keys meanwhile
            if ident != me and to is not None
        ):
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_S)
        return True
