"""Consumers in a forked child: their threads are gone, their connections are shared."""

from __future__ import annotations

import os
import weakref
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:

    class Forkable(Protocol):
        """A guarded consumer."""

        client: Any

        def in_child(self) -> None:
            """Refuse every call from now on, and touch no connection."""


FORKED = (
    "this consumer was made before fork(): its thread is not in this process, and its "
    "connections are the parent's. Build it after the fork"
)

_LIVE: weakref.WeakSet[Any] = weakref.WeakSet()
#: Clients of the parent process, kept so that none is closed by garbage collection.
_PARENTS: list[Any] = []


def watch(guarded: Forkable) -> None:
    """Mark a consumer in every child process that is forked from now on."""
    _LIVE.add(guarded)


def _mark_forked() -> None:
    for each in list(_LIVE):
        each.in_child()
        _PARENTS.append(each.client)


os.register_at_fork(after_in_child=_mark_forked)
