"""The shell of confluent-kafka's producer: it translates for the delivery machine.

It reports what happens to windows of records, and executes commands on the client. It
decides nothing. Reports arrive in the thread that polls: the application's, and a
thread of the guard while a recovery runs. Nothing else polls the client.
"""

from __future__ import annotations

import itertools
import threading
import time
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.cimpl import Producer  # confluent_kafka.Producer may be replaced

from kafkaguard._common.logs import Log
from kafkaguard._delivery.judging import ends_all
from kafkaguard._delivery.size_limits import TTL_S
from kafkaguard._delivery.sizes import batch_size
from kafkaguard._errors import ClientClosedError
from kafkaguard._verdicts.signals import is_refused_login
from kafkaguard_adapters.asking.cluster_view import explain
from kafkaguard_adapters.confluent.errors import errors, inner_error
from kafkaguard_adapters.confluent.unsent import without_id
from kafkaguard_adapters.confluent.windows import (
    ClientFacts,
    FailedReport,
    OwnTicket,
    ResendTicket,
    Window,
    hashes,
)
from kafkaguard_adapters.producing import send_errors
from kafkaguard_adapters.producing.reporting import ReportingShell
from kafkaguard_adapters.wire.io_thread import run

if TYPE_CHECKING:
    from collections.abc import (
        Callable,
        Collection,
        Hashable,
        Sequence,
    )

    from kafkaguard._delivery.facts import (
        Batch,
        Raw,
        Refusal,
        SizeAnswer,
    )
    from kafkaguard._delivery.machine import DeliveryMachine
    from kafkaguard._delivery.records import Record
    from kafkaguard._delivery.shell import ClientErrors
    from kafkaguard._errors import KafkaGuardError
    from kafkaguard_adapters.asking.cluster_view import ClusterView
    from kafkaguard_adapters.building import Builder
    from kafkaguard_adapters.confluent.callbacks import Callbacks
    from kafkaguard_adapters.confluent.producer_settings import ProducerSettings
    from kafkaguard_adapters.producing.null_keys import LetterCheck

#: Records in a topic's first window, and in the largest.
SMALL, LARGE = 64, 1024
#: Seconds from one error of a connection in the log to the next.
QUIET_S = 60.0
#: Seconds of one poll of the guard's own.
POLL_S = 0.05
#: Seconds to wait for a running flush before records are sent again. A flush takes
#: longer only if a callback of the application does.
CALM_S = 1.0
#: Seconds within which a broker must tell which partitions a topic has.
ASK_S = 5.0
#: Seconds within which a dead producer must report all of its records.
STOP_S = 5.0
#: Seconds in which librdkafka reports the same connection error only once.
SUPPRESSED_S = 30.0
#: Seconds above which a poll has no limit.
_LONG_S = 1e6
_UNKNOWN_PARTITION = KafkaError._UNKNOWN_PARTITION  # noqa: SLF001 - a documented constant
#: What becomes of records whose topic the client waits for in vain.
_WITHOUT_TOPIC = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._MSG_TIMED_OUT,  # noqa: SLF001 - a documented constant
        KafkaError._PURGE_QUEUE,  # noqa: SLF001 - a documented constant
        KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001 - a documented constant
    }
)
_now = time.monotonic
_log = Log("producer")


