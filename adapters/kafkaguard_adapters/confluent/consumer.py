"""The guarded consumer: stands in for a ``confluent_kafka.Consumer``."""

from __future__ import annotations

import logging
import random
import time
from typing import TYPE_CHECKING, Any

from confluent_kafka import OFFSET_END, KafkaException, TopicPartition

from kafkaguard._cluster.offsets import EARLIEST, LATEST
from kafkaguard._cluster.reports import as_partition, raise_gravest
from kafkaguard._consuming.commits import (
    OFFSET_COMMIT,
    CommitRun,
    OneForAll,
    failed_event,
)
from kafkaguard._consuming.machine import FETCH, ConsumerMachine
from kafkaguard._verdicts.topic_facts import TopicFactsCache
from kafkaguard.errors import ClientStateError, KafkaGuardError
from kafkaguard_adapters.asking.cluster_calls import TIMEOUT_S
from kafkaguard_adapters.asking.tiered_offsets import TieredOffsets
from kafkaguard_adapters.confluent.callbacks import Chained
from kafkaguard_adapters.confluent.errors import errors
from kafkaguard_adapters.confluent.reading import Reading
from kafkaguard_adapters.confluent.view import view_of
from kafkaguard_adapters.consuming import commit_loop, forks
from kafkaguard_adapters.consuming.driver import Driver
from kafkaguard_adapters.consuming.obeyed import OBEYED
from kafkaguard_adapters.consuming.own_lag import own_lag
from kafkaguard_adapters.consuming.questions import Start
from kafkaguard_adapters.stand_in import GuardedClient
from kafkaguard_adapters.wire.io_thread import run, start

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from kafkaguard._cluster.lag import LagReport
    from kafkaguard._cluster.offsets import OffsetsReport
    from kafkaguard._cluster.reports import TopicPartition as Place
    from kafkaguard._retries.events import Event
    from kafkaguard._verdicts.verdict import TopicFacts
    from kafkaguard_adapters.asking.cluster_view import ClusterView
    from kafkaguard_policies import RetryPolicy

_log = logging.getLogger("kafkaguard.consumer")

#: What it does by the policy.
OBEYS = OBEYED - {"on_offset_reset"}
#: librdkafka's own defaults.
_ISOLATION = "read_committed"
_FOR_EVER = -1
#: Its words for the start of the log.
_EARLIEST = frozenset({"earliest", "beginning", "smallest"})
#: Seconds that a poll blocks in the client at most, before it is seen what is due.
_SLICE_S = 0.2
#: Seconds from one look at the readers to the next, and records in between at most.
_LOOK_S = 0.5
_LOOK_RECORDS = 100


#: Callbacks that librdkafka takes only when the consumer is built.
_CALLBACKS = ("error_cb", "on_commit")


