"""Partitions of a Fetch in a session (KIP-227), which does not name all of them.

A session's first request names all partitions, later ones only the changes.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkaguard.testing.proxy.items import Item, Keys

_MAX_SESSIONS: Final = 1000  # max.incremental.fetch.session.cache.slots
_FULL: Final = (0, -1)


class FetchSessions:
    """The sessions of one broker."""

    def __init__(self) -> None:
        self._items: OrderedDict[int, dict[Keys, Item]] = OrderedDict()

    def asked(self, body: Any, named: Iterable[Item]) -> list[Item]:
        """Return all partitions that a request fetches.

        Args:
            body: The decoded request.
            named: The partitions that the request names.
        """
        items = {item.keys: item for item in named}
        if body.session_epoch in _FULL:
            return list(items.values())
        known = self._items.get(body.session_id, {})
        for keys in _forgotten(body):
            known.pop(keys, None)
        known.update(items)
        return list(known.values())

    def opened(self, session_id: int, items: Iterable[Item]) -> None:
        """Record a session that the broker has opened."""
        self._items[session_id] = {item.keys: item for item in items}
        if len(self._items) > _MAX_SESSIONS:
            self._items.popitem(last=False)


def _forgotten(body: Any) -> list[Keys]:
    named_by_id = body.version >= 13  # noqa: PLR2004 - KIP-516
    return [
        (((topic.topic_id if named_by_id else topic.topic),), (partition,))
        for topic in body.forgotten_topics_data or ()
        for partition in topic.partitions
    ]
