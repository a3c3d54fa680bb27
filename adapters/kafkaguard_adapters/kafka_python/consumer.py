"""The guarded ``kafka.KafkaConsumer``."""

from __future__ import annotations

import random
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

from kafka import __version__
from kafka.errors import CommitFailedError, KafkaError, KafkaTimeoutError
from kafka.structs import OffsetAndMetadata, OffsetAndTimestamp
from kafka.structs import TopicPartition as ClientPartition

from kafkaguard._cluster.offsets import EARLIEST, LATEST
from kafkaguard._cluster.reports import as_partition, raise_gravest
from kafkaguard._consuming.commits import CommitRun, failed_event
from kafkaguard._consuming.machine import FENCED_INSTANCE, ConsumerMachine
from kafkaguard._errors import KafkaGuardError
from kafkaguard._errors.base import Action
from kafkaguard_adapters.asking.tiered_offsets import TieredOffsets, offsets_of
from kafkaguard_adapters.client_errors import recast
from kafkaguard_adapters.consuming import commits
from kafkaguard_adapters.consuming.base import (
    LIST_OFFSETS,
    LOOK_UPS,
    BlockingConsumer,
    guard_consumer,
    refuse_calls,
)
from kafkaguard_adapters.consuming.commits import check_owned, spread_error
from kafkaguard_adapters.consuming.driver import Driver
from kafkaguard_adapters.consuming.group_starts import GroupStarts
from kafkaguard_adapters.consuming.questions import reset_of
from kafkaguard_adapters.inside_names import warn_changed
from kafkaguard_adapters.kafka_python._private.consuming import names
from kafkaguard_adapters.kafka_python._private.consuming.committing import Committing
from kafkaguard_adapters.kafka_python._private.consuming.fetching import (
    KafkaPythonConsumerShell,
)
from kafkaguard_adapters.kafka_python.errors import errors
from kafkaguard_adapters.kafka_python.processing import KafkaPythonProcessShell
from kafkaguard_adapters.kafka_python.view import view_of
from kafkaguard_adapters.processing.consumer import Processing
from kafkaguard_adapters.stand_in import CLOSE_S
from kafkaguard_adapters.wire.io_thread import run, start

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping

    from kafkaguard._cluster.offsets import OffsetsReport, PartitionOffset
    from kafkaguard._cluster.reports import TopicPartition
    from kafkaguard_adapters.asking.cluster_view import ClusterView
    from kafkaguard_adapters.building import Wish
    from kafkaguard_adapters.processing.arguments import Arguments
    from kafkaguard_adapters.processing.shell import ThreadShell

    _Find = Callable[
        [Mapping[Any, Any], float], Coroutine[Any, Any, OffsetsReport | None]
    ]

_MS = 1000


