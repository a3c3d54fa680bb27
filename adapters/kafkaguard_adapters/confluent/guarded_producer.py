"""The guarded ``confluent_kafka.Producer``."""

from __future__ import annotations

import math
import time
from functools import partial
from threading import get_ident
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException

from kafkaguard._cluster.topic_settings import TopicSettings
from kafkaguard._verdicts.topic_facts import TopicFactsLookup
from kafkaguard.errors import KafkaGuardError
from kafkaguard_adapters.asking.cluster_calls import ClusterCalls
from kafkaguard_adapters.confluent.callbacks import Callbacks
from kafkaguard_adapters.confluent.errors import errors
from kafkaguard_adapters.confluent.produce_calls import produce_for
from kafkaguard_adapters.confluent.sending import Sending
from kafkaguard_adapters.confluent.shell import ConfluentShell
from kafkaguard_adapters.confluent.stand_in import QueuedStandIn
from kafkaguard_adapters.confluent.transactions import Transactions
from kafkaguard_adapters.producing import told
from kafkaguard_adapters.producing.barrier import Limit
from kafkaguard_adapters.producing.driver import ThreadDriver
from kafkaguard_adapters.producing.forks import ForkGuard
from kafkaguard_adapters.producing.null_keys import NullKeyCheck
from kafkaguard_adapters.producing.policies import shared_by
from kafkaguard_adapters.producing.transaction_block import transaction
from kafkaguard_adapters.stand_in import GuardedClient

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from kafkaguard._delivery.report import DeliveryReport
    from kafkaguard._retries.events import Event
    from kafkaguard._verdicts.topic_facts import TopicFactsCache
    from kafkaguard_adapters.asking.cluster_view import ClusterView
    from kafkaguard_adapters.confluent.producer_settings import ProducerSettings
    from kafkaguard_adapters.producing.letter_topics import LetterTopics
    from kafkaguard_policies import RetryPolicy

#: Seconds that close() and leaving a ``with`` block take at most by default.
CLOSE_S = 30.0
#: Seconds that the client has to end, whatever was left for it.
LEAST_S = 1.0
#: Seconds of one wait, before it is seen what else is due.
_SLICE_S = 0.05
_FOR_EVER = -1.0


