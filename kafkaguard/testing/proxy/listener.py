"""The proxy's listener for one broker, and its clients' Fetch sessions.

A Fetch in a session (KIP-227) does not name all its partitions: a session's first
request names all of them, later ones only the changes.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable

    from kafkaguard.testing.proxy.journal import AnsweredError
    from kafkaguard.testing.proxy.places import Item, Keys


_MAX_SESSIONS: Final = 1000  # max.incremental.fetch.session.cache.slots
_FULL: Final = (0, -1)


class FetchSessions:
    """The sessions of one broker."""

    def __init__(self) -> None:
        self._items: OrderedDict[int, dict[Keys, Item]] = OrderedDict()

    def find_items(self, body: Any, entries: Iterable[Item]) -> list[Item]:
        """Return all partitions that a request fetches.

        Args:
            body: The decoded request.
            entries: The partitions that the request names.
        """
        items = {item.keys: item for item in entries}
        if body.session_epoch in _FULL:
            return list(items.values())
        session = self._items.get(body.session_id, {})
        for keys in _forgotten_keys(body):
            session.pop(keys, None)
        session.update(items)
        return list(session.values())

    def record(self, session_id: int, items: Iterable[Item]) -> None:
        """Record a session that the broker has opened."""
        self._items[session_id] = {item.keys: item for item in items}
        if len(self._items) > _MAX_SESSIONS:
            self._items.popitem(last=False)


def _forgotten_keys(body: Any) -> list[Keys]:
    named_by_id = body.version >= 13  # noqa: PLR2004 - KIP-516
    return [
        (((topic.topic_id if named_by_id else topic.topic),), (partition,))
        for topic in body.forgotten_topics_data or ()
        for partition in topic.partitions
    ]


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
