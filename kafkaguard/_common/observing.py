"""How the parts that run are seen by telemetry: the object behind a hook."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    #: Numbers by topic and name.
    Numbers = Mapping[tuple[str, str], float]
    Header = tuple[str, bytes | None]

Kind = Literal["producer", "consumer", "process"]


class Watched(Protocol):
    """A driver whose numbers are read at each scrape, on the scraper's thread."""

    def gauges(self) -> Numbers:
        """Return how it stands now. Other threads may change it meanwhile."""


class Observer(Protocol):
    """What telemetry does with drivers; a hook has it as its ``_observer``."""

    #: Whether spans are made.
    traces: bool

    def watch(
        self, kind: Kind, owner: Watched, totals: Numbers, group: str = ""
    ) -> None:
        """Read the numbers of a driver at each scrape, while it lives.

        Args:
            kind: What the names of the numbers are about.
            owner: The driver.
            totals: Its counts, which only grow; they outlive it.
            group: The consumer group.
        """

    def handled(self, topic: str, group: str, seconds: float) -> None:
        """Record how long a handler took for a chunk of records."""

    def processing(
        self, place: tuple[str, int], group: str, headers: Sequence[Sequence[Header]]
    ) -> AbstractContextManager[object]:
        """Make a span around a call of a handler.

        Args:
            place: The topic and partition.
            group: The consumer group.
            headers: Those of each record.
        """

    def letter(self, topic: str, headers: Sequence[Header]) -> None:
        """Make a span for a dead letter, with these headers, that is being sent."""

    def traced(
        self, send: Callable[..., Any], like: Callable[..., Any]
    ) -> Callable[..., Any]:
        """Return a ``send`` that makes a span for each call.

        Args:
            send: Takes a topic first; it may be a coroutine function.
            like: Has the same parameters by name. If ``headers`` is not among them,
                records are sent without a trace of their own.
        """


def observer_of(hook: object) -> Observer | None:
    """Return what a hook does beside receiving events; None: nothing."""
    return getattr(hook, "_observer", None)


def traced(
    hook: object, send: Callable[..., Any], like: Callable[..., Any] | None = None
) -> Callable[..., Any]:
    """Return a ``send`` that makes a span for each call, if the hook wants spans."""
    observer = observer_of(hook)
    return send if observer is None else observer.traced(send, like or send)