class ConfluentShell(ReportingShell):
    """The ``ProducerShell`` of a ``confluent_kafka.Producer``.

    Args:
        client: The client's producer.
        builder: Builds a successor.
        settings: The producer's settings, as far as they are known.
        callbacks: Calls the application's callbacks.
        view: The cluster view for the guard's own requests.

    Attributes:
        builder: See above.
        client: The producer in use.
        windows: The open window of each topic, for new records that need no check.
        limits: The largest batch of topics that take less than the client, and until
            when it counts, in monotonic seconds. Each record for them is checked.
        traits: The client's traits.
        errors: Makes the client's errors.
        callbacks: See above.
        death: Why the producer in use is dead; None: it is alive.
    """

    def __init__(
        self,
        client: Any,
        builder: Builder,
        settings: ProducerSettings,
        callbacks: Callbacks,
        view: ClusterView,
    ) -> None:
        self.errors: ClientErrors = errors
        self.client = client
        self.produce = produce_of(client)
        self.callbacks = callbacks
        self.only_errors = settings.only_errors
        self.has_offsets = settings.is_idempotent  # which needs acknowledgements
        self.traits = settings.traits(replaceable=builder.can_build)
        self.windows: dict[str, Window] = {}
        self.limits: dict[str, tuple[int, float]] = {}
        #: The open window of each topic whose records are checked.
        self._checked_windows: dict[str, Window] = {}
        self.builder = builder
        self._settings = settings
        self._view = view
        #: The open window of each topic, for records that are sent again.
        self._resend_windows: dict[str, Window] = {}
        self._open: dict[Window, None] = {}
        #: Guards which windows are open, the poller and which producer is in use. It is
        #: entered again by ``close_window``, when a full window is followed by another.
        self._lock = threading.RLock()
        #: How many threads flush the client; notified when one has ended.
        self._flushes = 0
        self._flushed = threading.Condition(self._lock)
        self._generation = 0
        self._numbers = itertools.count()
        self._next_token = 0
        self._capacities: dict[str, int] = {}
        self._suspects: dict[int, bytes] = {}
        #: By token of a record that is not settled: its report, and its last message.
        self._unsettled: dict[Hashable, FailedReport] = {}
        self._arrived: dict[Hashable, Any] = {}
        self._is_dying = self._is_closed = False
        self.death: KafkaException | None = None
        #: When the application has purged the client.
        self._purged_at = -float("inf")
        #: The last refused login, and when the client told it.
        self._refused_login: tuple[Any, float] = None, -float("inf")
        #: The last failed connection, and when it was reported.
        self._broken: tuple[Any, float] = None, -float("inf")
        self._poller: threading.Thread | None = None
        self._retired: list[Any] = []
        #: When an error of a connection is logged again.
        self._logs_again = 0.0
        log = settings.error_log
        #: The client's errors that the last poll has brought; see :meth:`hear_errors`.
        self.unread: Collection[Any] = () if log is None else log.unread
        self._attempts = settings.attempt_log
        #: Lines of the client's log that the last poll has brought; see ``poll_on``.
        self.lines: Collection[Any] = ()
        self.hidden: Collection[None] = ()
        if self._attempts is not None:
            self._attempts.forget()
            self.lines, self.hidden = self._attempts.unread, self._attempts.hidden

    def use(self, machine: DeliveryMachine, letters: LetterCheck) -> None:
        """Connect the shell with the machine and with the check of dead letters.

        Args:
            machine: The delivery machine; the guard polls while it is recovering.
            letters: Checks dead letters.
        """
        self._machine, self._letters = machine, letters

    # --- windows ----------------------------------------------------------------------

    def window(self, topic: str, is_held: Callable[[str], bool]) -> Window | None:
        """Open a window, or return the open one; None: the topic is held.

        A hold closes windows under the same lock, so no window can open after a hold.
        """
        with self._lock:
            windows = self._checked_windows if self.limits.get(topic) else self.windows
            window = windows.get(topic)
            if window is not None and not window.is_full:
                return window
            if window is not None:
                self.close_window(window)
            if is_held(topic):
                return None
            return self._begin(topic, windows)

    def _begin(self, topic: str, windows: dict[str, Window]) -> Window:
        capacity = self._capacities.get(topic, SMALL)
        self._capacities[topic] = min(LARGE, 2 * capacity)
        position = self._generation, next(self._numbers)
        window = Window(
            topic,
            position,
            capacity,
            self._next_token,
            self,
            self._suspects,
            is_resend=windows is self._resend_windows,
            is_first=topic not in {each.place.topic for each in self.open_windows()},
        )
        self._next_token += capacity
        self._open[window] = None
        self._facts.began(window)
        windows[topic] = window
        return window

    def close_window(self, window: Window) -> None:
        """Close a window for new records; the window ends with its last report."""
        with self._lock:
            for windows in (self.windows, self._checked_windows, self._resend_windows):
                if windows.get(window.place.topic) is window:
                    del windows[window.place.topic]
            was_open = window.close()
        if was_open:
            window.count_ended()

    def wait_for_sends(self, topic: str | None, deadline: float) -> bool:  # noqa: ARG002 - as any barrier
        """Close the windows of a topic, or all, so that sends check for a hold.

        Nothing is waited for: a send that already has a slot in a window counts as
        pending in that window.
        """
        self._close_windows(topic)
        return True

    def _close_windows(self, topic: str | None = None) -> None:
        """Close the windows of a topic for new records; None: all windows."""
        for window in [*self.windows.values(), *self._checked_windows.values()]:
            if topic in (None, window.place.topic):
                self.close_window(window)

    def open_windows(self) -> list[Window]:
        """List the windows that have not ended."""
        return list(self._open)

    # --- reports ----------------------------------------------------------------------

    def record_failed(self, window: Window) -> None:
        """Close the window of a failed record.

        If the client's log does not tell when the client numbers its records anew, each
        failure may be the cause.
        """
        attempts = self._attempts
        is_told = attempts is not None and attempts.is_heard
        if not is_told and window.failed_reports[-1].message.partition() is not None:
            for each in self.open_windows():
                each.doubt(max(0, each.delivered))  # the failed one has not ended
                self.close_window(each)
        self.close_window(window)
        self.poll_while_troubled()

    def all_reported(self, window: Window) -> None:
        """Report the outcome of a window after each of its records was reported."""
        if self.lines:
            self._hear_lines()  # those about its records came before their reports
        if not window.failed_reports:
            self._facts.accepted(window)
            self._end(window)
            return
        refusals = self._reported_refusals(window)
        self._facts.failed(window, self._explain_refusals(window.place.topic, refusals))
        self._end(window)

    def _reported_refusals(self, window: Window) -> list[Refusal]:
        """Return why each record failed whose failure was reported; keep its report."""
        if not window.failed_reports:
            return []
        window.due = window.oldest_produced_at + self.traits.delivery_timeout
        refusals = window.refusals(self._client_facts(window))
        for refusal in refusals:
            report = self._unsettled[refusal.token] = window.report_of(refusal.token)
            if (key := report.message.key()) is not None:
                self._suspects.update(dict.fromkeys(hashes(key), key))
        return refusals

    def _end(self, window: Window) -> None:
        self._open.pop(window, None)
        window.free_reports()

    def _client_facts(self, window: Window) -> ClientFacts:
        self.hear_errors()  # the client tells its death before it purges its queue
        since = window.oldest_produced_at - SUPPRESSED_S
        (login, refused_at), (broken, broken_at) = self._refused_login, self._broken
        is_dying = self._is_dying or self.death is not None
        purged_at = -float("inf") if is_dying else self._purged_at
        if self.traits.transactional and not is_dying:
            purged_at = _now()  # abort_transaction() purges too
        return ClientFacts(
            is_dying,
            self._settings.retry_s,
            self._attempts,
            login if refused_at > since else None,
            purged_at,
            self._final_death,
            broken if broken_at > since else None,
            self._settings.repeats,
        )

    def keep_resend_report(self, token: int, message: Any) -> None:
        """Keep the delivery report of a record that was sent again."""
        self._arrived[token] = message

    def message_of(self, token: int) -> Any:
        """Return the client's message about a delivered dead letter."""
        return self._arrived.pop(token)

    def settle(self, record: Record) -> None:
        """Queue the application's callback for a record."""
        outcome = record.outcome
        assert outcome is not None
        report = self._unsettled.pop(record.first_token, None)
        message = self._arrived.pop(record.token, None)
        wants_callback = outcome.error is not None or not self.only_errors
        if report is not None and report.call is not None and wants_callback:
            self.callbacks.put(report.call, outcome, message or report.message)

    def leave_to_parent(self) -> list[Any]:
        """In a forked child: stop using the client; return what must stay alive."""
        self.windows.clear()  # so that a send looks for a window, and finds none
        self._checked_windows.clear()
        self._is_closed = True
        return [self, self.client]

    def note_refused(self, call: Any, message: Any) -> int:
        """Return a token for a record that is refused before the client gets it."""
        with self._lock:
            token = self._next_token
            self._next_token += 1
        self._unsettled[token] = FailedReport(None, message, call, None, _now(), 0.0)
        return token

    def count_pending(self) -> int:
        """Count records that are pending in the client, or failed and not yet reported.

        Records that were sent again are not counted here: the machine counts them.
        """
        windows, count = self.open_windows(), len(self.client)
        if self._attempts is not None:  # it also counts lines of its log
            unreported = sum(window.unreported_count for window in windows)
            count = min(count, unreported)
        for window in windows:
            if window.is_resend:
                count -= window.unreported_count
            else:
                count += len(window.failed_reports)
        return max(0, count)

    def _hear_lines(self) -> None:
        """Read the client's lines so far: which records may be written twice."""
        attempts = self._attempts
        if attempts is None:
            return
        attempts.hear()
        while attempts.renewed:
            topic = attempts.renewed.pop()
            for window in self.open_windows():
                if topic in (None, window.place.topic):
                    window.doubt(window.counted)
                    self.close_window(window)  # what comes later is in no doubt
                    self._capacities.pop(window.place.topic, None)

    def _has_failed_reports(self) -> bool:
        return any(window.failed_reports for window in self.open_windows())

    def delivered(self) -> dict[Batch, int]:
        """Count the delivered records of each window that has not ended.

        Not of what was sent again, and of dead letters: they count with their end.
        Their lines of the log came before, also those that nobody has read: what these
        say of the records is known when the records are counted.
        """
        counts: dict[Batch, int] = {
            each: each.delivered for each in self.open_windows() if not each.is_resend
        }
        self._hear_lines()
        return counts

    # --- the guard's own polls --------------------------------------------------------

    def poll_while_troubled(self) -> None:
        """Start a thread that polls until the recovery is over."""
        with self._lock:
            if self._poller is None and not self._is_closed:
                self._poller = threading.Thread(
                    target=self._poll, name="kafkaguard-poll", daemon=True
                )
                self._poller.start()

    def _poll(self) -> None:
        with self.callbacks.diverted():
            while self._must_poll():
                try:
                    self.serve(POLL_S)
                except Exception as error:  # noqa: BLE001 - this thread must go on to get reports
                    self._facts.fault("the client could not be polled", error)
                    time.sleep(POLL_S)

    def _must_poll(self) -> bool:
        with self._lock:
            # Read without the driver's lock, which may wait for this one: these are
            # truth values, and a new trouble starts a poller again.
            goes_on = not self._is_closed and (
                self._machine.is_troubled or self._has_failed_reports()
            )
            if not goes_on:
                self._poller = None
                self._suspects.clear()
            return goes_on

    def serve(self, seconds: float) -> None:
        """Serve the client's reports for so many seconds.

        The client does not linger meanwhile, except while records are being sent again:
        these should share batches. If a refused record were alone in its batch only
        because nothing lingered, the guard would not know that the record is to blame.
        """
        start = _now()
        if not self._serve_client(lambda client: self.flush(client, seconds)):
            time.sleep(max(0.0, start + seconds - _now()))

    def flush(self, client: Any, seconds: float) -> int:
        """Flush a client for so many seconds; return how many records it has then.

        While records are given to the client again, it is only polled: see ``serve``.
        """
        with self._lock:
            is_sending = bool(self._resend_windows)
            self._flushes += not is_sending
        if is_sending:
            client.poll(seconds)
            left = len(client)
        else:
            try:
                left = client.flush(seconds)
            finally:
                with self._flushed:
                    self._flushes -= 1
                    self._flushed.notify_all()
        self.hear_errors()
        if self._attempts is not None:
            self._attempts.hidden.clear()  # a flush does not count what it serves
        return left

    def poll_on(self, client: Any, events: int, until: float) -> int:
        """Return what a poll has served besides lines of the log; poll on if nothing.

        Args:
            client: The client.
            events: What the client's poll has returned.
            until: When the poll must end, in monotonic seconds.
        """
        attempts = self._attempts
        assert attempts is not None
        while True:
            self._hear_lines()
            events -= len(attempts.hidden)
            attempts.hidden.clear()
            left = until - _now()
            if events > 0 or left <= 0 or client is not self.client:
                return max(events, 0)  # a client that was replaced may be closed
            events = client.poll(left if left < _LONG_S else -1)

    def serve_for_room(self, seconds: float) -> None:
        """Serve reports once, to make room in the client's queue."""
        with self.callbacks.diverted():
            self._serve_client(lambda client: client.poll(seconds))
            self.hear_errors()

    def _serve_client(self, serve: Callable[[Any], int]) -> int:
        """Serve reports; return the client's result, or 0 if the call fails."""
        client = self.client
        try:
            with self.callbacks.inside_client():
                return serve(client)
        except KafkaException as error:
            self.report_if_dead(client, error)
        except RuntimeError as error:  # the application has closed it
            self._facts.fault("the client could not be polled", error)
        return 0

    # --- the death of a producer ------------------------------------------------------

    def report_if_dead(self, client: Any, error: KafkaException) -> bool:
        """Return whether an exception means that a producer is dead; report a death."""
        is_dead = _is_death(error)
        if is_dead and client is self.client:
            self.death = self.death or error
            if self._final_death is None:
                self.report_death(errors.translate(self.death, api="Produce"))
        return is_dead

    @property
    def _final_death(self) -> KafkaException | None:
        """Why the client is dead, if a new one would die of it, too."""
        death = self.death
        is_final = death is not None and (self._gets_no_id or ends_all(death))
        return death if is_final else None

    @property
    def _gets_no_id(self) -> bool:
        """Whether the client has died because brokers gave it no producer id."""
        attempts = self._attempts
        return attempts is not None and attempts.is_heard and not attempts.has_id

    def why_dead(self, topic: str) -> KafkaGuardError | None:
        """Make the error of a record for a dead client that no other can replace.

        Args:
            topic: The record's topic.
        """
        death = self._final_death
        if death is None:
            return None
        if self._gets_no_id:
            return without_id(death.args[0], topic)
        return errors.translate(death, api="Produce", topic=topic)

    def report_death(self, cause: BaseException) -> None:
        """Report that the client is dead, and poll for its last reports."""
        self._facts.died(cause, None)
        self.poll_while_troubled()

    def hear_errors(self) -> None:
        """Take note of the client's errors and lines so far; called after each poll."""
        self._hear_lines()
        log = self._settings.error_log
        if log is None:
            return
        for error in log.read():
            self._hear_error(error, is_user_told=log.own is not None)
            if log.own is not None:
                self.callbacks.call(log.own, error)

    def _hear_error(self, error: Any, *, is_user_told: bool) -> None:
        """Keep that the client has died, or when it could not log in."""
        now = _now()
        if error.fatal() and not self.traits.transactional:
            self.report_if_dead(self.client, KafkaException(error))
        if is_refused_login(error):
            self._refused_login = error, now
        if error.code() in (KafkaError._TRANSPORT, KafkaError._RESOLVE):  # noqa: SLF001 - documented constants
            self._broken = error, now
        if is_user_told or now < self._logs_again:
            return  # without any callback librdkafka itself would log each of them
        self._logs_again = now + QUIET_S
        _log.warning(
            "connection_error",
            "%s (further errors of connections are not logged for %g s)",
            error.str(),
            QUIET_S,
            error=error.name(),
        )

    def shut(self) -> None:
        """Accept no more records, and drop the records that are still in the queue."""
        self._is_dying = True
        self._close_windows()
        self._purge(in_flight=False)

    def hear_out(self, until: float) -> None:
        """Wait for the answers to records in flight, until monotonic seconds."""
        self._serve_until(lambda: len(self.client) == 0, until)

    def stop(self) -> None:
        """Stop the client; its pending records fail."""
        self._is_dying = True
        self._close_windows()
        for window in list(self._resend_windows.values()):
            self.close_window(window)
        end = _now() + STOP_S
        while self._open and _now() < end:
            self._purge(in_flight=True)  # again, for a send that runs meanwhile
            self._serve_until(lambda: not self._open, _now() + POLL_S)
        for window in self.open_windows():
            self._facts.fault(
                "the client never reported these records",
                LookupError(repr(window.place)),
            )
            refusals = self._reported_refusals(window)
            self._facts.failed(window, [*refusals, *window.unreported()])
            self._end(window)

    def purge(self, *args: Any) -> None:
        """Purge the client, because the application says so."""
        self._purged_at = float("inf")  # also for reports that arrive meanwhile
        try:
            self.client.purge(*args)
        finally:
            self._purged_at = _now()

    def _purge(self, *, in_flight: bool) -> None:
        try:
            self.client.purge(in_queue=True, in_flight=in_flight, blocking=True)
        except (KafkaException, RuntimeError) as error:
            self._facts.fault("the client's queue could not be emptied", error)

    def serve_all(self, until: float) -> None:
        """Serve reports until no record is pending, or until monotonic seconds."""
        self._serve_until(lambda: not self.count_pending(), until)

    def serve_transaction(self, until: float) -> None:
        """Serve reports until no record is pending, or until monotonic seconds.

        Once a record has failed, the client sends no other one of the transaction. So
        those in its queue fail at once, instead of when their time is over.
        """
        self._close_windows()  # the delivered records are counted when they end
        self._serve_until(
            lambda: not self.count_pending() or self._has_failed_reports(), until
        )
        if self._has_failed_reports():
            self.client.purge(in_queue=True, in_flight=False)
            self.serve_all(until)

    def _serve_until(self, is_done: Callable[[], bool], until: float) -> None:
        with self.callbacks.diverted():
            while not is_done() and _now() < until:
                self.serve(max(0.0, min(POLL_S, until - _now())))

    def put_successor_in_use(self, locking_out: Batch | None) -> None:  # noqa: ARG002 - librdkafka cannot take over a producer id
        """Build a successor and put it in use."""
        self._put_in_use(self.builder.build())

    def _put_in_use(self, successor: Any) -> None:
        with self._lock:
            if not self._is_closed:
                self._retired.append(self.client)
                self._generation += 1
                self._is_dying, self.death = False, None
                if self._attempts is not None:
                    self._attempts.forget()
                self.client, self.produce = successor, produce_of(successor)
                return
        successor.close()
        raise errors.make(ClientClosedError, "the producer was closed meanwhile")

    def renew(self, prepare: Callable[[Any], object]) -> None:
        """Put a new producer in use that takes over a ``transactional.id``.

        Args:
            prepare: Makes the new producer take over the id.

        Raises:
            Exception: The producer cannot be built, or cannot take over the id.
        """
        successor = self.builder.build()
        try:
            prepare(successor)
        except BaseException:
            self._close(successor)
            raise
        self.stop()
        self._put_in_use(successor)

    def retire(self) -> None:
        """Close the clients that were replaced."""
        while self._retired:
            self._close(self._retired.pop())

    def may_build_later(self, error: BaseException) -> bool:
        """Return whether building a producer may succeed later."""
        return isinstance(error, OSError)

    # --- giving records to the client -------------------------------------------------

    def hand_over(self, record: Record, deadline: float) -> int:
        """Give a record to the client in spite of every hold; return its token.

        Raises:
            Exception: The client did not accept the record.
        """
        topic, raw = record.place.topic, record.raw
        assert raw is not None
        if record.is_letter:
            self._letters.check_letter(topic, raw.key)
        with self._lock:
            if topic not in self._resend_windows:
                self._resend_window(topic)  # so no flush begins from now on
                self._flushed.wait_for(lambda: not self._flushes, CALM_S)
            window = self._resend_window(topic)
            index = next(window.slots)
        window.mark(index, raw.key, raw.value)
        ticket = ResendTicket(window, index, None, raw.headers, raw.timestamp_ms or 0)
        self._hear_lines()  # so that older lines are not about this record
        try:
            self._hand_over(record, ticket, deadline)
        except BaseException:
            window.void(index)
            raise
        return window.first_token + index

    def _resend_window(self, topic: str) -> Window:
        """Return the open window for records that are sent again, or open one."""
        window = self._resend_windows.get(topic)
        if window is None or window.is_full:
            if window is not None:
                self.close_window(window)
            window = self._begin(topic, self._resend_windows)
        return window

    def _hand_over(self, record: Record, ticket: ResendTicket, deadline: float) -> None:
        topic, partition = record.place
        raw, client = record.raw, self.client
        assert raw is not None
        report = self._unsettled.get(record.first_token)
        first = None if report is None else report.ticket
        while True:
            try:
                if isinstance(first, OwnTicket):
                    first.hand_over(ticket)
                    return
                self.produce(
                    topic,
                    raw.value,
                    raw.key,
                    -1 if partition is None else partition,
                    ticket,
                    timestamp=ticket.timestamp,
                    headers=list(raw.headers) or None,
                )
            except BufferError as error:
                if _now() >= deadline:
                    raise errors.translate(error, api="Produce", topic=topic) from error
                time.sleep(POLL_S)  # the guard polls meanwhile
            except KafkaException as error:
                self.report_if_dead(client, error)
                if says_unknown_partition(error) and (
                    missing := self.missing_partition(error, *record.place)
                ):
                    raise missing from error
                raise errors.translate(error, api="Produce", topic=topic) from error
            else:
                return

    def missing_partition(
        self, error: KafkaException, topic: str, partition: int | None
    ) -> KafkaGuardError | None:
        """Return the error of a record whose partition the client does not know.

        A broker is asked first, which also refreshes what the client knows. None: the
        topic has the partition now.
        """
        return _missing(error, topic, partition, self._partitions(topic))

    def _partitions(self, topic: str) -> Collection[int] | None:
        """Ask a broker for the partitions of a topic; None: no answer."""
        metadata = self._ask_for(topic)
        return metadata and (metadata.partitions or None)

    def _ask_for(self, topic: str) -> Any:
        """Ask a broker for the metadata of a topic; None: no answer.

        The client is called in another thread: this one may be inside a callback of the
        client, and such a call in there would abort the process.
        """
        answers: list[Any] = []

        def ask(client: Any) -> None:
            with suppress(KafkaException, RuntimeError):  # RuntimeError: it is closed
                answers.append(client.list_topics(topic, timeout=ASK_S).topics[topic])

        thread = threading.Thread(
            target=ask, args=(self.client,), name="kafkaguard-ask", daemon=True
        )
        with suppress(RuntimeError):  # no thread can start while Python exits
            thread.start()
            thread.join()
        return next(iter(answers), None)

    def _is_absent(self, topic: str) -> bool:
        """Return whether a broker says that it knows no such topic."""
        metadata = self._ask_for(topic)
        error = metadata and metadata.error
        return error is not None and error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART

    def explain_error(self, error: KafkaGuardError) -> KafkaGuardError:
        """Return why the client could not connect: the wrong setting, or the error."""
        return run(explain(error, self._view.settings, self._view.make))

    def _explain_refusals(self, topic: str, refusals: list[Refusal]) -> list[Refusal]:
        """Return the refusals, after look-ups of what their reports do not say."""
        if any(map(_is_unexplained, refusals)):
            cause = run(self._view.find_wrong_setting())
            if cause is not None:
                return [
                    replace(each, cause=cause) if _is_unexplained(each) else each
                    for each in refusals
                ]
        if any(map(_waited_for_topic, refusals)) and self._is_absent(topic):
            return [
                replace(
                    each,
                    cause=send_errors.make_no_topic(errors, topic),
                    blame="record",
                    is_topic_absent=True,
                )
                if _waited_for_topic(each)
                else each
                for each in refusals
            ]
        if not any(says_unknown_partition(each.cause) for each in refusals):
            return refusals
        partitions = self._partitions(topic)
        return [
            replace(
                each,
                cause=_missing(each.cause, topic, each.partition, partitions)
                or each.cause,
            )
            if says_unknown_partition(each.cause)
            else each
            for each in refusals
        ]

    def send_now(self) -> None:
        """Close the windows of records that are sent again, so that serving flushes."""
        for window in list(self._resend_windows.values()):
            self.close_window(window)
        self.poll_while_troubled()

    def sending_now(self) -> AbstractContextManager[None]:
        """Do nothing: the application's own flush() does not linger."""
        return nullcontext()

    def await_batches(self, batches: Sequence[Batch], deadline: float) -> None:
        """Serve reports until windows have ended."""
        for window in self.open_windows():
            self.close_window(window)
        self._serve_until(
            lambda: all(batch.ended is not None for batch in batches), deadline
        )

    def report_early(self, token: Any) -> None:
        """Do nothing: all that is known was reported."""

    def is_own_thread(self) -> bool:
        """Return whether the caller is the thread that polls for the guard."""
        return threading.current_thread() is self._poller

    def size_alone(self, raw: Raw) -> int | None:
        """Return the bytes of a batch with this record only."""
        if self.traits.compresses:
            return None
        return batch_size(raw.key, raw.value, raw.headers)

    def describe_too_large(self, raw: Raw) -> str:
        """Describe a record that the client refuses for its size."""
        size = batch_size(raw.key, raw.value, raw.headers)
        limit = ""
        if self._settings.is_known:
            limit = f" ({self.traits.largest_request})"
        return (
            f"the record makes a batch of {size} bytes, more than message.max.bytes"
            f"{limit}; nothing was sent. Send less, or raise that setting"
        )

    def ask_size_limit(self, topic: str) -> SizeAnswer:
        """Look up ``max.message.bytes``; None if it is unknown after a few seconds.

        From then on records that are larger are refused before they are sent, since
        each refusal of a broker lets librdkafka number its records anew.
        """
        answer = run(self._view.size_limit(topic))
        most = self.traits.largest_request
        if isinstance(answer, int) and most and answer < most:
            self._settings.warn_of_batch_size(topic, answer)
            if not (self.traits.compresses or self.traits.transactional):
                self.limits[topic] = answer, _now() + TTL_S
                self._close_windows(topic)
        return answer

    def limit_of(self, topic: str) -> int | None:
        """Return the largest batch of a topic in bytes; None: its records all fit."""
        most, until = self.limits.get(topic, (0, _now()))
        if _now() < until:
            return most
        self.limits.pop(topic, None)
        return None

    def fail_batch(self, batch: Batch) -> None:
        """Do nothing: a record cannot be taken back; the client lets it expire."""

    # --- the end ----------------------------------------------------------------------

    def close(self, within: float) -> None:
        """Close the client; wait at most so many seconds."""
        with self._lock:
            self._is_closed = True
        thread = threading.Thread(
            target=self._close,
            args=(self.client,),
            name="kafkaguard-close",
            daemon=True,
        )
        thread.start()
        thread.join(within)

    def _close(self, client: Any) -> None:
        try:
            client.close()
        # confluent-kafka may raise a SystemError that hides a KafkaException.
        except (KafkaException, SystemError) as error:
            # A dead client closes with the error of its death, which was reported.
            is_reported = client is not self.client or self.death is not None
            if is_reported and isinstance(error, KafkaException) and _is_death(error):
                return
            _log.warning(
                "client_not_closed",
                "closing the client failed (%s)",
                error,
                error=error,
            )


