"""The guarded ``confluent_kafka.Producer``."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import contextmanager
from functools import partial
from numbers import Real
from threading import get_ident
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException

from kafkaguard._common.arguments import wrong_type
from kafkaguard._common.observing import traced
from kafkaguard._delivery.time_limit import TimeLimit
from kafkaguard._errors import KafkaGuardError
from kafkaguard_adapters.asking.cluster_calls import ClusterCalls
from kafkaguard_adapters.asking.topic_facts import NOTHING_KNOWN, TopicFactsLookup
from kafkaguard_adapters.building import Builder
from kafkaguard_adapters.confluent.callbacks import Callbacks
from kafkaguard_adapters.confluent.errors import errors
from kafkaguard_adapters.confluent.produce_calls import produce_for
from kafkaguard_adapters.confluent.sending import Sending
from kafkaguard_adapters.confluent.shell import ConfluentShell
from kafkaguard_adapters.confluent.stand_in import QueuedStandIn
from kafkaguard_adapters.confluent.transactions import Transactions
from kafkaguard_adapters.confluent.view import view_of
from kafkaguard_adapters.policy_in_effect import GovernedProducer
from kafkaguard_adapters.producing import send_errors
from kafkaguard_adapters.producing.driver import ThreadDriver
from kafkaguard_adapters.producing.forks import ForkGuard
from kafkaguard_adapters.producing.null_keys import NullKeyCheck
from kafkaguard_adapters.stand_in import GuardedClient

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    from kafkaguard._delivery.report import DeliveryReport
    from kafkaguard._verdicts.context import TopicFacts
    from kafkaguard_adapters.building import Wish
    from kafkaguard_adapters.confluent.producer_settings import ProducerSettings

#: Seconds that close() and leaving a ``with`` block take at most by default.
CLOSE_S = 30.0
#: Least seconds that the client has to end, even if less of the timeout is left.
LEAST_S = 1.0
#: Seconds of one wait, after which the guard checks again what is due.
_SLICE_S = 0.05
_FOR_EVER = -1.0
#: The calls that wait for threads of the client, which a forked child does not have:
#: attributes of the instance, and methods of the class.
_OF_INSTANCE = ("produce", "poll")
_OF_CLASS = (
    "flush",
    "purge",
    "list_topics",
    "set_sasl_credentials",
    "transaction",
    "init_transactions",
    "begin_transaction",
    "send_offsets_to_transaction",
    "commit_transaction",
    "abort_transaction",
)
#: What the values of a message of ``produce_batch`` may be.
_OF_MESSAGE: dict[str, Any] = {
    "value": (bytes, str, type(None)),
    "key": (bytes, str, type(None)),
    "partition": int,
    "timestamp": int,
    "callback": (Callable, type(None)),
}


class GuardedProducer(ClusterCalls, GovernedProducer, QueuedStandIn, GuardedClient):
    """A Producer with the guard in front; every other attribute is the client's.

    Callbacks run where the client runs them: in ``poll`` and ``flush``, in the caller's
    thread. ``produce`` and ``poll`` are attributes of the instance: on a class with
    ``__getattr__``, looking up a method takes twice as long.

    Args:
        client: The client's producer.
        settings: The producer's settings, as far as they are known.
        wish: What ``guard()`` was told.
    """

    _library = "confluent-kafka"

    def __init__(self, client: Any, settings: ProducerSettings, wish: Wish) -> None:
        self.cluster_view = view_of(client, wish.config, wish.cache)
        self._builder = Builder(wish, client, None, errors.make)
        self._settings = self.producer_settings = settings
        self._wish = wish
        self._is_closed = False
        self._forks = ForkGuard(self, errors, type(client).__name__)
        self._begin(client)

    def _begin(self, client: Any) -> None:
        """Set up everything for a client, with no record pending."""
        settings, view = self._settings, self.cluster_view
        policy, cache = self._wish.policy, self._wish.cache
        self._callbacks = callbacks = Callbacks(self._callback_raised)
        settings.divert(callbacks)
        self._shell = shell = ConfluentShell(
            client, self._builder, settings, callbacks, view
        )
        self._driver = driver = ThreadDriver(shell, self._wish, shell, view)
        facts = view.topic_facts if settings.is_known else _nothing_known
        null_keys = NullKeyCheck(
            TopicFactsLookup(facts, cache),
            errors,
            policy,
            transactional=shell.traits.transactional,
        )
        seconds = TimeLimit(policy.deadline, "the policy's deadline")
        own = TimeLimit(shell.traits.delivery_timeout, shell.traits.timeout_setting)
        if policy.deadline == math.inf:
            seconds = own
        self._transactions = Transactions(
            shell, driver, settings, min(seconds, own), policy
        )
        self._sending = Sending(
            shell,
            driver,
            self._transactions,
            null_keys,
            cache.null_keys_allowed,
            seconds,
            settings.on_delivery,
        )
        shell.use(driver.machine, self._sending)
        produce = produce_for(self._sending)
        self.__dict__["produce"] = traced(self._wish.on_event, produce)
        self.__dict__["poll"] = self._quick_poll()

    def _callback_raised(self, error: BaseException) -> None:
        self._driver.callback_raised(error)

    @property
    def client(self) -> Any:
        """The client's producer that is in use."""
        return self._shell.client

    # --- forks ------------------------------------------------------------------------

    def leave_to_parent(self) -> Any:
        """In a forked child: stop sending, and leave the parent's connections open."""
        for name in (*_OF_INSTANCE, *_OF_CLASS):
            self.__dict__[name] = partial(self._in_child, name)
        return self._shell.leave_to_parent()

    def _in_child(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Do what a forked child must do first, then the call."""
        self._forks.ensure_client()
        return getattr(self, name)(*args, **kwargs)

    def can_begin_again(self) -> bool:
        """Return whether a producer can be built in a forked child."""
        return self._builder.was_given

    def begin_again(self) -> None:
        """Build a producer that belongs to the forked child."""
        self._begin(self._builder.build())
        for name in _OF_CLASS:
            self.__dict__.pop(name, None)

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

        If the queue is full, the call waits for room.

        Args:
            topic: The records' topic.
            messages: A dict for each record: ``value``, ``key``, ``partition``,
                ``timestamp``, ``callback``. If the client does not accept a record, its
                dict gets ``_error``.
            partition: The partition of records that name none.
            on_delivery: The callback of records that have none.
            callback: The same as ``on_delivery``.

        Returns:
            How many records the client has accepted.

        Raises:
            ClientClosedError: The producer was closed.
            TypeError: ``messages`` is not a list of dicts, or a value of one has a
                wrong type. Nothing was sent.
        """
        _check_messages(messages)
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
                if isinstance(error, RuntimeError) and not taken:
                    raise  # the producer is closed, so nothing was sent
                message["_error"] = error.args[0]
            else:
                taken += 1
        return taken

    # --- reports ----------------------------------------------------------------------

    def _quick_poll(self) -> Callable[..., int]:
        """Return the fast ``poll``, which becomes an attribute of the instance."""
        callbacks, shell, slowly = self._callbacks, self._shell, self._poll_slowly
        polling, now = callbacks.polling, time.monotonic
        lines, hidden = shell.lines, shell.hidden

        def poll(timeout: float = _FOR_EVER) -> int:
            """Poll, as ``Producer.poll`` does; it calls the callbacks.

            Raises:
                KafkaGuardError: The producer is dead or closed.
            """
            me = get_ident()
            if not callbacks.is_direct or me in polling:
                return slowly(timeout)
            until = timeout and now() + (timeout if timeout > 0 else math.inf)
            polling.add(me)  # as inside_client() does, at less cost
            try:
                events: int = shell.client.poll(timeout)
                if lines or hidden:
                    events = shell.poll_on(shell.client, events, until)
            except (KafkaException, RuntimeError) as error:
                return self._poll_failed(error)
            finally:
                polling.discard(me)
            if shell.unread:
                shell.hear_errors()
            return events + callbacks.serve() if len(callbacks) else events

        poll.__qualname__ = poll.__name__  # which a TypeError shows
        return poll

    def _poll_slowly(self, timeout: float) -> int:
        """Poll while the guard polls too: call the queued callbacks here.

        Inside a callback it does nothing: the poll that called the callback continues
        afterwards.
        """
        if self._callbacks.is_inside():
            return 0
        until = float("inf") if timeout < 0 else time.monotonic() + timeout
        while True:
            events = self._callbacks.serve()
            left = 0.0 if events else max(0.0, min(until - time.monotonic(), _SLICE_S))
            with self._callbacks.inside_client():
                try:
                    polled = self.client.poll(left)
                    if self._shell.lines or self._shell.hidden:
                        polled = self._shell.poll_on(self.client, polled, 0.0)
                    events += polled
                except (KafkaException, RuntimeError) as error:
                    events += self._poll_failed(error)
            self._shell.hear_errors()
            events += self._callbacks.serve()
            if events or time.monotonic() >= until:
                return events

    def _poll_failed(self, error: Exception) -> int:
        """Handle what the client's ``poll`` or ``flush`` has raised.

        Raises:
            KafkaGuardError: The client cannot be used any more.
        """
        if isinstance(error, RuntimeError):
            raise errors.translate(error) from error
        assert isinstance(error, KafkaException)
        if self._shell.report_if_dead(self.client, error) and self._builder.can_build:
            return 1  # the client is being replaced
        if isinstance(error, KafkaGuardError):
            raise error
        raise errors.translate(error) from error

    def flush(self, timeout: float = _FOR_EVER) -> int:
        """Wait until each record has its outcome, as ``Producer.flush`` does.

        Args:
            timeout: Seconds to wait at most; negative: until no record is pending. A
                record has its outcome within ``delivery.timeout.ms``.

        Returns:
            How many records are pending. Inside a callback the call does not wait.

        Raises:
            DeliveryFailed: Records failed, and nobody has seen the failures because
                the records have no callback.
            CallbackError: A callback of the application raised an exception.
            TypeError: ``timeout`` is not a number.
        """
        if not isinstance(timeout, Real) or isinstance(timeout, bool):
            raise wrong_type("flush(): timeout", "seconds (int or float)", timeout)
        left = self._flush(timeout)
        self._raise()
        return left

    def _flush(self, timeout: float) -> int:
        until = float("inf") if timeout < 0 else time.monotonic() + timeout
        if self._callbacks.is_inside():
            return len(self)
        while True:
            seconds = max(0.0, min(until - time.monotonic(), _SLICE_S))
            with self._callbacks.inside_client():
                try:
                    left = self._shell.flush(self.client, seconds)
                except (KafkaException, RuntimeError) as error:
                    left = self._poll_failed(error)
            self._callbacks.serve()
            waiting = len(self)
            if not waiting or time.monotonic() >= until:
                break
            if not left:
                self._callbacks.wait(seconds)
        app_calls = self._driver.app_calls  # event hooks run before flush() returns
        app_calls.start()
        app_calls.wait(time.monotonic() + LEAST_S)
        return waiting

    def __len__(self) -> int:
        """Count what is pending: in the client, to be sent again, queued callbacks."""
        return (
            self._shell.count_pending()
            + self._driver.machine.failed_and_open()
            + len(self._callbacks)
        )

    def report(self) -> DeliveryReport:
        """Return the outcomes of records since the last report, without waiting.

        The call raises nothing for failed records.

        Returns:
            The counts, and the failures that the application has not checked. These
            failures count as seen from now on.
        """
        return self._driver.report()

    def _raise(self) -> None:
        """Raise an error for unseen failures, or for a callback that raised one."""
        if self._driver.has_unseen():
            raise send_errors.make_delivery_failed(errors, self.report())
        raised = self._driver.take_callback_error()
        if raised is not None:
            raise send_errors.make_callback_failed(
                errors, raised, self.report()
            ) from raised

    def purge(
        self, in_queue: bool = True, in_flight: bool = True, blocking: bool = True
    ) -> None:
        """Drop records, as ``Producer.purge`` does; also those to be sent again.

        Call ``poll()`` or ``flush()`` afterwards: it calls the records' callbacks.

        Raises:
            ClientClosedError: The producer was closed.
        """
        with _translating_closed():
            self._shell.purge(in_queue, in_flight, blocking)
        if in_queue:
            self._driver.drop_waiting("purge() was called")

    def list_topics(self, *args: Any, **kwargs: Any) -> Any:
        """List topics, partitions and brokers, as ``Producer.list_topics`` does.

        Raises:
            ClientClosedError: The producer was closed.
            ClientStateError: The call is in a callback.
        """
        self._callbacks.refuse_inside("list_topics")
        with _translating_closed():
            return self.client.list_topics(*args, **kwargs)

    def set_sasl_credentials(self, username: str, password: str) -> None:
        """Set new credentials, as ``Producer.set_sasl_credentials`` does.

        Raises:
            ClientClosedError: The producer was closed.
            ClientStateError: The call is in a callback.
        """
        self._callbacks.refuse_inside("set_sasl_credentials")
        with _translating_closed():
            self.client.set_sasl_credentials(username, password)

    # --- transactions -----------------------------------------------------------------

    def transaction(self) -> AbstractContextManager[None]:
        """Begin a transaction, and commit it after the ``with`` block, or abort it.

        A failed call is retried as the policy says. A commit whose answer was lost is
        retried too, because the coordinator executes it once. The block never runs
        twice. A transaction whose commit has an unknown result is not aborted.

        Raises:
            KafkaGuardError: The transaction was not committed. ABORT: it was aborted,
                so the same records can be sent in a new transaction. IN_DOUBT: it may
                have been committed. RECREATE: it could not be aborted, or was open for
                too long. FENCED: another instance uses this ``transactional.id``.
            BaseException: The exception of the block, after one abort.
        """
        return self._transactions.block()

    def init_transactions(self, timeout: float | None = None) -> None:
        """Take over the ``transactional.id``, as ``Producer.init_transactions`` does.

        Args:
            timeout: Seconds; default: the policy's ``deadline``, or
                ``delivery.timeout.ms`` if that is less.

        Raises:
            KafkaGuardError: The ``transactional.id`` was not taken over.
        """
        self._transactions.init(timeout)

    def begin_transaction(self) -> None:
        """Begin a transaction, with a new client if the old one could not abort.

        Raises:
            KafkaGuardError: The transaction cannot begin.
        """
        self._transactions.begin()

    def send_offsets_to_transaction(
        self, positions: Any, group_metadata: Any, timeout: float | None = None
    ) -> None:
        """Add a consumer's offsets to the transaction, as the client does.

        Raises:
            KafkaGuardError: The offsets were not added.
        """
        self._transactions.add_offsets(positions, group_metadata, timeout)

    def commit_transaction(self, timeout: float | None = None) -> None:
        """Commit, once each record has its outcome.

        Raises:
            KafkaGuardError: ABORT: a record of the transaction failed. FENCED: another
                instance uses this ``transactional.id``. IN_DOUBT: the commit has no
                answer; call again to find out. RETRY: some records have no outcome yet,
                and nothing was committed; call again to wait for longer.
        """
        self._transactions.commit(timeout)

    def abort_transaction(self, timeout: float | None = None) -> None:
        """Abort, and drop pending records.

        Raises:
            KafkaGuardError: RECREATE: the abort failed, and a repeated call does not
                help. FENCED: another instance uses this ``transactional.id``.
        """
        self._transactions.abort(timeout)

    # --- the end ----------------------------------------------------------------------

    def close(self, timeout: float | None = None) -> bool:
        """Flush, then close the client, within a bound.

        Args:
            timeout: Seconds to wait at most, 0 or more. Default: 30. Records that are
                pending then are given up: IN_DOUBT if they were in flight, else failed.

        Returns:
            True, as the client does.

        Raises:
            DeliveryFailed: Records failed, and nobody has seen the failures.
            CallbackError: A callback of the application raised an exception.
            ClientStateError: A transaction was open; the text says whether it was
                aborted. Or ``close`` is called in a callback, so it would wait for its
                own thread.
            TypeError: ``timeout`` is not a number.
            ValueError: ``timeout`` is negative.
        """
        send_errors.check_timeout("close", timeout)
        if self._is_closed or self._forks.is_forked:
            return True
        if self._callbacks.is_inside():
            raise send_errors.make_waits_for_itself(errors, "close")
        self._is_closed = True
        deadline = time.monotonic() + (CLOSE_S if timeout is None else timeout)
        if not self._is_client_closed():
            self._flush(max(0.0, deadline - time.monotonic()))
        left = max(LEAST_S, deadline - time.monotonic())
        left_open = self._transactions.close(left)
        self._driver.stop()
        self._driver.settle_all(max(deadline, time.monotonic() + LEAST_S))
        self._shell.close(max(LEAST_S, deadline - time.monotonic()))
        self.close_view()
        self._callbacks.serve()
        if left_open is not None:
            raise send_errors.make_left_open(errors, self.report(), left_open.why)
        self._raise()
        return True

    def _is_client_closed(self) -> bool:
        try:
            self.client.poll(0)
        except RuntimeError:
            return True
        except KafkaException as error:
            self._shell.report_if_dead(self.client, error)
        return False


def _check_messages(messages: Any) -> None:
    """Refuse what ``produce`` would refuse after the first records were sent.

    Raises:
        TypeError: The argument of ``produce_batch`` is not as it says.
    """
    if not isinstance(messages, list):
        raise TypeError(
            f"produce_batch(messages): a list, not {type(messages).__name__}"
        )
    for number, message in enumerate(messages):
        if not isinstance(message, dict):
            raise TypeError(
                f"produce_batch(messages): message {number} is a "
                f"{type(message).__name__}, not a dict"
            )
        for name, value in message.items():
            if not isinstance(value, _OF_MESSAGE.get(name, object)):
                raise TypeError(
                    f"produce_batch(messages): the {name} of message {number} is a "
                    f"{type(value).__name__}"
                )


async def _nothing_known(_: str) -> TopicFacts:
    """Stand in for a look-up with settings that the guard cannot use."""
    return NOTHING_KNOWN


@contextmanager
def _translating_closed() -> Iterator[None]:
    """Raise an error with a verdict for a call on a closed client."""
    try:
        yield
    except RuntimeError as error:
        raise errors.translate(error) from error
