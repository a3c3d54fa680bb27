"""The registry of guarded clients that a fork concerns."""

from __future__ import annotations

import os
import weakref
from typing import Any, Protocol


class Forked(Protocol):
    """An object that holds something of the process in which it was made."""

    def after_fork(self) -> Any:
        """In the child: stop using the parent's objects; return those to keep open."""


_LIVE: weakref.WeakSet[Forked] = weakref.WeakSet()
#: Objects of the parent process, kept so that garbage collection closes none of them.
_PARENTS: list[Any] = []


def at_fork(each: Forked) -> None:
    """Call ``after_fork`` of an object in every child that is forked from now on."""
    _LIVE.add(each)


def _call_all() -> None:
    _PARENTS.extend(each.after_fork() for each in list(_LIVE))


os.register_at_fork(after_in_child=_call_all)
