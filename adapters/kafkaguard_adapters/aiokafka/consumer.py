"""The guarded ``aiokafka.AIOKafkaConsumer``."""

from __future__ import annotations

import asyncio
import random
from asyncio import get_running_loop
from functools import wraps
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Self

from aiokafka.errors import (
    CommitFailedError,
    ConsumerStoppedError,
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    RequestTimedOutError,
    UnknownTopicOrPartitionError,
)
from aiokafka.structs import OffsetAndTimestamp
from aiokafka.structs import TopicPartition as ClientPartition

from aiokafka import __version__
from kafkaguard._cluster.offsets import EARLIEST, LATEST
from kafkaguard._cluster.reports import as_partition, raise_gravest
from kafkaguard._consuming.commits import CommitRun, failed_event
from kafkaguard._consuming.machine import ConsumerMachine
from kafkaguard._errors import ClientStateError, KafkaGuardError
from kafkaguard._errors.base import Action
from kafkaguard_adapters.aiokafka._private.consuming import names
from kafkaguard_adapters.aiokafka._private.consuming.committing import Committing
from kafkaguard_adapters.aiokafka._private.consuming.fetching import (
    AIOKafkaConsumerShell,
)
from kafkaguard_adapters.aiokafka._private.consuming.membership import Membership
from kafkaguard_adapters.aiokafka._private.consuming.reading import (
    Reading,
    close_unread,
    translated,
)
from kafkaguard_adapters.aiokafka.errors import NOT_STARTED, complete_table, errors
from kafkaguard_adapters.aiokafka.processing import AIOKafkaProcessShell
from kafkaguard_adapters.aiokafka.settings import consumer_config_of
from kafkaguard_adapters.aiokafka.stand_in import StandIn
from kafkaguard_adapters.aiokafka.view import view_of
from kafkaguard_adapters.asking.tiered_offsets import TieredOffsets, offsets_of
from kafkaguard_adapters.client_errors import recast
from kafkaguard_adapters.consuming import commits
from kafkaguard_adapters.consuming.base import (
    LIST_OFFSETS,
    LOOK_UPS,
    ForkSafe,
    guard_consumer,
    own_lag,
    refuse_calls,
)
from kafkaguard_adapters.consuming.commits import check_owned, spread_error
from kafkaguard_adapters.consuming.driver import Driver
from kafkaguard_adapters.consuming.group_starts import GroupStarts
from kafkaguard_adapters.consuming.questions import reset_of
from kafkaguard_adapters.inside_names import warn_changed
from kafkaguard_adapters.processing.consumer import AwaitedProcessing

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping

    from kafkaguard._cluster.lag import LagReport
    from kafkaguard._cluster.offsets import PartitionOffset
    from kafkaguard._cluster.reports import TopicPartition
    from kafkaguard_adapters.asking.cluster_calls import Isolation
    from kafkaguard_adapters.asking.cluster_view import ClusterView
    from kafkaguard_adapters.building import Wish
    from kafkaguard_adapters.processing.arguments import Arguments
    from kafkaguard_adapters.processing.shell import AwaitedShell

_MS = 1000

#: Methods that fail inside the client if it was not started; checked first.
_AWAITED = frozenset(
    {
        "committed",
        "position",
        "seek_to_beginning",
        "seek_to_committed",
        "seek_to_end",
        "topics",
    }
)


class _CheckedReads:
    """Reads with a check first: the consumer is not open, or not known inside."""

    def __init__(self, consumer: GuardedConsumer) -> None:
        self._consumer = consumer

    async def getone(self, *partitions: Any) -> Any:
        """Read one record."""
        consumer = self._consumer
        return await consumer.checked(consumer.client.getone)(*partitions)

    async def getmany(self, *partitions: Any, **limits: Any) -> Any:
        """Read records."""
        consumer = self._consumer
        return await consumer.checked(consumer.client.getmany)(*partitions, **limits)

    async def __anext__(self) -> Any:
        """Read the next record; a consumer that was closed has none."""
        consumer = self._consumer
        if consumer.is_ended:
            raise StopAsyncIteration
        return await consumer.checked(consumer.client.__anext__)()