class GuardedConsumer(GuardedClient):
    """A Consumer whose partitions wait alone and whose commits have verdicts.

    Our own calls, and noticing partitions that cannot be read, need ``config=``. Its
    own look-ups of offsets wait for remote storage, up to ``timeout``, or 30 s where
    none is given.

    Args:
        consumer: The client's consumer.
        view: What our own calls ask.
        config: What the consumer was made with; None: not known.
        policy: How long to wait.
        on_event: What receives events.
    """

    def __init__(
        self,
        consumer: Any,
        view: ClusterView,
        config: Mapping[str, Any] | None,
        policy: RetryPolicy,
        on_event: Callable[[Event], object] | None,
    ) -> None:
        super().__init__(consumer, view)
        known = config or {}
        self.is_forked = False
        self._group = known.get("group.id")
        self._commits_itself = _is_true(known.get("enable.auto.commit", True))
        self._is_committing = False
        self._isolation = known.get("isolation.level", _ISOLATION)
        self._tiered = TieredOffsets(view, self._isolation)
        self._policy = policy
        self._machine = ConsumerMachine(
            policy,
            errors.make,
            random.random,
            client=errors.client,
            holds_by_pausing=True,
        )
        self._shell = Reading(consumer)
        reset = known.get("auto.offset.reset", "latest")
        begins = Start(self._group, is_earliest=reset in _EARLIEST)
        self._driver = Driver(self._machine, self._shell, view, start, on_event, begins)
        self._hear(known)
        self._looked_at = 0.0
        self._is_reassigned = False
        if config is None:
            self._driver.blind()
            _log.warning(
                "guard(): without config={...} partitions that cannot be read are not "
                "noticed, since a consumer of confluent-kafka does not show them and "
                "kafkaguard cannot ask the cluster itself"
            )
        forks.watch(self)
        # In place of the method while all is well: half the cost for each record.
        self.__dict__["poll"] = self._quick_poll()

    def in_child(self) -> None:
        """Refuse every call, since the client's threads are not in this process."""
        self.is_forked = True
        self.__dict__.pop("poll", None)

    # --- polling ----------------------------------------------------------------------

    def poll(self, timeout: float | None = _FOR_EVER) -> Any:
        """Poll, as ``Consumer.poll`` does.

        Raises:
            KafkaGuardError: What the client raises, also of its own class; and an error
                that it would hand over after which it is of no use.
        """
        return self._poll_slowly(timeout, None)

    def _quick_poll(self) -> Callable[..., Any]:
        """Make the ``poll`` of the instance: it looks around after 100 records only."""
        client_poll = self.client.poll
        slowly = self._poll_slowly
        left = 0

        def poll(timeout: float | None = _FOR_EVER) -> Any:
            """Poll, as the method of this name does."""
            nonlocal left
            if left > 0:
                left -= 1
                try:
                    message = client_poll(0)
                except (KafkaException, RuntimeError) as error:
                    raise _ours(error) from error
                if message is not None and message.error() is None:
                    return message
                if message is not None:
                    return slowly(timeout, message)
            left = _LOOK_RECORDS
            return slowly(timeout, None)

        return poll

    def _poll_slowly(self, timeout: float | None, message: Any) -> Any:
        """Poll in slices, and do between them what is due."""
        if self.is_forked:
            raise errors.make(ClientStateError, forks.FORKED)
        is_endless = timeout is None or timeout < 0
        until = None if is_endless else time.monotonic() + (timeout or 0.0)
        while True:
            if message is None:
                self._look()
                left = _SLICE_S if until is None else until - time.monotonic()
                message = self._client_poll(max(0.0, min(left, self._slice())))
            if message is not None:
                return self._seen(message)
            if until is not None and time.monotonic() >= until:
                return None

    def _client_poll(self, seconds: float) -> Any:
        try:
            return self.client.poll(seconds)
        except (KafkaException, RuntimeError) as error:
            raise _ours(error) from error

    def _slice(self) -> float:
        return min(_SLICE_S, max(0.001, self._driver.seconds_left()))

    def consume(
        self, num_messages: int = 1, timeout: float | None = _FOR_EVER
    ) -> list[Any]:
        """Consume, as ``Consumer.consume`` does.

        Raises:
            KafkaGuardError: As for ``poll``.
        """
        if self.is_forked:
            raise errors.make(ClientStateError, forks.FORKED)
        is_endless = timeout is None or timeout < 0
        until = None if is_endless else time.monotonic() + (timeout or 0.0)
        found: list[Any] = []
        while len(found) < num_messages:
            self._look()
            left = _SLICE_S if until is None else until - time.monotonic()
            seconds = max(0.0, min(left, self._slice()))
            try:
                found += self.client.consume(num_messages - len(found), seconds)
            except (KafkaException, RuntimeError) as error:
                raise _ours(error) from error
            if until is not None and time.monotonic() >= until:
                break
        for each in found:
            self._note_error(each)
        if all(each.error() is not None for each in found):
            self._raise_failure()  # else the next call does, so that no record is lost
        return found

    def _seen(self, message: Any) -> Any:
        """Look at a message that may be an error."""
        self._note_error(message)
        self._raise_failure()
        return message

    def _note_error(self, message: Any) -> None:
        """Tell of an error that is handed over in place of a record."""
        error = message.error()
        if error is None:
            return
        topic, partition = message.topic(), message.partition()
        place, where = None, {}
        if topic is not None and partition is not None and partition >= 0:
            place = as_partition((topic, partition))
            where = {"partition": partition}
        if topic is not None:
            where |= {"api": FETCH, "topic": topic}
        self._driver.handed_over(place, errors.translate(error, **where))
        self._driver.tell()

    def _look(self) -> None:
        """See what is due, and now and then where the readers are."""
        if self.cluster_view.is_closed:
            return
        driver = self._driver
        if self._is_reassigned:
            self._is_reassigned = False
            driver.reassigned()
        driver.tick()
        now = time.monotonic()
        if now - self._looked_at >= _LOOK_S:
            self._looked_at = now
            driver.look()
        self._raise_failure()

    def _raise_failure(self) -> None:
        if self._shell.failures:
            raise self._shell.failures.popleft()

    # --- callbacks --------------------------------------------------------------------

    def _hear(self, config: Mapping[str, Any]) -> None:
        """Listen where the consumer was built with our own callbacks."""
        hears: dict[str, Callable[..., Any]] = {
            "error_cb": self._hear_error,
            "on_commit": self._hear_commit,
        }
        for name in _CALLBACKS:
            callback = config.get(name)
            if isinstance(callback, Chained):
                callback.hear = hears[name]

    def _hear_error(self, error: Any) -> None:
        """Take in an error that is about no record; it comes while the user polls."""
        known = errors.translate(error, context={"phase": "background"})
        self._driver.handed_over(None, known)

    def _hear_commit(self, error: Any, partitions: Sequence[Any]) -> None:
        """Take in how a commit ended that nobody waits for."""
        refused = {
            as_partition(each): errors.translate(
                each.error or error,
                api=OFFSET_COMMIT,
                topic=each.topic,
                partition=each.partition,
            )
            for each in partitions or ()
            if each.error is not None or error is not None
        }
        if refused and not self._is_committing:
            kind: Any = "auto" if self._commits_itself else "async"
            self._driver.note(
                failed_event(self._policy, refused, kind=kind, client=errors.client)
            )

    # --- assignment -------------------------------------------------------------------

    def subscribe(self, topics: Sequence[str], *args: Any, **listeners: Any) -> Any:
        """Subscribe, as ``Consumer.subscribe`` does; listeners get this consumer."""
        names = ("on_assign", "on_revoke", "on_lost")
        listeners |= dict(zip(names, args, strict=False))
        chained = {
            name: self._chained(listener)
            for name, listener in listeners.items()
            if listener is not None
        }
        chained.setdefault("on_assign", self._chained(lambda *_: None))
        return self.client.subscribe(topics, **chained)

    def _chained(self, listener: Callable[[Any, Any], Any]) -> Callable[..., Any]:
        def called(_: Any, partitions: Any) -> Any:
            self._is_reassigned = True
            return listener(self, partitions)

        return called

    def assign(self, partitions: Sequence[Any]) -> None:
        """Assign, as ``Consumer.assign`` does."""
        self.client.assign(partitions)
        self._is_reassigned = True

    def incremental_assign(self, partitions: Sequence[Any]) -> None:
        """Assign more, as ``Consumer.incremental_assign`` does."""
        self.client.incremental_assign(partitions)
        self._is_reassigned = True

    def incremental_unassign(self, partitions: Sequence[Any]) -> None:
        """Assign less, as ``Consumer.incremental_unassign`` does."""
        self.client.incremental_unassign(partitions)
        self._is_reassigned = True

    def pause(self, partitions: Sequence[Any]) -> None:
        """Pause, as ``Consumer.pause`` does."""
        self.client.pause(partitions)
        self._machine.user_pauses(map(as_partition, partitions))

    def resume(self, partitions: Sequence[Any]) -> None:
        """Resume, as ``Consumer.resume`` does; what waits goes on when it can."""
        free = self._machine.user_resumes(map(as_partition, partitions))
        self.client.resume([each for each in partitions if as_partition(each) in free])

    # --- commits ----------------------------------------------------------------------

    def commit(
        self,
        message: Any = None,
        offsets: Sequence[Any] | None = None,
        asynchronous: bool = True,
    ) -> Any:
        """Commit, as ``Consumer.commit`` does.

        With ``asynchronous=False`` partitions that are refused for now are tried again
        alone, within the policy's deadline, while they are still assigned. A group
        that has moved on is not asked again. As without the guard, what was refused
        may stand in the list (``each.error``); it is an event as well.

        Raises:
            KafkaGuardError: What the client raises in place of a list: the gravest of
                what was refused, the others as notes.
        """
        given = {"message": message, "offsets": offsets}
        args = {name: value for name, value in given.items() if value is not None}
        if asynchronous:
            try:
                return self.client.commit(**args, asynchronous=True)
            except KafkaException as error:
                raise _ours(error, api=OFFSET_COMMIT) from error
        return self._commit_and_wait(args)

    def _commit_and_wait(self, args: dict[str, Any]) -> list[Any]:
        known = {as_partition(each): each for each in _offsets(args)}
        until = time.monotonic() + self._policy.deadline
        places = known or self._shell.assignment()
        attempt = CommitRun(
            self._policy, random.random, places, until, client=errors.client
        )

        def once(places: Collection[Any]) -> Mapping[Place, KafkaGuardError]:
            offsets = [known[each] for each in places if each in known]
            given = {"offsets": offsets} if offsets else args
            try:
                found = self.client.commit(**given, asynchronous=False)
            except KafkaException as error:
                refused = {each: _refused(error, each) for each in places}
                return OneForAll(refused) if offsets else refused
            known.update({as_partition(each): each for each in found})
            return {
                as_partition(each): _refused(each.error, each)
                for each in found
                if each.error is not None
            }

        self._is_committing = True
        try:
            commit_loop.commit(attempt, once, self._owned)
        finally:
            self._is_committing = False
        if attempt.errors:
            self._driver.note(attempt.event())
            self._driver.tell()
        listed = {place for place, each in known.items() if each.error is not None}
        if not attempt.errors.keys() <= listed:
            raise_gravest(attempt.errors.values())
        return list(known.values())

    def _owned(self) -> Collection[Any] | None:
        """Return what is assigned; None where nothing is, as for a mere committer."""
        return self._shell.assignment() or None

    # --- offsets ----------------------------------------------------------------------

    def lag(self, groups: Any = None, *args: Any, **kwargs: Any) -> LagReport:
        """Say how far groups are behind; without a group, this consumer.

        Its own report has the partitions that it is assigned, each with the committed
        offset, the position, and the lags of both. A partition that cannot be read has
        its ``read_error``.

        Args:
            groups: Their names. Default: this consumer alone.
            args: As for the other guarded clients.
            kwargs: The same, by name.
        """
        if groups is not None or args or "topics" in kwargs:
            return super().lag(groups, *args, **kwargs)
        kwargs.setdefault("isolation", self._isolation)
        if "timeout" in kwargs:
            kwargs["seconds"] = kwargs.pop("timeout")
        positions = {}
        if not self.cluster_view.is_closed:
            readers = self._shell.readers()
            positions = {place: each.position for place, each in readers.items()}
        return run(own_lag(self.cluster_view, self._group, positions, **kwargs))

    def get_watermark_offsets(
        self, partition: Any, timeout: float = _FOR_EVER, cached: bool = False
    ) -> Any:
        """Find start and end, as ``Consumer.get_watermark_offsets`` does."""
        if cached:
            return self.client.get_watermark_offsets(partition, timeout, cached)
        low = self._find({partition: EARLIEST}, timeout)
        high = low and self._find({partition: LATEST}, timeout)
        if low is None or high is None:
            return self.client.get_watermark_offsets(partition, timeout, cached)
        place = as_partition(partition)
        return low.offsets[place], high.offsets[place]

    def offsets_for_times(
        self, partitions: Sequence[Any], timeout: float = _FOR_EVER
    ) -> Any:
        """Look times up, as ``Consumer.offsets_for_times`` does."""
        report = self._find({each: each.offset for each in partitions}, timeout)
        if report is None:
            return self.client.offsets_for_times(partitions, timeout)
        return [_at(each, report) for each in partitions]

    def _find(self, wanted: Mapping[Any, int], timeout: float) -> OffsetsReport | None:
        seconds = TIMEOUT_S if timeout < 0 else timeout
        return run(self._tiered.find(wanted, seconds))

    # --- the end ----------------------------------------------------------------------

    def close(self) -> None:
        """Close our own connections, then the client, as ``Consumer.close`` does.

        The client ends by itself: without a broker within ``session.timeout.ms``.
        """
        if self.is_forked:
            return
        self._driver.close()
        super().close()


