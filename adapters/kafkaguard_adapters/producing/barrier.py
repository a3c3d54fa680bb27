"""The barrier that holds sends while records of their topic are sent again."""

from __future__ import annotations

import threading
import time
from typing import NamedTuple, Protocol

_POLL_S = 0.001


class Limit(NamedTuple):
    """For how long a send may wait, and who said so."""

    seconds: float
    name: str

    def __str__(self) -> str:
        """Show both."""
        return f"{self.seconds:g} s ({self.name})"


class Barrier(Protocol):
    """Makes sure that no send is running which has not seen a hold."""

    def clear(self, topic: str | None, deadline: float) -> bool:
        """Wait for the sends of a topic, or of all, until monotonic seconds."""


class SendBarrier:
    """Knows which sends are running, so that a hold begins when there is none.

    Attributes:
        under_way: The topic that a thread sends to, by its ident; None: it does not. A
            send sets it before it looks whether its topic is held, and sets None when
            it is done or waits (an entry that stays costs half of one that is removed
            and made again; idents are used again, so there are few).
    """

    def __init__(self) -> None:
        self.under_way: dict[int, str | None] = {}

    def clear(self, topic: str | None, deadline: float) -> bool:
        """Wait until no send of a topic is running but the caller's own.

        Args:
            topic: Which; it is held already. None: all are.
            deadline: In monotonic seconds.

        Returns:
            Whether there is none.
        """
        me = threading.get_ident()
        while any(
            topic in (None, to)
            for ident, to in self.under_way.copy().items()
            if ident != me and to is not None
        ):
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_S)
        return True