def _is_death(error: KafkaException) -> bool:
    """Return whether an exception means that a producer is dead."""
    inner = inner_error(error)
    return inner is not None and (
        inner.fatal() or inner.code() in (KafkaError._FATAL, KafkaError._FENCED)  # noqa: SLF001 - documented constants
    )


def says_unknown_partition(error: KafkaException) -> bool:
    """Return whether a client does not know the partition of a record."""
    inner = inner_error(error)
    return inner is not None and inner.code() == _UNKNOWN_PARTITION


def _is_unexplained(refusal: Refusal) -> bool:
    """Return whether a record never left a client that does not say why."""
    code = refusal.cause.args[0].code()
    return refusal.sent == "never" and code == KafkaError._MSG_TIMED_OUT  # noqa: SLF001 - a documented constant


def _waited_for_topic(refusal: Refusal) -> bool:
    """Return whether a record got no partition, and not by the application's word."""
    code = refusal.cause.args[0].code()
    is_wish = code == KafkaError._PURGE_QUEUE and refusal.blame == "record"  # noqa: SLF001 - a documented constant
    is_unsent = refusal.sent == "never" and refusal.partition is None
    return is_unsent and code in _WITHOUT_TOPIC and not is_wish


def _missing(
    error: KafkaException,
    topic: str,
    partition: int | None,
    partitions: Collection[int] | None,
) -> KafkaGuardError | None:
    """Return the error of a record for a partition; None: the topic has it."""
    if partitions is not None and partition in partitions:
        return None
    return send_errors.make_not_there(
        errors, topic, partition, partitions, theirs=error
    )


def produce_of(client: Any) -> Callable[..., None]:
    """Return the ``produce`` of the base class, which takes bytes, for any producer."""
    bound: Callable[..., None] = Producer.produce.__get__(client)
    return bound