def _offsets(args: Mapping[str, Any]) -> list[Any]:
    """List what a commit names; without arguments only the client knows."""
    if "message" not in args:
        return list(args.get("offsets", ()))
    message = args["message"]
    at = message.offset() + 1
    return [TopicPartition(message.topic(), message.partition(), at)]


def _refused(error: Any, place: Any) -> KafkaGuardError:
    return errors.translate(
        error, api=OFFSET_COMMIT, topic=place.topic, partition=place.partition
    )


def _is_true(value: Any) -> bool:
    return str(value).lower() in ("true", "1")


def _ours(error: BaseException, **place: Any) -> KafkaGuardError:
    if isinstance(error, KafkaGuardError):
        return error
    return errors.translate(error, **place)


def _at(wanted: Any, report: OffsetsReport) -> Any:
    place = as_partition(wanted)
    found = report.partitions[place]
    if found.offset is None:
        return TopicPartition(*place, OFFSET_END)
    return TopicPartition(*place, found.offset, leader_epoch=found.leader_epoch)


def prepare(config: Mapping[str, Any]) -> dict[str, Any]:
    """Chain the callbacks that librdkafka takes only when the consumer is built."""
    chained = {name: Chained(config.get(name)) for name in _CALLBACKS}
    return {**config, **chained}


def wrap(
    consumer: Any,
    *,
    config: Mapping[str, Any] | None = None,
    policy: RetryPolicy,
    topics: Mapping[str, TopicFacts] | None = None,
    on_event: Callable[[Event], object] | None = None,
    **_: Any,
) -> GuardedConsumer:
    """Guard a consumer, as :func:`kafkaguard.guard` says."""
    view = view_of(consumer, config, TopicFactsCache(topics))
    return GuardedConsumer(consumer, view, config, policy, on_event)