class GuardedConsumer(AwaitedProcessing, ForkSafe, StandIn):
    """An AIOKafkaConsumer that holds only failing partitions, with commit verdicts.

    The consumer's look-ups of offsets wait for remote storage, up to
    ``request_timeout_ms``.

    Args:
        consumer: The client's consumer.
        view: The cluster view for the guard's own calls.
        wish: What ``guard()`` was told: policy, settings, hook.
    """

    client: Any
    _kind = "consumer"

    def __init__(
        self,
        consumer: Any,
        view: ClusterView,
        wish: Wish,
    ) -> None:
        super().__init__(consumer, view)
        config = consumer_config_of(consumer)
        self._isolation: Isolation = config["isolation_level"]
        self._group = config["group_id"]
        self._wish = wish
        self._seconds = config["request_timeout_ms"] / _MS
        self._tiered = TieredOffsets(view, self._isolation)
        self._policy = wish.policy
        self._on_event = wish.on_event
        self._loop = config["loop"]
        self._reset = config["auto_offset_reset"]
        self._is_started = False
        self._starting: set[asyncio.Future[None]] = set()
        self._reads: _CheckedReads | Any = _CheckedReads(self)
        self._reading: Reading | None = None
        self._shell: AIOKafkaConsumerShell | None = None
        self._driver: Driver | None = None
        self._committing: Committing | None = None
        if names.is_started(consumer):
            self._connect_guard()

    # --- the life of a consumer -------------------------------------------------------

    async def start(self) -> None:
        """Start the client; if that fails, close what it has opened.

        Raises:
            KafkaGuardError: The client raised an error. It also has the client's class.
        """
        if self.cluster_view.is_closed:
            raise self._make_closed_error("start() did nothing")
        self._check_loop()
        try:
            await super().start()
        except UnknownTopicOrPartitionError as error:
            raise self._name_topics(error) from error.__cause__
        self._connect_guard()

    def _name_topics(self, error: BaseException) -> KafkaGuardError:
        """Name the topics for whose metadata the client has waited in vain."""
        topics = sorted(self.client.subscription())
        return errors.translate(
            error.__cause__ or error,
            message=f"start() waited for the metadata of {', '.join(topics)}",
            context={"phase": "enqueue"},
            api="Metadata",
            topic=topics[0] if len(topics) == 1 else None,
        )

    def _connect_guard(self) -> None:
        """Read the answers to the client from now on."""
        self._is_started = True
        missing_names = names.missing(self.client)
        if missing_names:
            warn_changed("aiokafka", __version__, "0.14", missing_names)
            return
        machine = ConsumerMachine(
            self._policy,
            errors.make,
            random.random,
            client=errors.client,
            reset=reset_of(self._reset),
        )
        self._shell = shell = AIOKafkaConsumerShell(
            self.client, keeps_pauses=self._policy.keep_pauses
        )
        self._driver = shell.driver = driver = Driver(
            machine, shell, self.cluster_view, asyncio.ensure_future, self._on_event
        )
        shell.group_starts = GroupStarts(
            self._group,
            reset_of(self._reset),
            commits_itself=shell.commits_itself,
            commit=self._commit_starts,
        )
        self._reading = shell.reading = Reading(self.client, self._loop, driver.tell)
        self._reads = self.client
        if self._group is not None:
            Membership(self.client, self._fenced)
            self._committing = Committing(self.client, self._note_commit)

    def _commit_starts(self, starts: dict[TopicPartition, int]) -> None:
        """Commit where reading begins; a failure is the event of a commit."""
        offsets = {ClientPartition(*place): at for place, at in starts.items()}
        task = asyncio.ensure_future(self.client.commit(offsets))
        self._starting.add(task)
        task.add_done_callback(self._end_start)

    def _end_start(self, task: asyncio.Future[None]) -> None:
        self._starting.discard(task)
        if not task.cancelled():
            task.exception()  # was reported by the commit itself

    async def stop(self) -> None:
        """Close the guard's own connections, then the client, within 30 s.

        Raises:
            ClientStateError: Another event loop than the consumer's runs. Nothing was
                closed.
            ClientTimeoutError: The client has not closed within 30 s.
        """
        await self._end()

    async def _close_client(self) -> None:
        if self._shell is not None:  # else its names inside are not known
            close_unread(self.client)
        await super()._close_client()

    async def _end(self) -> None:
        if self.is_forked:
            return
        self._check_end()
        await self._finish_run()
        self._reads = _CheckedReads(self)
        if self._driver is not None:
            self._driver.close()
        try:
            await super()._end()
        finally:
            refuse_calls(self, self._make_closed_error)
            for task in self._starting:  # a closed client answers none of them
                task.cancel()
            await asyncio.gather(*self._starting, return_exceptions=True)

    def _check(self) -> None:
        """Refuse a call that would wait for ever or fail inside the client."""
        if self.is_ended:
            raise self._make_closed_error("nothing can be read")
        self._check_loop()
        if self._reading is not None and self._reading.death is not None:
            raise self._reading.death.with_traceback(None)
        if not self._is_started:
            raise errors.make(
                ClientStateError,
                "the consumer was not started: await consumer.start() first",
                theirs=IllegalStateError,
                verdict=NOT_STARTED,
            )

    def _make_closed_error(self, consequence: str) -> KafkaGuardError:
        return self._has_ended(consequence, ConsumerStoppedError)

    # --- polling ----------------------------------------------------------------------

    #: The client's own methods while it is open: a record costs almost nothing more.
    getone = property(attrgetter("_reads.getone"))
    getmany = property(attrgetter("_reads.getmany"))
    __anext__ = property(attrgetter("_reads.__anext__"))

    def __aiter__(self) -> Self:
        """Iterate over records, as the client does."""
        with translated():
            self.client.__aiter__()  # raises if the client is closed
        return self

    def __getattr__(self, name: str) -> Any:
        """Delegate everything else to the client; check its coroutines first."""
        attribute = super().__getattr__(name)
        if name not in _AWAITED:
            return attribute
        return self.checked(attribute, api=LOOK_UPS.get(name))

    def checked(self, call: Callable[..., Awaitable[Any]], **place: Any) -> Any:
        """Return a coroutine function of the client with checks and our errors."""

        @wraps(call)
        async def checked(*args: Any, **kwargs: Any) -> Any:
            self._check()
            with translated(**place):
                return await call(*args, **kwargs)

        return checked

    # --- handling records -------------------------------------------------------------

    async def _make_process_shell(self, arguments: Arguments) -> AwaitedShell:
        self._check()
        if self._shell is None:
            raise ClientStateError("process() does not know this version of aiokafka")
        self._shell.group_starts.commits_itself = True
        return AIOKafkaProcessShell(
            self, self._committing, self._shell.positions, arguments, self._wish
        )

    # --- commits ----------------------------------------------------------------------

    async def commit(self, offsets: Any = None) -> None:
        """Commit, as ``AIOKafkaConsumer.commit`` does, within the policy's deadline.

        Only the partitions that are refused for now are tried again, while they are
        still assigned. After a rebalance of the group, the commit is not tried again.

        Raises:
            ClientStateError: A partition is not assigned (any more): REJOIN. Nothing
                was committed. It is also aiokafka's ``IllegalStateError``.
            KafkaGuardError: The most severe error of the refused partitions, with the
                others as notes. All other partitions are committed.
        """
        self._check()
        committing = self._committing
        targets = offsets
        if committing is not None and offsets is None:
            targets = committing.consumed()
        if committing is None or not isinstance(targets, dict) or not targets:
            return await self._commit_by_client(offsets)
        if offsets is not None and committing.is_member():
            places = [each for each in targets if isinstance(each, ClientPartition)]
            hint = "or with another consumer of the group that subscribes to nothing"
            check_owned(
                errors, places, committing.owned(), hint, theirs=IllegalStateError
            )
        clock, limit = get_running_loop().time, self._policy.deadline
        until = clock() + limit
        attempt = CommitRun(
            self._policy, random.random, targets, until, client=errors.client
        )

        async def once(
            places: Collection[Any],
        ) -> Mapping[TopicPartition, KafkaGuardError]:
            offsets = {
                partition: at
                for partition, at in targets.items()
                if partition in places
            }
            try:
                async with asyncio.timeout_at(until):
                    return await committing.once(offsets)
            except TimeoutError:
                text = f"no answer within the policy's deadline, {limit:g} s"
                return attempt.errors or spread_error(
                    errors, places, KafkaTimeoutError(text)
                )
            except RequestTimedOutError:
                text = f"no answer within request_timeout_ms, {self._seconds:g} s"
                return spread_error(errors, places, RequestTimedOutError(text))
            except KafkaError as error:
                return spread_error(errors, places, error)

        await commits.commit_awaited(attempt, once, committing.owned, clock)
        if self._driver is not None:
            self._driver.note(attempt.event())
            self._driver.tell()
        raise_gravest(_as_client(each) for each in attempt.errors.values())
        return None

    async def _commit_by_client(self, offsets: Any) -> None:
        """Call the client's commit, which raises or has nothing to do."""
        with translated():
            await self.client.commit(offsets)

    def _fenced(self, error: KafkaGuardError) -> None:
        """End this consumer: another member has taken its place in the group."""
        if self._driver is not None:
            self._driver.fenced(error)
            self._driver.tell()

    def _note_commit(self, refused: dict[TopicPartition, KafkaGuardError]) -> None:
        if self._driver is not None:
            self._driver.note(
                failed_event(self._policy, refused, kind="auto", client=errors.client)
            )

    # --- offsets ----------------------------------------------------------------------

    async def lag(self, groups: Any = None, *args: Any, **kwargs: Any) -> LagReport:
        """Return the lag of groups; without a group, the lag of this consumer.

        The report of this consumer has the assigned partitions, each with the committed
        offset, the position, and the lags of both. A partition that cannot be read has
        its ``read_error``.

        Args:
            groups: The names of groups. Default: only this consumer.
            args: As for the other guarded clients.
            kwargs: The same, by name.
        """
        if groups is not None or args or "topics" in kwargs:
            return await super().lag(groups, *args, **kwargs)
        positions = self._positions()
        kwargs = {"isolation": self._isolation, **kwargs}
        return await own_lag(self.cluster_view, self._group, positions, **kwargs)

    def _positions(self) -> Mapping[TopicPartition, int | None]:
        """Return the positions; None: not known yet, or not shown by the client."""
        if self._shell is not None:
            return self._shell.positions()
        return dict.fromkeys(map(as_partition, self.client.assignment()))

    async def beginning_offsets(self, partitions: Collection[Any]) -> Any:
        """Return first offsets, as ``AIOKafkaConsumer.beginning_offsets`` does."""
        look_up = self.client.beginning_offsets
        return await self._look_up(look_up, EARLIEST, partitions)

    async def end_offsets(self, partitions: Collection[Any]) -> Any:
        """Return end offsets, as ``AIOKafkaConsumer.end_offsets`` does."""
        return await self._look_up(self.client.end_offsets, LATEST, partitions)

    async def _look_up(
        self,
        look_up: Callable[..., Awaitable[Any]],
        time: int,
        partitions: Collection[Any],
    ) -> Any:
        """Look up offsets of tiered topics; leave others to the client's method."""
        self._check()
        times = dict.fromkeys(partitions, time)
        report = await self._tiered.find(times, self._seconds)
        if report is None:
            with translated(api=LIST_OFFSETS):
                return await look_up(partitions)
        return offsets_of(report, partitions)

    async def offsets_for_times(self, timestamps: Mapping[Any, float]) -> Any:
        """Return offsets by time, as ``AIOKafkaConsumer.offsets_for_times`` does."""
        self._check()
        report = await self._tiered.find_times(timestamps, self._seconds)
        if report is None:
            with translated(api=LIST_OFFSETS):
                return await self.client.offsets_for_times(timestamps)
        return {each: _as_client_offset(report.partitions[each]) for each in timestamps}


def _as_client(error: KafkaGuardError) -> KafkaGuardError:
    """Give the refusal of a commit the class that the client would raise."""
    is_refusal = error.original_type is None  # else the client has raised it
    if is_refusal and error.verdict.action is Action.REJOIN:
        return recast(error, CommitFailedError)
    return error


def _as_client_offset(offset: PartitionOffset) -> Any:
    if offset.offset is None or offset.timestamp is None:
        return None
    return OffsetAndTimestamp(offset.offset, round(offset.timestamp * _MS))


def wrap(consumer: Any, wish: Wish) -> GuardedConsumer:
    """Guard a consumer, as :func:`kafkaguard.guard` says."""
    complete_table()
    return guard_consumer(GuardedConsumer, consumer, wish, view_of, errors.make)