class PublicConsumer(BlockingConsumer):
    """A guarded KafkaConsumer that uses the client's public interface only.

    Its errors have a verdict, and its own look-ups of offsets wait for remote storage.
    If such a look-up fails, the error is also a ``KafkaTimeoutError``, as the client
    alone would raise.

    Args:
        consumer: The client's consumer.
        view: The cluster view for the guard's own requests.
        wish: What ``guard()`` was told: policy, settings, hook.
    """

    client: Any

    def __init__(
        self,
        consumer: Any,
        view: ClusterView,
        wish: Wish,
    ) -> None:
        super().__init__(consumer, view)
        self._policy = wish.policy
        self._group = consumer.config["group_id"]
        self._isolation = consumer.config["isolation_level"]
        self._tiered = TieredOffsets(view, self._isolation)

    # --- polling ----------------------------------------------------------------------

    def poll(self, *args: Any, **kwargs: Any) -> Any:
        """Poll, as ``KafkaConsumer.poll`` does.

        Raises:
            KafkaGuardError: The client raised an error. The error also has the client's
                class, and topic and partition if they are known.
        """
        try:
            return self.client.poll(*args, **kwargs)
        except KafkaError as error:
            raise self._translate_raised(error) from error

    def __iter__(self) -> Self:
        """Return the consumer; iterating reads record after record, as the client."""
        return self

    def __next__(self) -> Any:
        """Read the next record.

        Raises:
            KafkaGuardError: As for :meth:`poll`.
        """
        try:
            return next(self.client)
        except KafkaError as error:
            raise self._translate_raised(error) from error

    def _translate_raised(self, error: KafkaError) -> KafkaGuardError:
        if self.cluster_view.is_closed:
            return self.cluster_view.closed("nothing can be read")
        return _translate(error)

    # --- offsets ----------------------------------------------------------------------

    def beginning_offsets(
        self, partitions: Collection[Any], timeout_ms: float | None = None
    ) -> Any:
        """Look up first offsets, as ``KafkaConsumer.beginning_offsets`` does."""
        look_up = self.client.beginning_offsets
        return self._look_up(look_up, EARLIEST, partitions, timeout_ms)

    def end_offsets(
        self, partitions: Collection[Any], timeout_ms: float | None = None
    ) -> Any:
        """Look up end offsets, as ``KafkaConsumer.end_offsets`` does."""
        look_up = self.client.end_offsets
        return self._look_up(look_up, LATEST, partitions, timeout_ms)

    def __getattr__(self, name: str) -> Any:
        """Delegate everything else to the client; look-ups raise our errors."""
        attribute = super().__getattr__(name)
        api = LOOK_UPS.get(name)
        return attribute if api is None else _translated(api)(attribute)

    def _look_up(
        self,
        look_up: Callable[..., Any],
        time: int,
        partitions: Collection[Any],
        timeout_ms: float | None,
    ) -> Any:
        """Look up offsets of tiered topics; leave others to the client's method."""
        times = dict.fromkeys(partitions, time)
        report = self._run(self._tiered.find, times, timeout_ms)
        if report is None:
            with _translated(LIST_OFFSETS):
                return look_up(partitions, timeout_ms)
        return offsets_of(report, partitions)

    def offsets_for_times(
        self, timestamps: Mapping[Any, float], timeout_ms: float | None = None
    ) -> Any:
        """Look up offsets by time, as ``KafkaConsumer.offsets_for_times`` does."""
        report = self._run(self._tiered.find_times, timestamps, timeout_ms)
        if report is None:
            with _translated(LIST_OFFSETS):
                return self.client.offsets_for_times(timestamps, timeout_ms)
        return {each: _as_client_offset(report.partitions[each]) for each in timestamps}

    def _run(
        self, find: _Find, times: Mapping[Any, Any], timeout_ms: float | None
    ) -> OffsetsReport | None:
        if timeout_ms is None:
            timeout_ms = self.client.config["request_timeout_ms"]
        try:
            return run(find(times, timeout_ms / _MS))
        except KafkaGuardError as error:
            raise recast(error, KafkaTimeoutError) from error

    def _positions(self) -> Mapping[TopicPartition, int | None]:
        return {
            as_partition(place): self.client.position(place, timeout_ms=0)
            for place in self.client.assignment()
        }

    # --- the end ----------------------------------------------------------------------

    def close(self, autocommit: bool = True, timeout_ms: float | None = None) -> None:
        """Close, as ``KafkaConsumer.close`` does, within 30 s by default."""
        if self.is_forked:
            return
        self.close_view()
        limit = min(CLOSE_S * _MS, self.client.config["request_timeout_ms"])
        try:
            self.client.close(autocommit, limit if timeout_ms is None else timeout_ms)
        except KafkaError as error:
            raise _translate(error) from error
        finally:
            refuse_calls(self, self.cluster_view.closed, ["bootstrap"])

    def __exit__(self, *raised: object) -> None:
        """Close; if the block raised an exception, commit nothing."""
        self.close(autocommit=not any(raised))


