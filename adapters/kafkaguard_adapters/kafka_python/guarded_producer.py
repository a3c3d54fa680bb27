"""The guarded ``kafka.KafkaProducer``."""

from __future__ import annotations

import time
from functools import wraps
from threading import TIMEOUT_MAX
from typing import TYPE_CHECKING, Any

from kafka import KafkaProducer
from kafka.errors import KafkaError, KafkaTimeoutError

from kafkaguard._common.observing import traced
from kafkaguard._delivery.report import DeliveryReport
from kafkaguard_adapters.asking.cluster_calls import ClusterCalls
from kafkaguard_adapters.asking.topic_facts import TopicFactsLookup
from kafkaguard_adapters.building import Builder
from kafkaguard_adapters.kafka_python._private import moving, reading
from kafkaguard_adapters.kafka_python.errors import errors
from kafkaguard_adapters.kafka_python.own_sending import OwnSending
from kafkaguard_adapters.kafka_python.sending import Sending
from kafkaguard_adapters.kafka_python.settings import settings_of
from kafkaguard_adapters.kafka_python.shell import KafkaPythonShell
from kafkaguard_adapters.kafka_python.transactions import Transactions
from kafkaguard_adapters.kafka_python.view import view_of
from kafkaguard_adapters.policy_in_effect import GovernedProducer
from kafkaguard_adapters.producing import send_errors
from kafkaguard_adapters.producing.barrier import SendBarrier
from kafkaguard_adapters.producing.driver import ThreadDriver
from kafkaguard_adapters.producing.forks import ForkGuard
from kafkaguard_adapters.producing.null_keys import NullKeyCheck
from kafkaguard_adapters.producing.policies import check_transactional
from kafkaguard_adapters.stand_in import GuardedClient

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from kafkaguard_adapters.building import Wish


#: The default time limit of close(), and of the end of a ``with`` block, in seconds.
CLOSE_S = 30.0
#: Seconds that flush() waits in addition to the client's ``delivery_timeout_ms``.
FLUSH_MARGIN_S = 10.0
#: Seconds that the client's thread has to end.
STOP_S = 1.0


def _passed_on(name: str, **known: Any) -> Callable[..., Any]:
    """Make a method that calls the client's method and translates its errors."""

    @wraps(getattr(KafkaProducer, name))
    def method(self: GuardedProducer, *args: Any, **kwargs: Any) -> Any:
        try:
            return getattr(self._shell.producer, name)(*args, **kwargs)
        except KafkaError as error:
            raise errors.translate(error, **known) from error

    return method


