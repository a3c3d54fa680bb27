"""The proxy's listener for one broker."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkaguard.testing.proxy.fetch_sessions import FetchSessions

if TYPE_CHECKING:
    import asyncio

    from kafkaguard.testing.proxy.journal import AnsweredError

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer for a client.

    Attributes:
        frame: The bytes.
        errors: The error codes in the answer.
    """

    frame: bytes
    errors: tuple[AnsweredError, ...] = ()


@dataclass
class Listener:
    """The proxy's listener for one broker.

    Attributes:
        upstream: The broker's address.
        address: The proxy's address for clients.
        broker: The broker's id, once an answer has contained it.
    """

    upstream: Address
    address: Address
    broker: int | None = None
    sessions: FetchSessions = field(default_factory=FetchSessions)
    server: asyncio.Server | None = None
    connections: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def is_up(self) -> bool:
        """Whether clients can connect."""
        return self.server is not None
