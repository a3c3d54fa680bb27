"""The guarded ``confluent_kafka.Consumer``."""

from __future__ import annotations

import math
import random
import threading
import time
import weakref
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import (
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.error import KeyDeserializationError, ValueDeserializationError

from kafkaguard._cluster.offsets import EARLIEST, LATEST
from kafkaguard._cluster.reports import as_partition
from kafkaguard._common.logs import Log
from kafkaguard._consuming.commits import OFFSET_COMMIT
from kafkaguard._consuming.machine import (
    FENCED_INSTANCE,
    FETCH,
    OFFSET_FETCH,
    OUT_OF_RANGE,
    ConsumerMachine,
    ReadRefusal,
)
from kafkaguard._errors import KafkaGuardError
from kafkaguard_adapters.asking.cluster_calls import TIMEOUT_S
from kafkaguard_adapters.asking.tiered_offsets import TieredOffsets
from kafkaguard_adapters.building import build
from kafkaguard_adapters.confluent.callbacks import Chained
from kafkaguard_adapters.confluent.client_log import LOGGER
from kafkaguard_adapters.confluent.committing import Committing, places_of
from kafkaguard_adapters.confluent.errors import errors
from kafkaguard_adapters.confluent.listening import ResetLog, prepare
from kafkaguard_adapters.confluent.processing import (
    ConfluentProcessShell,
    check_subscribed,
    unprepared,
)
from kafkaguard_adapters.confluent.reading import ConfluentConsumerShell
from kafkaguard_adapters.confluent.view import view_of
from kafkaguard_adapters.consuming.base import (
    LIST_OFFSETS,
    LOOK_UPS,
    BlockingConsumer,
    guard_consumer,
    refuse_calls,
)
from kafkaguard_adapters.consuming.commits import check_owned
from kafkaguard_adapters.consuming.driver import Driver
from kafkaguard_adapters.consuming.group_starts import GroupStarts
from kafkaguard_adapters.consuming.questions import Origin, reset_of
from kafkaguard_adapters.processing.consumer import Processing
from kafkaguard_adapters.processing.settings import auto_commits
from kafkaguard_adapters.wire.io_thread import loop, run, start

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from kafkaguard._cluster.offsets import OffsetsReport
    from kafkaguard._cluster.reports import TopicPartition as Place
    from kafkaguard_adapters.asking.cluster_view import ClusterView
    from kafkaguard_adapters.building import Wish
    from kafkaguard_adapters.processing.arguments import Arguments
    from kafkaguard_adapters.processing.shell import ThreadShell

__all__ = ["GuardedConsumer", "prepare", "wrap"]

#: What a call of the client may raise.
_RAISED = (KafkaException, KafkaError, RuntimeError, SystemError)
_log = Log("consumer")

#: librdkafka's own defaults.
_ISOLATION: Final = "read_committed"
_FOR_EVER: Final = -1
_AUTO_COMMIT: Final = "enable.auto.commit"
#: The listeners of ``subscribe``, in the order of its arguments.
_LISTENERS: Final = ("on_assign", "on_revoke", "on_lost")
_AT_ONCE: Final = 0.0
#: librdkafka's words when it cannot look up committed offsets; it does not repeat it.
_GAVE_UP: Final = "Failed to fetch committed offsets"
#: What librdkafka says within a fatal error if a broker has answered 82.
_FENCED_TEXT: Final = KafkaError(FENCED_INSTANCE).str()
_ALL_DOWN: Final = KafkaError._ALL_BROKERS_DOWN  # noqa: SLF001 - a documented constant
#: librdkafka's words for a closed consumer, and for the start of the log.
_CLOSED: Final = "Consumer closed"
#: Methods that need an open client only in confluent-kafka.
_ONLY_OPEN: Final = (
    "assignment",
    "cluster_id",
    "consume",
    "consumer_group_metadata",
    "get_watermark_offsets",
    "list_topics",
    "memberid",
    "position",
    "set_sasl_credentials",
    "store_offsets",
)
#: Most seconds that a ``poll`` blocks in the client before the guard does what is due.
_SLICE_S: Final = 0.2
#: Seconds between two calls that find nothing. Since 2.16.1 the client lets one thread
#: in at a time, and a thread that waits looks once a millisecond whether it may.
_TURN_S: Final = 0.005
#: Seconds between two checks of the readers' positions.
_CHECK_EVERY_S: Final = 0.5
#: Seconds between two checks of what is due while each poll returns a record.
_SPEED_UP_S: Final = 0.1


class GuardedConsumer(Processing, BlockingConsumer):
    """A Consumer that holds only failing partitions, with verdicts for its commits.

    The guard's own calls need ``config=``, and so does detecting partitions that cannot
    be read. The consumer's look-ups of offsets wait for remote storage, up to
    ``timeout``; default: 30 s.

    Args:
        consumer: The client's consumer.
        view: The cluster view for the guard's own calls.
        wish: What ``guard()`` was told: policy, settings, hook.
    """

    client: Consumer

    def __init__(
        self,
        consumer: Consumer,
        view: ClusterView,
        wish: Wish,
    ) -> None:
        super().__init__(consumer, view)
        self._wish = wish
        #: What a run of ``process()`` does in rebalances; None: there is no run.
        self.rebalances: Any = None
        self._subscription: tuple[Any, dict[str, Any]] | None = None
        #: Whether the application assigns partitions by itself.
        self.is_assigned_by_user = False
        config, policy = wish.config, wish.policy
        settings = config or {}
        self._group = settings.get("group.id")
        self._instance = settings.get("group.instance.id")
        self._isolation = settings.get("isolation.level", _ISOLATION)
        self._tiered = TieredOffsets(view, self._isolation)
        setting = "" if config is None else settings.get("auto.offset.reset", "latest")
        reset = reset_of(setting)
        self._machine = ConsumerMachine(
            policy,
            errors.make,
            random.random,
            client=errors.client,
            shows_answers=False,
            reset=reset,
        )
        is_earliest = reset == "earliest"
        self._shell = ConfluentConsumerShell(consumer, is_earliest=is_earliest)
        self._driver = Driver(
            self._machine,
            self._shell,
            view,
            launch=start,
            hook=wish.on_event,
            origin=Origin(self._group, is_earliest=is_earliest),
        )
        commits_itself = _is_true(settings.get("enable.auto.commit", True))
        self._committing = Committing(
            consumer,
            self._shell,
            self._driver,
            policy,
            deadline=policy.deadline,
            commits_itself=commits_itself,
        )
        self._group_starts = GroupStarts(
            self._group,
            reset,
            commits_itself=commits_itself,
            commit=self._committing.commit_starts,
        )
        self._hear(settings)
        self._checked_at = 0.0
        #: The last change of the assignment, and the last one before the current poll,
        #: which is complete.
        self._change = self._settled = object()
        #: The assigned partitions, and the last change before the client named them.
        self._assigned: tuple[object, Collection[Place]] = None, ()
        #: Whether the group assigns the partitions; a client that is given may have
        #: subscribed before, which cannot be known.
        self._is_member = False
        if config is None:
            self._driver.stop_probing()
            _log.warning(
                "consumer_without_config",
                "guard(): without config={...} the guard cannot detect a partition "
                "that cannot be read, because a consumer of confluent-kafka does not "
                "report it and the guard cannot connect to the cluster itself",
            )
        if not isinstance(settings.get(LOGGER), ResetLog):
            _log.warning(
                "consumer_built_before",
                "guard(): the guard cannot read the callbacks and the log of a "
                "Consumer "
                "that is already built. So it does not compare resets of offsets with "
                "the log (on_offset_reset: %s), and makes no event for a failed commit "
                "that your code does not wait for. For both, use "
                "guard(factory=Consumer, config={...})",
                policy.on_offset_reset,
            )
        # librdkafka blocks for ever if one thread closes while another one polls.
        self._in_client = threading.RLock()
        self._quick = self._quick_poll(), self._quick_consume()

    # --- polling ----------------------------------------------------------------------

    def poll(self, timeout: float | None = _FOR_EVER) -> Message | None:
        """Poll, as ``Consumer.poll`` does.

        Raises:
            KafkaGuardError: The client raised an error, or reported one after which it
                cannot be used. The error also has the client's class.
        """
        message = self._poll_slowly(timeout, None)
        has_record = message is not None and message.error() is None
        if has_record and not (self._shell.failures or self._shell.ended):
            self._speed_up()
        return message

    def _speed_up(self) -> None:
        """Let the next polls call the client directly, until the next check is due."""
        self.poll, self.consume = self._quick  # type: ignore[method-assign]  # for speed: less work per record
        beat = loop()
        slow_down = partial(_slow_down, weakref.ref(self))
        beat.call_soon_threadsafe(beat.call_later, _SPEED_UP_S, slow_down)

    def _quick_poll(self) -> Callable[..., Any]:
        """Return ``poll`` for while each of them returns a record."""
        client_poll, poll_slowly = self.client.poll, self._poll_slowly
        translate = self._translate_raised

        def poll(timeout: float | None = _FOR_EVER) -> Message | None:
            """Poll, as :meth:`GuardedConsumer.poll` does."""
            try:
                message = client_poll(_AT_ONCE)
            except _RAISED as error:
                raise translate(error) from error
            if message is not None and message.error() is None:
                return message
            return poll_slowly(timeout, message)

        poll.__qualname__ = poll.__name__  # which a TypeError shows
        return poll

    def _quick_consume(self) -> Callable[..., Any]:
        """Return ``consume`` for while each of them returns records."""
        client_consume, consume_slowly = self.client.consume, self._consume_slowly
        read_errors, in_client = self.cluster_view.read_errors, self._in_client
        translate, failures, error_of = (
            self._translate_raised,
            self._shell.failures,
            Message.error,
        )

        def consume(
            num_messages: int = 1, timeout: float | None = _FOR_EVER
        ) -> list[Message]:
            """Consume, as :meth:`GuardedConsumer.consume` does."""
            if failures or read_errors or timeout is None or timeout < 0:
                return consume_slowly(num_messages, timeout)
            try:
                with in_client:
                    messages: list[Message] = client_consume(num_messages, timeout)
            except _RAISED as error:
                raise translate(error) from error
            if not messages:
                return consume_slowly(num_messages, _AT_ONCE)
            return (
                self._raise_or_return(messages)
                if any(map(error_of, messages))
                else messages
            )

        consume.__qualname__ = consume.__name__  # which a TypeError shows
        return consume

    def _poll_slowly(
        self, timeout: float | None, message: Message | None
    ) -> Message | None:
        """Poll in short slices, and do what is due between them."""
        until = _end_of(timeout)
        while message is None:
            message = self._wait(self.client.poll, until, _SLICE_S)
            if time.monotonic() >= until:
                break
        if message is not None and self._note_error(message):
            self._raise_failure()
        return message

    def consume(
        self, num_messages: int = 1, timeout: float | None = _FOR_EVER
    ) -> list[Message]:
        """Consume, as ``Consumer.consume`` does.

        The records are those of one call of the client, which stores their offsets. It
        waits until ``timeout`` for ``num_messages``. Without a timeout, or while a
        partition cannot be read, it ends with the first records.

        Raises:
            KafkaGuardError: As for ``poll``.
        """
        messages = self._consume_slowly(num_messages, timeout)
        if messages and not (self._shell.failures or self._shell.ended):
            self._speed_up()
        return messages

    def _consume_slowly(
        self, num_messages: int, timeout: float | None
    ) -> list[Message]:
        """Do what is due, and then wait in one call of the client if all is well."""
        until = _end_of(timeout)
        read_errors = self.cluster_view.read_errors
        call = partial(self.client.consume, num_messages)
        messages: list[Message] = []
        while not messages:
            is_short = read_errors or until == math.inf
            messages = self._wait(call, until, _SLICE_S if is_short else math.inf)
            if time.monotonic() >= until or not num_messages:
                break
        return (
            self._raise_or_return(messages)
            if any(map(Message.error, messages))
            else messages
        )

    def _raise_or_return(self, messages: list[Message]) -> list[Message]:
        """Record errors among messages; raise if the list has only such errors."""
        errors_to_raise = [each for each in messages if self._note_error(each)]
        if len(errors_to_raise) == len(messages):
            self._raise_failure()
        return messages

    def _wait(self, call: Callable[[float], Any], until: float, longest: float) -> Any:
        """Do what is due, raise what is queued, and then call the client once.

        Nothing is raised after the client's call has returned something: the records
        count as read, and may be committed.
        """
        self._do_due()
        self._raise_failure()
        seconds_left = min(
            until - time.monotonic(), self._driver.seconds_left(), longest
        )
        try:
            with self._in_client:
                found = call(max(_AT_ONCE, seconds_left))
        except _RAISED as error:
            raise self._translate_raised(error) from error
        if seconds_left > 10 * _TURN_S and (found is None or found == []):
            time.sleep(_TURN_S)  # so that pause(), say, of another thread gets its turn
        return found

    def _translate_raised(self, error: BaseException) -> KafkaGuardError:
        """Translate an error that the client has raised.

        A DeserializingConsumer raises errors that a Consumer returns in a message. If
        a callback runs after an error, the client hides the error in a SystemError. If
        it could not log a line then, it raises the KafkaError itself.
        """
        if isinstance(error, KafkaError):
            error = KafkaException(error)
        if isinstance(error, SystemError):
            if not isinstance(error.__cause__, KafkaException):
                raise error
            error = error.__cause__
        if isinstance(error, (KeyDeserializationError, ValueDeserializationError)):
            return _translate_undecoded(error)
        message = getattr(error, "kafka_message", None)
        if message is not None and self._note_error(message):
            if self._shell.ended is not None:
                return self._shell.ended
            self._shell.failures.pop()  # it is raised at once
        return _translate(error)

    def _note_error(self, message: Message) -> bool:
        """Record an error that the client has returned in place of a record.

        Returns:
            Whether a poll has to raise it.
        """
        error, shell = message.error(), self._shell
        if error is None:
            return False
        queued = len(shell.failures)
        topic, partition = message.topic(), message.partition()
        if topic is None and error.str().startswith(_GAVE_UP):
            self._driver.starts_unknown(errors.translate(error, api=OFFSET_FETCH))
        else:
            place, context = None, {}
            if topic is not None and partition is not None and partition >= 0:
                place = as_partition((topic, partition))
                context = {"partition": partition}
            if topic is not None:
                context |= {"api": FETCH, "topic": topic}
            self._driver.error_returned(
                place, self._translate_client_error(error, **context)
            )
        self._driver.tell()
        return len(shell.failures) > queued or shell.ended is not None

    def _translate_client_error(
        self, error: KafkaError, **context: Any
    ) -> KafkaGuardError:
        """Translate an error; librdkafka hides that a static member was fenced."""
        if _FENCED_TEXT in error.str():
            return errors.fenced("group.instance.id", self._instance)
        return errors.translate(error, **context)

    def _do_due(self) -> None:
        """Do what is due; every ``_CHECK_S`` seconds, check the readers' positions."""
        if self.cluster_view.is_closed:
            raise _translate(RuntimeError(_CLOSED))
        driver = self._driver
        if self._settled is not self._change:
            self._settled = self._change
            driver.reassigned()
        driver.tick()
        now = time.monotonic()
        if now - self._checked_at >= _CHECK_EVERY_S:
            self._checked_at = now
            driver.check_positions()

    def _raise_failure(self) -> None:
        if self._shell.failures:
            self._driver.tell()
            raise self._shell.failures.popleft()
        self._raise_end()

    def _raise_end(self) -> None:
        if self._shell.ended is not None:
            raise self._shell.ended.with_traceback(None)

    # --- callbacks --------------------------------------------------------------------

    def _hear(self, config: Mapping[str, Any]) -> None:
        """Connect the guard's callbacks, if the consumer was built with them."""
        hears: dict[str, Callable[..., Any]] = {
            "error_cb": self._hear_error,
            "on_commit": self._committing.record_result,
            LOGGER: self._hear_reset,
        }
        for name, hear in hears.items():
            listener = config.get(name)
            if isinstance(listener, (Chained, ResetLog)):
                listener.hear = hear

    def _hear_error(self, error: KafkaError) -> None:
        """Record an error that concerns no record; called while the user polls."""
        if error.code() == _ALL_DOWN:
            self._driver.unconnected()
        guard_error = self._translate_client_error(
            error, context={"phase": "background"}
        )
        self._driver.error_returned(None, guard_error)
        if self._shell.failures or self._shell.ended:  # the next poll raises it
            _slow_down(weakref.ref(self))

    def _hear_reset(self, place: Place, offset: int) -> None:
        """Record that librdkafka resets a position; called while the user polls."""
        position = self._shell.was_reset(place, offset)
        if position is not None:
            self._driver.refused(place, ReadRefusal(OUT_OF_RANGE, position=position))
            self._shell.go_back(place)

    # --- assignment -------------------------------------------------------------------

    def subscribe(self, topics: Sequence[str], *args: Any, **listeners: Any) -> Any:
        """Subscribe, as ``Consumer.subscribe`` does.

        Listeners get the guarded consumer, not the client's.
        """
        given = dict(zip(_LISTENERS, args, strict=False))
        if len(args) > len(given) or given.keys() & listeners:
            return self.client.subscribe(topics, *args, **listeners)  # raises TypeError
        given |= listeners
        if given.get("on_lost") is None:  # then librdkafka's binding calls on_revoke
            given["on_lost"] = given.get("on_revoke")
        chained_listeners = {
            name: self._chained(name, given.pop(name, None)) for name in _LISTENERS
        }
        with _translated():
            result = self.client.subscribe(topics, **chained_listeners, **given)
        self._is_member = True
        self._subscription = topics, {"args": args, **listeners}
        self.is_assigned_by_user = False
        return result

    @property
    def subscribed(self) -> Sequence[str]:
        """The topics of the subscription that the guard knows."""
        return () if self._subscription is None else self._subscription[0]

    def _note_assigned(self, partitions: Any) -> None:
        """Look for partitions without a commit, before the client does so itself."""
        if not self._group_starts.matters:
            return
        with suppress(KafkaException):  # the client's own look-up has the same fate
            self._group_starts.found(self._shell.find_ends_without_commit(partitions))

    def unsubscribe(self) -> None:
        """Unsubscribe, as ``Consumer.unsubscribe`` does."""
        self._reassign(self.client.unsubscribe)
        self._is_member = False
        self._subscription = None

    def _chained(self, name: str, listener: Any) -> Any:
        """Return a listener that the guard hears too; the client refuses others."""
        if listener is not None and not callable(listener):
            return listener

        def called(_: Any, partitions: Any) -> Any:
            self._shell.begins(partitions)
            run, is_new = self.rebalances, name == "on_assign"
            with self._changing():  # the client revokes partitions after this call
                if is_new:
                    self._note_assigned(partitions)
                elif run is not None:
                    getattr(run, name)(partitions)
                result = None if listener is None else listener(self, partitions)
                if run is not None and is_new:
                    run.on_assign(partitions)
                return result

        return called

    def assign(self, partitions: Sequence[TopicPartition]) -> None:
        """Assign, as ``Consumer.assign`` does."""
        self._reassign(self.client.assign, partitions)
        self._shell.begins(partitions)
        self.is_assigned_by_user = not self._is_member

    def incremental_assign(self, partitions: Sequence[TopicPartition]) -> None:
        """Add partitions, as ``Consumer.incremental_assign`` does."""
        self._reassign(self.client.incremental_assign, partitions)
        self._shell.begins(partitions)

    def incremental_unassign(self, partitions: Sequence[TopicPartition]) -> None:
        """Remove partitions, as ``Consumer.incremental_unassign`` does."""
        self._reassign(self.client.incremental_unassign, partitions)

    def unassign(self) -> None:
        """Remove all partitions, as ``Consumer.unassign`` does."""
        self._reassign(self.client.unassign)

    def _reassign(self, change: Callable[..., object], *partitions: Any) -> None:
        with _translated(), self._changing():
            change(*partitions)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Forget the assignment, before and after the client changes it."""
        self._change = object()
        try:
            yield
        finally:
            self._change = object()

    def _owns(self, places: list[Place]) -> bool:
        """Return whether partitions are assigned, without asking the client each time.

        The client's own answer waits for a thread of librdkafka. It is kept until the
        next change, and only if it was given while no change was under way: a listener
        hears of revoked partitions before the client drops them.
        """
        change, assigned = self._assigned
        if change is not self._change:
            change, settled = self._change, self._settled
            assigned = self._shell.assignment()
            if change is settled:
                self._assigned = change, assigned
        return not {*places}.difference(assigned)

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        """Pause, as ``Consumer.pause`` does."""
        with _translated():
            self.client.pause(partitions)
        self._machine.user_pauses(map(as_partition, partitions))

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        """Resume, as ``Consumer.resume`` does; held partitions resume later."""
        if isinstance(partitions, list):  # else the client refuses it
            free = {*self._machine.user_resumes(map(as_partition, partitions))}
            if self.rebalances is not None:
                free -= self.rebalances.paused  # the run resumes them
            partitions = [p for p in partitions if as_partition(p) in free]
        with _translated():
            self.client.resume(partitions)

    def seek(self, partition: TopicPartition) -> None:
        """Set the position, as ``Consumer.seek`` does."""
        try:
            self.client.seek(partition)
        except KafkaException as error:
            place = as_partition(partition)._asdict()
            raise _translate(error, **place) from error
        self._shell.begins([partition])
        self._driver.moved(as_partition(partition), partition.offset)

    # --- commits ----------------------------------------------------------------------

    def commit(
        self,
        message: Any = None,
        offsets: Sequence[TopicPartition] | None = None,
        asynchronous: bool = True,
        *,
        allow_unassigned: bool = False,
    ) -> Any:
        """Commit, as ``Consumer.commit`` does.

        With ``asynchronous=False`` only the partitions that are refused for now are
        tried again, within the policy's deadline and while they are still assigned.
        After a rebalance of the group, the commit is not tried again. As without the
        guard, the returned list may have refused partitions (``each.error``); each is
        an event as well.

        Args:
            message: As in confluent-kafka; so are ``offsets`` and ``asynchronous``.
            offsets: The offsets to commit.
            asynchronous: Whether to return without waiting.
            allow_unassigned: Commit also for partitions of the group that this member
                does not own. The broker takes such a commit, and the member that owns
                them may read records again, or miss some, after the next rebalance.

        Raises:
            ClientStateError: A partition is not assigned (any more): REJOIN. Nothing
                was committed.
            KafkaGuardError: The client raised an error instead of returning a list. It
                is the most severe error, with the others as notes.
        """
        self._raise_end()  # the client would only say that it had a fatal error
        arguments = {"message": message, "offsets": offsets}
        args = {name: value for name, value in arguments.items() if value is not None}
        if args and self._is_member and not allow_unassigned:
            places = places_of(args)
            if not self._owns(places):
                check_owned(errors, places, self._shell.assignment())
        if asynchronous:
            try:
                return self.client.commit(**args, asynchronous=True)
            except KafkaException as error:
                raise _translate(error, api=OFFSET_COMMIT) from error
        return self._committing.commit_and_wait(args)

    # --- handling records -------------------------------------------------------------

    _group_setting, _reset_setting = "group.id", "auto.offset.reset"

    def _given_config(self) -> dict[str, Any]:
        return unprepared(self._wish.config or {})

    def _make_process_shell(self, arguments: Arguments) -> ThreadShell:
        check_subscribed(self)
        self._switch_off_commits()
        self._group_starts.commits_itself = True
        return ConfluentProcessShell(self, arguments, self._wish)

    def _switch_off_commits(self) -> None:
        """Build the client anew without automatic commits, which it cannot change.

        Raises:
            ClientConfigurationError: The guard cannot build it.
        """
        wish = self._wish
        config = wish.config
        if config is not None and not _is_true(config.get(_AUTO_COMMIT, True)):
            return
        if wish.factory is None or config is None:
            raise auto_commits(errors, f'"{_AUTO_COMMIT}": False in its config')
        settings = {**config, _AUTO_COMMIT: False}
        subscription, assigned = self._subscription, self.client.assignment()
        user_assigned = self.is_assigned_by_user
        for each, at in zip(assigned, self.client.position(assigned), strict=True):
            each.offset = at.offset if at.offset >= 0 else each.offset
        self.close_view()
        _slow_down(weakref.ref(self))
        self.client.close()
        client = build(wish.factory, settings)
        view = view_of(client, settings, wish.cache)
        type(self).__init__(self, client, view, replace(wish, config=settings))
        if subscription is not None:
            topics, listeners = subscription
            self.subscribe(topics, *listeners.pop("args"), **listeners)
        elif user_assigned:
            self.assign(assigned)

    def read_raw(self, most: int, seconds: float) -> list[Message]:
        """Read messages without deserialisers: what is there, or the next one.

        Args:
            most: The most messages.
            seconds: How long to wait if there is none.

        Raises:
            KafkaGuardError: As for ``poll``.
        """
        call: Callable[[float], Any] = partial(Consumer.consume, self.client, most)
        messages: list[Message] = self._wait(call, 0.0, _AT_ONCE)
        if not messages and seconds:
            call = partial(Consumer.poll, self.client)
            message = self._wait(call, time.monotonic() + seconds, seconds)
            messages = [] if message is None else [message]
        if any(map(Message.error, messages)):
            self._raise_or_return(messages)
            messages = [each for each in messages if each.error() is None]
        return messages

    def commit_quietly(
        self, offsets: list[TopicPartition], report: Callable[[Any], object]
    ) -> None:
        """Commit, and report the refused partitions once, without an event.

        A client that the guard has not built does not tell it the answers, so this
        waits for the answer.
        """
        is_heard = isinstance((self._wish.config or {}).get("on_commit"), Chained)
        try:
            self._committing.commit_quietly(offsets, report, is_heard=is_heard)
        except KafkaException as error:
            raise _translate(error, api=OFFSET_COMMIT) from error

    def is_paused_by_user(self, place: Place) -> bool:
        """Return whether a partition is paused for another reason than a run."""
        return self._machine.is_paused_by_user(place) or place in (
            self.cluster_view.read_errors
        )

    # --- offsets ----------------------------------------------------------------------

    def _positions(self) -> Mapping[Place, int | None]:
        readers = self._shell.readers()
        return {place: each.position for place, each in readers.items()}

    def __getattr__(self, name: str) -> Any:
        """Delegate everything else to the client; look-ups raise our errors."""
        attribute = super().__getattr__(name)
        api = LOOK_UPS.get(name)
        return attribute if api is None else _translated(api=api)(attribute)

    def get_watermark_offsets(
        self, partition: Any, timeout: float = _FOR_EVER, cached: bool = False
    ) -> Any:
        """Return start and end, as ``Consumer.get_watermark_offsets`` does."""
        low = None if cached else self._find({partition: EARLIEST}, timeout)
        high = low and self._find({partition: LATEST}, timeout)
        if low is None or high is None:
            with _translated(api=LIST_OFFSETS):
                return self.client.get_watermark_offsets(partition, timeout, cached)
        place = as_partition(partition)
        return low.offsets[place], high.offsets[place]

    def offsets_for_times(
        self, partitions: Sequence[TopicPartition], timeout: float = _FOR_EVER
    ) -> Any:
        """Return offsets by timestamp, as ``Consumer.offsets_for_times`` does."""
        report = None
        if all(isinstance(each, TopicPartition) for each in partitions):
            report = self._find({each: each.offset for each in partitions}, timeout)
        if report is None:
            with _translated(api=LIST_OFFSETS):
                return self.client.offsets_for_times(partitions, timeout)
        return [_as_client_offset(each, report) for each in partitions]

    def _find(self, times: Mapping[Any, int], timeout: float) -> OffsetsReport | None:
        seconds = TIMEOUT_S if timeout < 0 else timeout
        return run(self._tiered.find(times, seconds))

    # --- the end ----------------------------------------------------------------------

    def close(self) -> None:
        """Close the guard's connections, then the client, as ``Consumer.close`` does.

        The client's ``close`` has its own bound: without a broker it ends within
        ``session.timeout.ms``.
        """
        if self.is_forked:
            return
        self._finish_run()
        self.close_view()  # from now on, each poll raises an error
        _slow_down(weakref.ref(self))
        with self._in_client:
            self._driver.close()
            try:
                super().close()
            finally:
                refuse_calls(self, self.cluster_view.closed, _ONLY_OPEN)


def _slow_down(consumer: weakref.ref[GuardedConsumer]) -> None:
    """Let the next poll do its checks; runs in the guard's I/O thread."""
    guarded = consumer()
    if guarded is not None:
        with suppress(AttributeError):  # done already, or this is a forked child
            del guarded.poll, guarded.consume


def _end_of(timeout: float | None) -> float:
    """Return when a call ends; as for the client, None or negative means never."""
    if timeout is None or timeout < 0:
        return math.inf
    return time.monotonic() + timeout


def _is_true(value: Any) -> bool:
    return str(value).lower() in ("true", "1")


def _translate(error: BaseException, **place: Any) -> KafkaGuardError:
    if isinstance(error, KafkaGuardError):
        return error
    return errors.translate_read(error, **place)


def _translate_undecoded(error: Any) -> KafkaGuardError:
    """Translate the error of a deserializer, after which the client reads on."""
    message = error.kafka_message
    return errors.undecoded(
        error,
        "key" if isinstance(error, KeyDeserializationError) else "value",
        topic=message.topic(),
        partition=message.partition(),
        offset=message.offset(),
        key=message.key(),
        value=message.value(),
        headers=message.headers(),
    )


@contextmanager
def _translated(**place: Any) -> Iterator[None]:
    """Give the client's errors a verdict."""
    try:
        yield
    except KafkaException as error:
        raise _translate(error, **place) from error


def _as_client_offset(partition: Any, report: OffsetsReport) -> Any:
    place = as_partition(partition)
    offset = report.partitions[place]
    if offset.offset is None:
        return TopicPartition(*place, OFFSET_END)
    return TopicPartition(*place, offset.offset, leader_epoch=offset.leader_epoch)


def wrap(consumer: Consumer, wish: Wish) -> GuardedConsumer:
    """Guard a consumer, as :func:`kafkaguard.guard` says."""
    return guard_consumer(GuardedConsumer, consumer, wish, view_of, errors.make)