class GuardedConsumer(Processing, PublicConsumer):
    """A KafkaConsumer that holds single partitions, and whose commits have verdicts."""

    def __init__(
        self,
        consumer: Any,
        view: ClusterView,
        wish: Wish,
    ) -> None:
        super().__init__(consumer, view, wish)
        self._wish = wish
        machine = ConsumerMachine(
            wish.policy,
            errors.make,
            random.random,
            client=errors.client,
            reset=reset_of(consumer.config["auto_offset_reset"]),
        )
        self._committing = Committing(consumer, self._note_commit)
        self._shell = shell = KafkaPythonConsumerShell(
            consumer, keeps_pauses=wish.policy.keep_pauses
        )
        self._driver = shell.driver = Driver(
            machine, shell, view, launch=start, hook=wish.on_event
        )
        shell.group_starts = GroupStarts(
            self._group,
            reset_of(consumer.config["auto_offset_reset"]),
            commits_itself=consumer.config["enable_auto_commit"],
            commit=self._commit_starts,
        )

    def _commit_starts(self, starts: dict[TopicPartition, int]) -> None:
        """Commit where reading begins; a failure is the event of a commit."""
        self.client.commit_async(
            {
                ClientPartition(*place): OffsetAndMetadata(offset, "", -1)
                for place, offset in starts.items()
            }
        )

    def commit(
        self,
        offsets: Any = None,
        timeout_ms: float | None = None,
        *,
        allow_unassigned: bool = False,
    ) -> None:
        """Commit, as ``KafkaConsumer.commit`` does.

        Partitions that are refused with a retriable error are tried again, without the
        others, within ``timeout_ms`` (by default ``request_timeout_ms``) and the
        policy's deadline, while they are still assigned. After a rebalance, the commit
        is not tried again.

        Args:
            offsets: As in kafka-python.
            timeout_ms: The most milliseconds for all attempts.
            allow_unassigned: Commit also for partitions of the group that this member
                does not own. The broker takes such a commit, and the member that owns
                them may read records again, or miss some, after the next rebalance.

        Raises:
            ClientStateError: A partition is not assigned (any more): REJOIN. Nothing
                was committed. It is also a ``CommitFailedError``.
            KafkaGuardError: The most severe error of a partition, with the other errors
                as notes. All other partitions are committed.
        """
        if timeout_ms is None:
            timeout_ms = self.client.config["request_timeout_ms"]
        if offsets is None and self.client.config["group_id"] is not None:
            offsets = self._committing.consumed()
        elif not allow_unassigned:
            self._check_owned(offsets)
        if not offsets or not isinstance(offsets, dict):
            return self._commit_by_client(offsets, timeout_ms)
        until = time.monotonic() + min(timeout_ms / _MS, self._policy.deadline)
        attempt = CommitRun(
            self._policy, random.random, offsets, until, client=errors.client
        )

        def once(places: Collection[Any]) -> dict[TopicPartition, KafkaGuardError]:
            seconds_left = max(0.0, until - time.monotonic())
            subset = {
                partition: at
                for partition, at in offsets.items()
                if partition in places
            }
            try:
                return self._committing.once(subset, seconds_left * _MS)
            except KafkaTimeoutError as error:
                return attempt.errors or spread_error(errors, subset, error)
            except KafkaError as error:
                return spread_error(errors, subset, error)

        commits.commit(attempt, once, self._committing.owned)
        self._driver.note(attempt.event())
        fenced_error = self._shell.was_fenced() if _is_fenced(attempt.errors) else None
        self._driver.tell()
        if fenced_error is not None:
            raise fenced_error
        raise_gravest(_as_client(each) for each in attempt.errors.values())
        return None

    def _commit_by_client(self, offsets: Any, timeout_ms: float) -> None:
        """Call the client's own commit, which raises its error or does nothing."""
        try:
            self.client.commit(offsets, timeout_ms)
        except KafkaError as error:
            raise _translate(error) from error

    def _check_owned(self, offsets: Any) -> None:
        places = [e for e in offsets or () if isinstance(e, ClientPartition)]
        owned = self._committing.owned()
        check_owned(errors, places, owned, theirs=CommitFailedError)

    def commit_async(
        self,
        offsets: Any = None,
        callback: Callable[..., Any] | None = None,
        *,
        allow_unassigned: bool = False,
    ) -> Any:
        """Commit, as ``KafkaConsumer.commit_async`` does. A failure is also an event.

        The callback gets an exception of kafkaguard's and of kafka-python's class.

        Raises:
            ClientStateError: As for :meth:`commit`, unless ``allow_unassigned``.
        """
        if not allow_unassigned:
            self._check_owned(offsets)
        called = callback
        if self.client.config["group_id"] is not None:
            offsets = self._committing.consumed() if offsets is None else offsets
            called = self._committing.callback_for(offsets, callback)
        try:
            return self.client.commit_async(offsets, called)
        except KafkaError as error:
            raise _translate(error) from error

    def _translate_raised(self, error: KafkaError) -> KafkaGuardError:
        guard_error = super()._translate_raised(error)
        if guard_error.code == FENCED_INSTANCE:
            guard_error = self._shell.was_fenced()
        self._driver.tell()
        return guard_error

    def _note_commit(
        self, refused: dict[TopicPartition, KafkaGuardError], by_user: bool
    ) -> None:
        kind: Any = "async" if by_user else "auto"
        if _is_fenced(refused):
            self._driver.later(self._shell.note_fenced)
        self._driver.note(
            failed_event(self._policy, refused, kind=kind, client=errors.client)
        )

    def _make_process_shell(self, arguments: Arguments) -> ThreadShell:
        self._shell.group_starts.commits_itself = True
        return KafkaPythonProcessShell(self, self._committing, arguments, self._wish)

    def close(self, autocommit: bool = True, timeout_ms: float | None = None) -> None:
        """Close, as ``KafkaConsumer.close`` does, within 30 s by default.

        A run of ``process()`` ends first, with what is done committed.
        """
        self._finish_run()
        try:
            super().close(autocommit, timeout_ms)
        finally:
            if not self.is_forked:
                self._driver.close()


