"""Producers in a forked child: threads are missing, connections are shared."""

from __future__ import annotations

import os
import threading
import weakref
from typing import TYPE_CHECKING, Any, Protocol

from kafkaguard._delivery.report import ForkedProducerError
from kafkaguard._errors.base import Action, RuleInfo, Verdict
from kafkaguard_adapters.client_errors import OF_PARENT
from kafkaguard_adapters.forks import at_fork

if TYPE_CHECKING:
    from kafkaguard._delivery.shell import ClientErrors

KNOWN_TO_PARENT = Verdict(
    Action.IN_DOUBT,
    False,
    "maybe",
    ForkedProducerError,
    RuleInfo(
        "record-of-the-parent",
        "wait for the same future in the parent process",
        "POSIX fork(2): the child has none of the parent's threads",
        "A forked child waits for a record that was sent before the fork.",
    ),
)


class Forkable(Protocol):
    """The methods of a guarded producer that handle a fork."""

    def leave_to_parent(self) -> Any:
        """In the child: send nothing more; return the client, which must stay open."""

    def can_begin_again(self) -> bool:
        """Return whether the guard can build a client (a factory was given)."""

    def begin_again(self) -> None:
        """Build a client for the child, and start without records in flight."""


class ForkGuard:
    """Stops a producer in a child process, or lets it build a client of its own.

    Args:
        guarded: The producer.
        errors: Makes the client's errors.
        factory: The name of the client's class, for the error text.

    Attributes:
        is_forked: Whether this process is a child that has no client yet.
    """

    def __init__(self, guarded: Forkable, errors: ClientErrors, factory: str) -> None:
        self.is_forked = False
        self._guarded = weakref.ref(guarded)
        self._errors = errors
        self._factory = factory
        self._lock = threading.Lock()
        at_fork(self)

    def ensure_client(self) -> None:
        """Build the client of a child first. Call this before each use."""
        if self.is_forked:
            self.in_child()

    def after_fork(self) -> Any:
        """In the child: stop using the parent's connections; return its client."""
        guarded = self._guarded()
        if guarded is None:
            return None
        # Another thread of the parent may have held the lock at the fork, and would
        # never release it here.
        self._lock = threading.Lock()
        self.is_forked = True
        return guarded.leave_to_parent()

    def in_child(self, *_: object) -> None:
        """Build a client for the child.

        Raises:
            ForkedProducerError: No factory was given, so the guard cannot build one.
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
                verdict=OF_PARENT,
            )
        with self._lock:
            if self.is_forked:
                guarded.begin_again()
                self.is_forked = False