class GuardedProducer(ClusterCalls, GovernedProducer, GuardedClient):
    """A guarded KafkaProducer; every other attribute is the client's.

    ``send`` is the method of ``Sending``. It is an attribute of the instance, because
    looking up a method of a class that delegates unknown names costs twice as much.

    Args:
        producer: The client's producer.
        wish: What ``guard()`` was told.

    Raises:
        ClientConfigurationError: The policy does not suit a transactional producer.
        TypeError: The producer is guarded already.
    """

    _library = "kafka-python"

    def __init__(self, producer: Any, wish: Wish) -> None:
        if reading.is_guarded(producer):
            raise send_errors.make_guarded_already(producer)
        if producer.config["transactional_id"]:
            check_transactional(wish.policy, errors)
        self._builder = Builder(wish, producer, settings_of(producer), errors.make)
        self._wish = wish
        self.cluster_view = view_of(producer, None, wish.cache)
        self._forks = ForkGuard(self, errors, "KafkaProducer")
        sending = OwnSending if reading.has_own_send(producer) else Sending
        self._sending = sending(wish.cache.null_keys_allowed)
        self.send = traced(wish.on_event, self._sending.send)
        self._begin(producer)

    def _begin(self, producer: Any) -> None:
        """Start with a producer, without records in flight."""
        view = self.cluster_view
        self._shell = shell = KafkaPythonShell(
            producer, self._builder, view.size_limit, self._sending
        )
        barrier = SendBarrier()
        self._driver = ThreadDriver(shell, self._wish, barrier, view)
        self._transactions = Transactions(shell, self._driver, self._wish.policy)
        null_keys = NullKeyCheck(
            TopicFactsLookup(view.topic_facts, self._wish.cache),
            errors,
            self._wish.policy,
            transactional=shell.is_transactional,
        )
        self._sending.use(
            shell, self._driver, self._transactions, null_keys, barrier.under_way
        )

    # --- forks ------------------------------------------------------------------------

    def leave_to_parent(self) -> Any:
        """In a forked child: send nothing more; return the parent's open producer."""
        moving.disown(self._shell.producer)
        self._driver.is_inherited = True
        self._sending.hold_all(self._forks.in_child)
        return self._shell.producer

    def can_begin_again(self) -> bool:
        """Return whether a forked child can build a producer (a factory was given)."""
        return self._builder.was_given

    def begin_again(self) -> None:
        """Build a producer for a forked child."""
        self._begin(self._builder.build())

    # --- reports ----------------------------------------------------------------------

    def flush(self, timeout: float | None = None) -> DeliveryReport:
        """Wait until every record has its outcome, and report them.

        Args:
            timeout: The most seconds to wait, 0 or more. Default: the client's
                ``delivery_timeout_ms`` and 10 s, plus the ``deadline`` of a policy that
                sends records again.

        Returns:
            The outcomes of the records since the last report.

        Raises:
            DeliveryFailed: Records failed and the application has not seen their
                errors, or records are still pending after the timeout (then the error
                is also a ``KafkaTimeoutError``).
            CallbackError: A callback of the application has raised an exception.
            ClientStateError: ``flush`` is called in a callback, so it would wait for
                its own thread.
            TypeError: ``timeout`` is not a number.
            ValueError: ``timeout`` is negative.
        """
        send_errors.check_timeout("flush", timeout)
        self._forks.ensure_client()
        if reading.is_sender_thread(self._shell.producer):
            raise send_errors.make_waits_for_itself(errors, "flush")
        if timeout is None:
            timeout = self._driver.machine.longest_s + FLUSH_MARGIN_S
        until = time.monotonic() + min(timeout, TIMEOUT_MAX)
        return self._report(self._driver.wait(until))

    def close(
        self, timeout: float | None = None, null_logger: bool = False
    ) -> DeliveryReport:
        """Flush, then close the client, within a time limit.

        Args:
            timeout: The most seconds to wait, 0 or more. Default: 30. Records that are
                still pending then are given up: those in flight are in doubt, the
                others have failed.
            null_logger: As in kafka-python.

        Returns:
            The outcomes of the records since the last report.

        Raises:
            DeliveryFailed: Records failed and the application has not seen their
                errors.
            CallbackError: A callback of the application has raised an exception.
            ClientStateError: A transaction was open; the text says whether it was
                aborted. Or ``close`` is called in a callback, so it would wait for its
                own thread.
            TypeError: ``timeout`` is not a number.
            ValueError: ``timeout`` is negative.
        """
        send_errors.check_timeout("close", timeout)
        if self._forks.is_forked:
            return DeliveryReport()
        if reading.is_sender_thread(self._shell.producer):
            raise send_errors.make_waits_for_itself(errors, "close")
        limit = CLOSE_S if timeout is None else min(timeout, TIMEOUT_MAX)
        deadline = time.monotonic() + limit
        self._driver.wait(deadline)
        self._shell.stop_replacing()
        self._driver.stop()
        seconds = max(STOP_S, deadline - time.monotonic())
        left_open = self._transactions.close(seconds)
        self._driver.settle_all(max(deadline, time.monotonic() + STOP_S))
        seconds = max(STOP_S, deadline - time.monotonic())
        self._close_client(seconds, null_logger)
        if left_open is not None:
            raise send_errors.make_left_open(errors, self.report(), left_open.why)
        return self._report(self._driver.pending())

    def report(self) -> DeliveryReport:
        """Report the outcomes of records since the last report, without waiting.

        The results and errors of flush() and close() are reports, too.

        Returns:
            The counts; ``pending`` is the current number. The errors in the report
            count as seen by the application.
        """
        return self._driver.report(self._driver.pending())

    def _close_client(self, timeout: float, null_logger: bool) -> None:
        try:
            self._shell.close(timeout, null_logger=null_logger)
        except KafkaTimeoutError as error:
            raise errors.translate(
                error, message=f"the client did not end within {timeout:g} s"
            ) from error
        finally:
            self.close_view()

    def _report(self, pending: int) -> DeliveryReport:
        report = self._driver.report(pending)
        if report.errors or report.pending:
            raise send_errors.make_delivery_failed(errors, report)
        raised = self._driver.take_callback_error()
        if raised is not None:
            raise send_errors.make_callback_failed(errors, raised, report) from raised
        return report

    # --- the client in use ------------------------------------------------------------

    @property
    def client(self) -> Any:
        """The client's producer that is in use."""
        return self._shell.producer

    def __repr__(self) -> str:
        """Show the client's producer, with its ids."""
        return f"<guarded {self._shell.producer!s}>"

    partitions_for = _passed_on("partitions_for", api="Metadata")

    def transaction(self) -> AbstractContextManager[None]:
        """Begin a transaction, and commit it after the ``with`` block, or abort it.

        Failed calls are repeated as the policy requires. This includes a commit whose
        answer was lost, because the coordinator executes it only once. The block never
        runs twice. A transaction whose commit has an unknown result is not aborted.

        Raises:
            KafkaGuardError: The transaction was not committed. The verdict's action is
                ABORT: it was aborted, so you can send the same records in a new
                transaction. IN_DOUBT: it may have been committed. RECREATE: it could
                not be aborted, or was open for too long. FENCED: another instance uses
                this ``transactional.id``.
            BaseException: The exception of the block, after one abort.
        """
        return self._transactions.block()

    def init_transactions(self) -> None:
        """Take over the ``transactional.id``, within ``max_block_ms``.

        Raises:
            KafkaGuardError: The producer could not be initialised.
        """
        self._transactions.init()

    def begin_transaction(self) -> None:
        """Begin a transaction; after a failed one, with a new producer of the same id.

        Raises:
            KafkaGuardError: The transaction cannot begin. FENCED: another instance has
                taken over the ``transactional.id``.
        """
        self._transactions.begin()

    def send_offsets_to_transaction(self, offsets: Any, group_metadata: Any) -> None:
        """Add a consumer's offsets to the transaction within ``max_block_ms``.

        Raises:
            KafkaGuardError: The offsets could not be added.
            TypeError: ``offsets`` is not a ``{TopicPartition: OffsetAndMetadata}``.
        """
        self._transactions.add_offsets(offsets, group_metadata)

    def commit_transaction(self) -> None:
        """Commit within ``max_block_ms``; call it again to wait for longer.

        Raises:
            KafkaGuardError: The verdict's action is ABORT: a record of the transaction
                failed. FENCED: another instance uses this ``transactional.id``.
                IN_DOUBT: the transaction may have been committed; the error says how to
                find out.
        """
        self._transactions.commit()

    def abort_transaction(self) -> None:
        """Abort within ``max_block_ms``.

        Raises:
            KafkaGuardError: The transaction could not be aborted. FENCED: another
                instance uses this ``transactional.id``.
        """
        self._transactions.abort()