def _is_fenced(refused: Mapping[TopicPartition, KafkaGuardError]) -> bool:
    return any(each.code == FENCED_INSTANCE for each in refused.values())


def _translate(error: BaseException, **place: Any) -> KafkaGuardError:
    if isinstance(error, KafkaGuardError):
        return error
    return errors.translate_read(error, **place)


@contextmanager
def _translated(api: str) -> Iterator[None]:
    """Give the client's errors a verdict, as answers to a request."""
    try:
        yield
    except KafkaError as error:
        raise _translate(error, api=api) from error


def _as_client(error: KafkaGuardError) -> KafkaGuardError:
    """Give an error of a commit the class that the client alone would raise."""
    if error.original_type is not None:
        return error  # the client has raised it, in the class of its choice
    if error.verdict.action is Action.REJOIN:
        return recast(error, CommitFailedError)
    return recast(error, KafkaTimeoutError) if error.verdict.retriable else error


def _as_client_offset(offset: PartitionOffset) -> Any:
    if offset.offset is None or offset.timestamp is None:
        return None
    epoch = -1 if offset.leader_epoch is None else offset.leader_epoch
    return OffsetAndTimestamp(offset.offset, round(offset.timestamp * _MS), epoch)


def wrap(consumer: Any, wish: Wish) -> PublicConsumer:
    """Guard a consumer, as :func:`kafkaguard.guard` says."""
    missing_names = names.missing(consumer)
    if missing_names:
        warn_changed("kafka-python", __version__, "3.0.x", missing_names)
    kind = PublicConsumer if missing_names else GuardedConsumer
    return guard_consumer(kind, consumer, wish, view_of, errors.make)
