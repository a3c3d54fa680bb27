"""Producers in a forked child: threads are missing, connections are shared."""

from __future__ import annotations

import os
import threading
import weakref
from typing import TYPE_CHECKING, Any, Protocol

from kafkaguard._delivery.report import ForkedProducerError
from kafkaguard._verdicts.classification import classify
from kafkaguard.errors import ClientClosedError

if TYPE_CHECKING:
    from kafkaguard._delivery.shell import ClientErrors


class Forkable(Protocol):
    """A guarded producer, as far as a fork concerns it."""

    def leave_to_parent(self) -> Any:
        """In the child: send nothing more; return what must not be closed here."""

    def can_begin_again(self) -> bool:
        """Return whether it is known how to build the client."""

    def begin_again(self) -> None:
        """Build a client of the child's own, and start with nothing on its way."""


class ForkGuard:
    """Stops a producer in a child process, or lets it build one of its own.

    Args:
        guarded: The producer.
        errors: Makes its errors.
        factory: What builds the client, as users write it.

    Attributes:
        is_forked: This process is a child that has no producer yet.
    """

    def __init__(self, guarded: Forkable, errors: ClientErrors, factory: str) -> None:
        self.is_forked = False
        self._guarded = weakref.ref(guarded)
        self._errors = errors
        self._factory = factory
        self._lock = threading.Lock()
        watch(self)

    def pass_by(self) -> None:
        """Do what a child has to do before it uses the producer."""
        if self.is_forked:
            self.in_child()

    def after_fork(self) -> Any:
        """In the child: leave the parent's connections alone."""
        guarded = self._guarded()
        if guarded is None:
            return None
        self._lock = threading.Lock()
        self.is_forked = True
        return guarded.leave_to_parent()

    def in_child(self, *_: object) -> None:
        """Build a producer of the child's own, or say that it must do so.

        Raises:
            ForkedProducerError: It is not known how to build one.
        """
        guarded = self._guarded()
        if guarded is None:
            return
        if not guarded.can_begin_again():
            raise self._errors.make(
                ForkedProducerError,
                "this producer was made before fork(), and its thread is not in this "
                f"process ({os.getpid()}): build it after the fork, or use "
                f"guard(factory={self._factory}, config={{...}})",
                verdict=classify(ClientClosedError("not in this process")),
            )
        with self._lock:
            if self.is_forked:
                guarded.begin_again()
                self.is_forked = False


class Watched(Protocol):
    """Something that a fork concerns."""

    def after_fork(self) -> Any:
        """In the child: leave the parent alone; return what must not be closed."""


_LIVE: weakref.WeakSet[Watched] = weakref.WeakSet()
#: Clients of the parent process, kept so that none is closed by garbage collection.
_PARENTS: list[Any] = []


def watch(each: Watched) -> None:
    """Report every child process that is forked from now on."""
    _LIVE.add(each)


def _tell() -> None:
    _PARENTS.extend(each.after_fork() for each in list(_LIVE))


os.register_at_fork(after_in_child=_tell)
