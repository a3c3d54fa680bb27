"""Consumers in a forked child: threads are missing, connections are shared.

In the child, a guarded consumer forgets its client and connections, so that the child
cannot use or close anything that belongs to the parent. If a factory was given, the
next use builds a client for the child. Otherwise it raises an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafkaguard.errors import ClientStateError
from kafkaguard_adapters.building import build
from kafkaguard_adapters.client_errors import OF_PARENT
from kafkaguard_adapters.forks import at_fork
from kafkaguard_adapters.stand_in import StandIn

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaguard._cluster.reports import Make
    from kafkaguard_adapters.building import Wish

_FORKED: Final = (
    "this consumer was made before fork(): its thread is not in this process, and its "
    "connections are the parent's. Build it after the fork, or use "
    "guard(factory=..., config={...})"
)


class _Forked(NamedTuple):
    """The state of a consumer in a child process, before it has a client."""

    kind: type
    make: Make
    begin: Callable[[], None] | None


class ForkSafe(StandIn):
    """A stand-in that, after a fork, uses nothing of its parent process."""

    _forked: _Forked | None = None

    def watch_forks(self, make: Make, begin: Callable[[], None] | None) -> None:
        """Handle forks from now on.

        Args:
            make: Makes errors that also have the client's class.
            begin: Sets the stand-in up with a new client; None: the guard cannot build
                one.
        """
        self._at_fork = make, begin
        at_fork(self)

    @property
    def is_forked(self) -> bool:
        """Whether this process is a child that has no client of its own yet."""
        return self._forked is not None

    def after_fork(self) -> Any:
        """In the child: forget and return all attributes that belong to the parent."""
        if self._forked is not None:
            return None
        forked = _Forked(type(self.client), *self._at_fork)
        parents = vars(self).copy()
        vars(self).clear()
        self._forked = forked
        return parents

    @property  # type: ignore[misc]  # object's has a setter
    def __class__(self) -> type:
        """The client's class, so that ``isinstance`` holds."""
        return type(self.client) if self._forked is None else self._forked.kind

    def __getattr__(self, name: str) -> Any:
        """Delegate everything else to the client; in a child, build it first.

        Raises:
            KafkaGuardError: No factory was given, so the guard cannot build the client.
        """
        forked = self._forked
        if forked is None:
            return super().__getattr__(name)
        if forked.begin is None:
            raise forked.make(ClientStateError, _FORKED, verdict=OF_PARENT)
        self._forked = None
        try:
            forked.begin()
        except BaseException:
            vars(self).clear()
            self._forked = forked
            raise
        return getattr(self, name)


def again(begin: Callable[[Any], None], wish: Wish) -> Callable[[], None] | None:
    """Return a function that builds a client and begins with it; None if no factory."""
    factory = wish.factory
    if factory is None:
        return None
    return lambda: begin(build(factory, wish.config or {}))