class GuardedProducer(ClusterCalls, QueuedStandIn, GuardedClient):
    """A Producer with the guard in front; every other attribute is the client's.

    Its callbacks run where the client's do: in ``poll`` and ``flush``, in the caller's
    thread. ``produce`` and ``poll`` are found on the instance: looking a method up on a
    class that hands unknown names on costs twice as much.

    Args:
        client: The client's producer.
        build: Builds its successor; None: that is not known.
        settings: What it was made with, as far as that is known.
        view: The cluster view for the guard's own calls.
        policy: What becomes of records that fail, and of null keys.
        cache: Cached facts about topics.
        letter_topics: Looks whether dead-letter topics are there.
        on_event: The hook for events, or None.
    """

    def __init__(
        self,
        client: Any,
        build: Callable[[], Any] | None,
        settings: ProducerSettings,
        view: ClusterView,
        policy: RetryPolicy,
        cache: TopicFactsCache,
        letter_topics: LetterTopics,
        on_event: Callable[[Event], object] | None,
    ) -> None:
        self.cluster_view = view
        self._build = build
        self._settings = settings
        self._policy = policy
        self._cache = cache
        self._on_event = on_event
        self._letter_topics = letter_topics
        self._is_closed = False
        self._forks = ForkGuard(self, errors, type(client).__name__)
        self._begin(client)

    def _begin(self, client: Any) -> None:
        """Start with nothing on its way."""
        settings, policy, cache = self._settings, self._policy, self._cache
        ask = self.cluster_view.topic_settings if settings.is_known else _nothing_known
        self._callbacks = callbacks = Callbacks(self._callback_raised)
        settings.divert(callbacks)
        self._shell = shell = ConfluentShell(
            client, self._build, settings, callbacks, ask
        )
        self._driver = driver = ThreadDriver(
            shell,
            policy,
            cache,
            self._on_event,
            self._letter_topics.meet,
            shared=shared_by(policy, shell.traits, self.cluster_view.settings),
            barrier=shell,
        )
        null_keys = None
        if policy.null_key == "reject":
            null_keys = NullKeyCheck(
                TopicFactsLookup(lambda topic: ask(topic).facts, cache),
                errors,
                disguised=policy.disguised_null_key,
                transactional=shell.traits.transactional,
            )
        seconds = Limit(policy.deadline, "the policy's deadline")
        own = Limit(shell.traits.delivery_timeout, shell.traits.timeout_setting)
        if policy.deadline == math.inf:
            seconds = own
        self._sending = Sending(
            shell, driver, null_keys, cache.harmless, seconds, settings.on_delivery
        )
        shell.use(driver.machine, self._sending)
        self._transactions = Transactions(shell, driver, min(seconds, own).seconds)
        self.__dict__["produce"] = produce_for(self._sending)
        self.__dict__["poll"] = self._quick_poll()

    def _callback_raised(self, error: BaseException) -> None:
        self._driver.callback_raised(error)

    @property
    def client(self) -> Any:
        """The client's producer that is in use."""
        return self._shell.client

    def __getattr__(self, name: str) -> Any:
        """Delegate everything else to the client."""
        if name == "_shell":  # not there yet
            raise AttributeError(name)
        return super().__getattr__(name)

    # --- forks ------------------------------------------------------------------------

    def leave_to_parent(self) -> Any:
        """In a forked child: send nothing more, and close nothing of the parent's."""
        for name in ("produce", "poll"):
            self.__dict__[name] = partial(self._in_child, name)
        return self._shell.leave()

    def _in_child(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Do what a child has to do first, then what was called."""
        self._forks.pass_by()
        return self.__dict__[name](*args, **kwargs)

    def can_begin_again(self) -> bool:
        """Return whether a producer can be built in a forked child."""
        return self._build is not None

    def begin_again(self) -> None:
        """Build a producer of a forked child's own."""
        assert self._build is not None
        self._begin(self._build())

    # --- producing --------------------------------------------------------------------

    def produce_batch(
        self,
        topic: str,
        messages: Sequence[dict[str, Any]],
        partition: int = -1,
        on_delivery: Any = None,
        callback: Any = None,
    ) -> int:
        """Produce records, as ``Producer.produce_batch`` does, one after the other.

        Args:
            topic: Their topic.
            messages: A dict for each record: ``value``, ``key``, ``partition``,
                ``timestamp``, ``callback``. One that is not taken gets ``_error``.
            partition: Of those that name none.
            on_delivery: The callback of those that have none.
            callback: The same.

        Returns:
            How many were taken. A full queue is waited for.
        """
        if not isinstance(messages, list):
            raise TypeError(
                f"produce_batch(messages): a list, not {type(messages).__name__}"
            )
        taken = 0
        for message in messages:
            try:
                self.produce(
                    topic,
                    message.get("value"),
                    message.get("key"),
                    partition=message.get("partition", partition),
                    on_delivery=message.get("callback") or on_delivery or callback,
                    timestamp=message.get("timestamp", 0),
                )
            except KafkaException as error:
                message["_error"] = error.args[0]
            else:
                taken += 1
        return taken

    # --- reports ----------------------------------------------------------------------

    def _quick_poll(self) -> Callable[..., int]:
        """Make the ``poll`` of the instance."""
        callbacks, shell, slowly = self._callbacks, self._shell, self._poll_slowly
        polling = callbacks.polling

        def poll(timeout: float = _FOR_EVER) -> int:
            """Poll, as ``Producer.poll`` does; callbacks run in here.

            Raises:
                KafkaGuardError: The producer is dead or closed.
            """
            me = get_ident()
            if not callbacks.is_direct or me in polling:
                return slowly(timeout)
            polling.add(me)
            try:
                events: int = shell.client.poll(timeout)
            except (KafkaException, RuntimeError) as error:
                return self._poll_failed(error)
            finally:
                polling.discard(me)
            return events + callbacks.serve() if len(callbacks) else events

        return poll

    def _poll_slowly(self, timeout: float) -> int:
        """Poll while the guard does, too: what it has heard is told here.

        In a callback it does nothing: the poll that has called it goes on afterwards.
        """
        me, polling = get_ident(), self._callbacks.polling
        if me in polling:
            return 0
        until = float("inf") if timeout < 0 else time.monotonic() + timeout
        while True:
            events = self._callbacks.serve()
            left = 0.0 if events else max(0.0, min(until - time.monotonic(), _SLICE_S))
            polling.add(me)
            try:
                events += self.client.poll(left)
            except (KafkaException, RuntimeError) as error:
                events += self._poll_failed(error)
            finally:
                polling.discard(me)
            events += self._callbacks.serve()
            if events or time.monotonic() >= until:
                return events

    def _poll_failed(self, error: Exception) -> int:
        """Deal with what the client's ``poll`` or ``flush`` has raised.

        Raises:
            KafkaGuardError: The client is of no use any more.
        """
        if isinstance(error, RuntimeError):
            raise errors.translate(error) from error
        assert isinstance(error, KafkaException)
        if self._shell.note(self.client, error) and self._build is not None:
            return 1  # it is being replaced
        if isinstance(error, KafkaGuardError):
            raise error
        raise errors.translate(error) from error

    def flush(self, timeout: float = _FOR_EVER) -> int:
        """Wait until each record has its outcome, as ``Producer.flush`` does.

        Args:
            timeout: Seconds to wait at most; negative: until all is done. Each record
                ends within ``delivery.timeout.ms``, one that is sent again within
                twice that.

        Returns:
            How many are left. Within a callback it waits for nothing.

        Raises:
            DeliveryFailed: Records failed and nobody has looked at them: they have no
                callback.
            CallbackError: A callback of the application has raised.
        """
        self._forks.pass_by()
        left = self._flush(timeout)
        self._raise()
        return left

    def _flush(self, timeout: float) -> int:
        until = float("inf") if timeout < 0 else time.monotonic() + timeout
        me, polling = get_ident(), self._callbacks.polling
        if me in polling:
            return len(self)
        while True:
            seconds = max(0.0, min(until - time.monotonic(), _SLICE_S))
            polling.add(me)
            try:
                left = self.client.flush(seconds)
            except (KafkaException, RuntimeError) as error:
                left = self._poll_failed(error)
            finally:
                polling.discard(me)
            self._callbacks.serve()
            waiting = len(self)
            if not waiting or time.monotonic() >= until:
                break
            if not left:
                self._callbacks.wait(seconds)
        outside = self._driver.outside  # hooks hear of it before flush() returns
        outside.start()
        outside.wait(time.monotonic() + LEAST_S)
        return waiting

    def __len__(self) -> int:
        """Count what waits: in the client's queue, to be sent again, to be told."""
        return (
            self._shell.waiting()
            + self._driver.machine.failed_and_open()
            + len(self._callbacks)
        )

    def report(self) -> DeliveryReport:
        """Report what became of records since the last time, without waiting.

        Returns:
            The counts, and the failures that the application has not checked. It raises
            nothing; these failures count as looked at.
        """
        self._driver.count_delivered(self._shell.delivered())
        return self._driver.report()

    def _raise(self) -> None:
        """Raise for failures that nobody has looked at, or for a callback."""
        if self._driver.has_unseen():
            raise told.delivery_failed(errors, self.report())
        raised = self._driver.take_callback_error()
        if raised is not None:
            raise told.callback_failed(errors, raised, self.report()) from raised

    def purge(
        self, in_queue: bool = True, in_flight: bool = True, blocking: bool = True
    ) -> None:
        """Drop records, as ``Producer.purge`` does; also those that wait for the guard.

        Call ``poll()`` or ``flush()`` afterwards: it tells their callbacks.
        """
        self.client.purge(in_queue, in_flight, blocking)
        if in_queue:
            self._driver.drop_waiting("purge() was called")

    # --- transactions -----------------------------------------------------------------

    def transaction(self) -> AbstractContextManager[None]:
        """Begin a transaction, and commit it after the ``with`` block, or abort it.

        A call is made again as the policy says, a commit whose answer was lost too: the
        coordinator carries it out once. The block never runs twice, and nothing is
        aborted whose commit has an unknown result.

        Raises:
            KafkaGuardError: It was not committed. ABORT: it was aborted, so the same
                records can be sent in a new one. IN_DOUBT: it may have been committed.
                RECREATE: it could not be aborted. FENCED: another instance uses this
                ``transactional.id``.
            BaseException: What the block raises, after one abort.
        """
        return transaction(self._transactions, self._policy)

    def init_transactions(self, timeout: float | None = None) -> None:
        """Take the ``transactional.id`` over, as the client does.

        Args:
            timeout: Seconds; default: the policy's ``deadline``, or
                ``delivery.timeout.ms`` if that is less.

        Raises:
            KafkaGuardError: It could not be done.
        """
        self._transactions.init(timeout)

    def begin_transaction(self) -> None:
        """Begin a transaction, with a new client where the last one is stuck.

        Raises:
            KafkaGuardError: It cannot begin.
        """
        self._transactions.begin()

    def send_offsets_to_transaction(
        self, positions: Any, group_metadata: Any, timeout: float | None = None
    ) -> None:
        """Add a consumer's offsets to the transaction, as the client does.

        Raises:
            KafkaGuardError: They could not be added.
        """
        self._transactions.add_offsets(positions, group_metadata, timeout)

    def commit_transaction(self, timeout: float | None = None) -> None:
        """Commit, once each record has its outcome.

        Raises:
            KafkaGuardError: ABORT: a record of it failed. FENCED: another instance
                uses this ``transactional.id``. RETRY: it may have been committed, and
                the same call finds out.
        """
        self._transactions.commit(timeout)

    def abort_transaction(self, timeout: float | None = None) -> None:
        """Abort; records that wait are dropped.

        Raises:
            KafkaGuardError: RECREATE: it could not be aborted, and asking again does
                not help. FENCED: another instance uses this ``transactional.id``.
        """
        self._transactions.abort(timeout)

    # --- the end ----------------------------------------------------------------------

    def close(self, timeout: float | None = None) -> bool:
        """Flush, then close the client, within a bound.

        Args:
            timeout: Seconds to wait at most, 0 or more. Default: 30. What is pending
                then is given up: it is in doubt where it was on its way, else it
                failed.

        Returns:
            True, as the client does.

        Raises:
            DeliveryFailed: Records failed and nobody has looked at them.
            CallbackError: A callback of the application has raised.
            ClientStateError: A transaction was open; the text says whether it was
                aborted.
            TypeError: ``timeout`` is not a number.
            ValueError: It is negative.
        """
        told.check_timeout("close", timeout)
        if self._is_closed or self._forks.is_forked:
            return True
        self._is_closed = True
        deadline = time.monotonic() + (CLOSE_S if timeout is None else timeout)
        if not self._is_client_closed():
            self._flush(max(0.0, deadline - time.monotonic()))
        left = max(LEAST_S, deadline - time.monotonic())
        given_up = self._transactions.give_up(left)
        self._driver.stop()
        self._driver.give_up(max(deadline, time.monotonic() + LEAST_S))
        self._shell.close(max(LEAST_S, deadline - time.monotonic()))
        self.close_view()
        self._callbacks.serve()
        if given_up is not None:
            why = given_up.still_open
            raise told.transaction_given_up(
                errors, self.report(), still_open=why
            ) from why
        self._raise()
        return True

    def _is_client_closed(self) -> bool:
        try:
            self.client.poll(0)
        except RuntimeError:
            return True
        except KafkaException as error:
            self._shell.note(self.client, error)
        return False

    def __exit__(self, *raised: object) -> None:
        """Close, as close() does; an exception of the block goes first."""
        try:
            self.close()
        except KafkaGuardError as failure:
            error: Any = raised[1] if raised else None
            if error is None:
                raise
            error.add_note(f"besides, on closing the producer: {failure}")


def _nothing_known(_: str) -> TopicSettings:
    """Stand for a question to a cluster whose address is not known."""
    return TopicSettings()
