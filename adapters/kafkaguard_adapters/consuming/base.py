"""The base of guarded consumers: forks, calls after the end, the consumer's own lag.

In a forked child, threads are missing and connections are shared. There, a guarded
consumer forgets its client and connections, so that the child cannot use or close
anything that belongs to the parent. If a factory was given, the next use builds a
client for the child. Otherwise it raises an error.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from dataclasses import replace
from functools import partial
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, TypeVar

from kafkaguard._cluster.lag import (
    GroupLag,
    LagReason,
    LagReport,
    PartitionLag,
    measure,
)
from kafkaguard._errors import ClientStateError
from kafkaguard_adapters.asking.cluster_calls import (
    TIMEOUT_S,
    AsyncClusterCalls,
    Isolation,
)
from kafkaguard_adapters.building import build
from kafkaguard_adapters.client_errors import OF_PARENT
from kafkaguard_adapters.forks import at_fork
from kafkaguard_adapters.stand_in import GuardedClient, StandIn
from kafkaguard_adapters.wire.io_thread import run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kafkaguard._cluster.reports import Make, TopicPartition
    from kafkaguard._errors import KafkaGuardError
    from kafkaguard._verdicts.topic_facts import TopicFactsCache
    from kafkaguard_adapters.asking.cluster_view import ClusterView
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
        state = _Forked(type(self.client), *self._at_fork)
        parents = vars(self).copy()
        vars(self).clear()
        self._forked = state
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
        state = self._forked
        if state is None:
            return super().__getattr__(name)
        if state.begin is None:
            raise state.make(ClientStateError, _FORKED, verdict=OF_PARENT)
        self._forked = None
        try:
            state.begin()
        except BaseException:
            vars(self).clear()
            self._forked = state
            raise
        return getattr(self, name)


def guard_consumer(
    kind: type[ConsumerT],
    client: Any,
    wish: Wish,
    view_of: Callable[[Any, Mapping[str, Any] | None, TopicFactsCache], ClusterView],
    make: Make,
) -> ConsumerT:
    """Guard a client's consumer; with a factory, a forked child builds its own client.

    Args:
        kind: The class of the guarded consumer.
        client: The client's consumer.
        wish: What ``guard()`` was told.
        view_of: Makes the cluster view of a client.
        make: Makes errors that also have the client's class.
    """
    guarded = kind.__new__(kind)
    init: Any = kind.__init__
    factory = wish.factory

    def begin(client: Any) -> None:
        init(guarded, client, view_of(client, wish.config, wish.cache), wish)
        guarded.watch_forks(make, rebuild)

    rebuild = factory and (lambda: begin(build(factory, wish.config or {})))
    begin(client)
    return guarded


#: Calls that read, look up, commit, move a position or change what is read.
_CALLS: Final = (
    "assign",
    "beginning_offsets",
    "commit",
    "commit_async",
    "committed",
    "end_offsets",
    "incremental_assign",
    "incremental_unassign",
    "offsets_for_times",
    "pause",
    "poll",
    "resume",
    "seek",
    "seek_to_beginning",
    "seek_to_end",
    "subscribe",
    "topics",
    "unassign",
    "unsubscribe",
)


#: Requests of calls that look something up; some are answered without a request.
LIST_OFFSETS: Final = "ListOffsets"
LOOK_UPS: Final = {
    "committed": "OffsetFetch",
    "position": LIST_OFFSETS,
    "list_topics": "Metadata",
    "partitions_for_topic": "Metadata",
    "topics": "Metadata",
}


def refuse_calls(
    consumer: StandIn,
    make: Callable[[str], KafkaGuardError],
    more: Iterable[str] = (),
) -> None:
    """Let the calls of a closed consumer raise ``ClientClosedError``.

    Listeners may still commit while the client closes, so this comes afterwards.
    Coroutine functions are left out: they check this themselves.

    Args:
        consumer: The guarded consumer.
        make: Makes the error; its argument is what the call did not do.
        more: Names of other methods that do not work any more.
    """
    for name in (*_CALLS, *more):
        call = getattr(type(consumer.client), name, None)
        if call is not None and not iscoroutinefunction(call):
            vars(consumer)[name] = partial(_refuse, make, name)


def _refuse(
    make: Callable[[str], KafkaGuardError], name: str, *_: Any, **__: Any
) -> NoReturn:
    raise make(f"{name}() did nothing")


ConsumerT = TypeVar("ConsumerT", bound="ForkSafe")
#: The name of the group in the report of a consumer without a group.
NO_GROUP = ""


async def own_lag(
    view: ClusterView,
    group: str | None,
    positions: Mapping[TopicPartition, int | None],
    *,
    isolation: Isolation,
    timeout: float = TIMEOUT_S,  # noqa: ASYNC109 - limits the whole report, cancels nothing
    **more: Any,
) -> LagReport:
    """Measure the lag of a consumer.

    Args:
        view: The cluster view.
        group: The consumer's group; None: it has no group, so it commits nothing.
        positions: The position in each assigned partition.
        isolation: Which offset is the end: the high watermark or the last stable
            offset.
        timeout: Seconds for the whole report. Default: 30.
        more: Other arguments of ``lag``, if the consumer has a group.

    Returns:
        A report of one group, with the assigned partitions only.

    Raises:
        KafkaGuardError: The client was closed, or its settings cannot be used for a
            connection of the guard.
    """
    view.cluster()  # raises if the cluster cannot be used
    calls = AsyncClusterCalls()
    calls.cluster_view = view
    name = group or NO_GROUP
    if not positions:
        return LagReport({name: GroupLag(name)}, time.time())
    if not group:
        ends = await calls.end_offsets(positions, timeout, isolation=isolation)
        partitions = {
            place: measure(
                place,
                None,
                offset.offset,
                position=positions[place],
                read_error=view.read_errors.get(place),
            )
            if offset.offset is not None
            else PartitionLag(
                *place,
                reason=LagReason.ERROR,
                error=offset.error,
                position=positions[place],
            )
            for place, offset in ends.partitions.items()
        }
        return LagReport({name: GroupLag(name, partitions=partitions)}, time.time())
    topics = sorted({place.topic for place in positions})
    report = await calls.lag(
        [group], topics, isolation=isolation, timeout=timeout, **more
    )
    group_lag = report.groups[group]
    own_partitions = {
        place: replace(each, position=positions[place])
        for place, each in group_lag.partitions.items()
        if place in positions
    }
    return replace(
        report, groups={group: replace(group_lag, partitions=own_partitions)}
    )


class BlockingConsumer(ForkSafe, GuardedClient):
    """A guarded consumer with blocking calls: it reports its own lag, handles forks."""

    #: The consumer's group; None if it has no group.
    _group: str | None
    _isolation: Isolation

    @abstractmethod
    def _positions(self) -> Mapping[TopicPartition, int | None]:
        """Return the position in each partition; None: not known yet."""

    def lag(self, groups: Any = None, *args: Any, **kwargs: Any) -> LagReport:
        """Measure the lag of groups, or by default of this consumer.

        The consumer's own report has its assigned partitions, each with the committed
        offset, the position, and the lag of both. A partition that cannot be read has a
        ``read_error``.

        Args:
            groups: Names of groups. Default: this consumer only.
            args: Other arguments of ``lag`` of the other guarded clients.
            kwargs: Other arguments of ``lag``, by name.
        """
        if groups is not None or args or "topics" in kwargs:
            return super().lag(groups, *args, **kwargs)
        view = self.cluster_view
        positions = {} if view.is_closed else self._positions()
        kwargs = {"isolation": self._isolation, **kwargs}
        return run(own_lag(view, self._group, positions, **kwargs))
