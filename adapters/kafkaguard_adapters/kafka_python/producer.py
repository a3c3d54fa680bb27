"""The guarded producer: stands in for a ``kafka.KafkaProducer``."""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from functools import wraps
from typing import TYPE_CHECKING, Any, NoReturn, Self

from kafka import KafkaProducer
from kafka.errors import IllegalStateError, KafkaError, KafkaTimeoutError

from kafkaguard._classification import classify
from kafkaguard._delivery import (
    CallbackError,
    DeliveryFailed,
    DeliveryReport,
    ForkedProducerError,
    worst,
)
from kafkaguard._topic_facts import TopicFactsCache, TopicFactsLookup
from kafkaguard._verdict import Action
from kafkaguard.errors import ClientConfigurationError, InvalidRecordKeyError, dual
from kafkaguard_adapters._view import ClusterCalls, ClusterView
from kafkaguard_adapters.kafka_python import _insides, errors
from kafkaguard_adapters.kafka_python._building import Builder, settings_of
from kafkaguard_adapters.kafka_python._future import GuardedFuture
from kafkaguard_adapters.kafka_python._null_keys import NullKeyCheck, ask_with
from kafkaguard_adapters.kafka_python._session import Session
from kafkaguard_adapters.kafka_python.settings import read_settings
from kafkaguard_policies import load_policy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    from kafkaguard._verdict import TopicFacts, Verdict
    from kafkaguard_adapters._settings import Settings

_log = logging.getLogger("kafkaguard.producer")

#: Seconds that close() and leaving a ``with`` block take at most by default.
CLOSE_S = 30.0
#: Seconds that flush() waits beyond the client's own ``delivery_timeout_ms``.
FLUSH_MARGIN_S = 5.0
#: Seconds that the client's thread has to end.
STOP_S = 1.0


def _passed_on(name: str, **known: Any) -> Callable[..., Any]:
    """Make a method that is the client's own, but for the class of what it raises."""

    @wraps(getattr(KafkaProducer, name))
    def method(self: GuardedProducer, *args: Any, **kwargs: Any) -> Any:
        try:
            return getattr(self._session.producer, name)(*args, **kwargs)
        except KafkaError as error:
            raise errors.translate(error, **known) from error

    return method


class GuardedProducer(ClusterCalls):
    """A KafkaProducer with the guard in front; every other attribute is the client's.

    Args:
        producer: The client's producer.
        builder: Builds its successor, should it die.
        topics: What the caller declares about topics, instead of a look-up.
        null_key: ``"reject"`` a record without a key for a compacted topic before
            anything is sent, or ``"send"`` it.
        disguised_null_key: ``"warn"``, ``"reject"`` or ``"send"``: for a key of None
            that a serialiser turned into text.
        rescue: Send records again that failed only with their batch.
        resend_in_doubt: Send records again that may have been written.
        facts_ttl: Seconds that ``cleanup.policy`` is trusted.
        facts_patience: Seconds that a record without a key waits for a look-up.
        clock: Seconds that only ever grow.
    """

    def __init__(  # noqa: PLR0913 - each setting of a policy, by its name
        self,
        producer: Any,
        builder: Builder,
        *,
        topics: Mapping[str, TopicFacts] | None = None,
        null_key: str = "reject",
        disguised_null_key: str = "warn",
        rescue: bool = True,
        resend_in_doubt: bool = False,
        facts_ttl: float = 300.0,
        facts_patience: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._builder = builder
        self._cache = TopicFactsCache(topics, ttl=facts_ttl, clock=clock)
        self._clock = clock
        self.cluster_view = ClusterView(
            self._cluster_settings, errors.make, self._cache
        )
        self._checks_keys = null_key == "reject"
        self._disguised = disguised_null_key
        self._rescue = rescue
        self._resend_in_doubt = resend_in_doubt
        self._patience = facts_patience
        self._begin(producer)
        _LIVE.add(self)

    def _cluster_settings(self) -> Settings:
        return read_settings(self.config, errors.make)

    def _begin(self, producer: Any) -> None:
        """Start with nothing on its way."""
        self._session = session = Session(
            producer,
            self._builder,
            self._cache,
            clock=self._clock,
            rescue=self._rescue,
            resend_in_doubt=self._resend_in_doubt,
        )
        ask = ask_with(lambda: settings_of(session.producer))
        lookup = TopicFactsLookup(ask, self._cache, patience=self._patience)
        self._null_keys = NullKeyCheck(lookup, disguised=self._disguised)

    # --- sending ----------------------------------------------------------------------

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Any:
        """Send a record, as ``KafkaProducer.send`` does.

        Returns:
            A future with the interface of kafka-python's.

        Raises:
            InvalidRecordKeyError: The topic is compacted and the record has no key,
                after serialisers. Nothing was sent. Also an ``InvalidRecordError`` of
                kafka-python.
            KafkaGuardError: What else the client raises, also of its own class.
        """
        session = self._session
        if session.gate is not None:
            session.gate()
            session = self._session
        if (key is None or session.serializes) and (
            session.harmless.get(topic, 0.0) <= session.clock()
        ):
            self._check_key(topic, key, headers)
        producer = session.producer
        try:
            inner = producer.send(topic, value, key, headers, partition, timestamp_ms)
        except KafkaError as error:
            if producer is not session.producer:  # it was replaced in this very moment
                return self.send(topic, value, key, headers, partition, timestamp_ms)
            raise self._not_sent(error, topic, partition) from error
        future = GuardedFuture(inner, session.tracker)
        result = inner._produce_future  # noqa: SLF001 - see _insides
        batch = session.open.get(result)
        if batch is None:
            self._follow(producer, future)
        else:
            batch.futures.append(future)
            if result.is_done:
                session.tracker.settle(batch)
        return future

    def _check_key(self, topic: str, key: Any, headers: Any) -> None:
        if not self._checks_keys:
            return
        try:
            serializer = self._session.producer.config["key_serializer"]
            self._null_keys.check(topic, key, headers, serializer)
        except InvalidRecordKeyError:
            raise
        except Exception:  # noqa: BLE001 - a fault of ours must not fail the send
            _log.exception("the check for a null key failed; the record is sent")

    def _follow(self, producer: Any, future: GuardedFuture) -> None:
        """Begin to follow a batch; a fault in that must not fail the send."""
        try:
            if future.result.is_done or not future.needs_settling:
                self._session.tracker.add(producer, future)
            else:  # the client failed it before it came into any batch
                self._session.tracker.settle_future(future)
        except Exception:  # noqa: BLE001 - a fault of ours must not fail the send
            _log.exception("a record could not be followed; it is sent all the same")

    def _not_sent(self, error: KafkaError, topic: str, partition: int | None) -> Any:
        return errors.translate(
            error,
            message=self._why_blocked(error, topic),
            context={"phase": "enqueue"},
            api="Produce",
            topic=topic,
            partition=partition,
        )

    def _why_blocked(self, error: KafkaError, topic: str) -> str | None:
        """Say which of the causes of a timeout in send() it was."""
        if not isinstance(error, KafkaTimeoutError):
            return None
        limit = self._session.producer.config["max_block_ms"] / 1000
        if not _insides.has_connection(self._session.producer):
            why = "no broker answers: check bootstrap_servers and the network"
        else:
            why = f"the brokers do not know topic {topic}, or not to this client"
        return f"nothing was sent within {limit:g} s (max_block_ms): {why}"

    # --- reports ----------------------------------------------------------------------

    def flush(self, timeout: float | None = None) -> DeliveryReport:
        """Wait until every record has its outcome, and report all since the last time.

        Args:
            timeout: Seconds to wait at most. Default: the client's
                ``delivery_timeout_ms`` and 5 s.

        Returns:
            What became of the records.

        Raises:
            DeliveryFailed: Records failed and nobody has looked at them, or were still
                pending in the end (then also a ``KafkaTimeoutError``).
            CallbackError: A callback of the application has raised.
        """
        self._pass_fork()
        if timeout is None:
            timeout = (
                self._session.producer.config["delivery_timeout_ms"] / 1000
                + FLUSH_MARGIN_S
            )
        return self._report(self._wait(time.monotonic() + timeout))

    def close(
        self, timeout: float | None = None, null_logger: bool = False
    ) -> DeliveryReport:
        """Flush, then close the client, within a bound.

        Args:
            timeout: Seconds to wait at most. Default: 30. What is pending then is given
                up: it is in doubt where it was on its way, else it failed.
            null_logger: As in kafka-python.

        Returns:
            What became of the records since the last report.

        Raises:
            DeliveryFailed: Records failed and nobody has looked at them.
            CallbackError: A callback of the application has raised.
        """
        if self._is_forked():
            return DeliveryReport()
        limit = CLOSE_S if timeout is None else timeout
        deadline = time.monotonic() + limit
        in_callback = _insides.is_sender_thread(self._session.producer)
        if not in_callback:
            self._wait(deadline)
        self._session.recovery.close(max(0.0, deadline - time.monotonic()))
        if self._session.tracker.pending():
            _insides.stop(self._session.producer, STOP_S)
            self._session.tracker.settle_done()
        left = max(STOP_S, deadline - time.monotonic())
        self._close_client(0 if in_callback else left, null_logger)
        session = self._session
        return self._report(session.tracker.pending() + session.recovery.pending())

    def _close_client(self, timeout: float, null_logger: bool) -> None:
        try:
            self._session.producer.close(timeout, null_logger)
        except KafkaTimeoutError as error:
            raise self._not_sent(error, "", None) from error
        finally:
            self.close_view()

    def _wait(self, deadline: float) -> int:
        """Wait for what is on its way, and for what is sent again in consequence.

        Returns:
            How many of these records have no outcome yet. What other threads have sent
            since is not among them.
        """

        def left() -> float:
            return max(0.0, deadline - time.monotonic())

        session = self._session
        while True:
            rounds = session.recovery.rounds
            batches = session.tracker.batches()
            with _insides.flushing(session.producer):
                answered = all(batch.result.wait(left()) for batch in batches)
            session.tracker.settle_done()
            split = any(not batch.result.is_done for batch in batches)
            idle = session.recovery.wait(left())
            repaired = rounds != session.recovery.rounds
            if not (answered and idle and (repaired or split)):
                break
        unsettled = (b for b in batches if not b.result.is_done)
        pending = sum(len(batch.futures) - batch.settled for batch in unsettled)
        return pending + (0 if idle else session.recovery.pending())

    def _report(self, pending: int) -> DeliveryReport:
        report = self._session.ledger.report(pending)
        if report.errors or report.pending:
            raise _delivery_failed(report)
        raised = self._session.ledger.take_callback_error()
        if raised is not None:
            raise errors.make(
                CallbackError,
                f"a callback of the application raised {type(raised).__name__}; the "
                "records themselves were delivered",
                verdict=classify(0),
            ) from raised
        return report

    # --- standing in for the client ------------------------------------------

    @property  # type: ignore[misc]  # object's own can be set, a stand-in's need not
    def __class__(self) -> type:
        """The client's class, so that ``isinstance`` holds."""
        return type(self._session.producer)

    def __getattr__(self, name: str) -> Any:
        """Hand everything else on to the client."""
        if name == "_session":  # not there yet
            raise AttributeError(name)
        return getattr(self._session.producer, name)

    def __dir__(self) -> list[str]:
        """List the client's names."""
        return dir(self._session.producer)

    def __repr__(self) -> str:
        """Show what is guarded."""
        return f"<guarded {self._session.producer!s}>"

    def __enter__(self) -> Self:
        """Enter; leaving closes it."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close, as close() does; an exception of the block goes first."""
        try:
            self.close()
        except (DeliveryFailed, CallbackError) as failure:
            if error is None:
                raise
            error.add_note(f"besides, on closing the producer: {failure}")

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        """Refuse: a connection cannot be moved to another process."""
        raise TypeError(
            "a guarded producer cannot be pickled or copied: build it where it is "
            "used, in the worker itself"
        )

    partitions_for = _passed_on("partitions_for", api="Metadata")
    init_transactions = _passed_on("init_transactions", api="InitProducerId")
    begin_transaction = _passed_on("begin_transaction")
    send_offsets_to_transaction = _passed_on(
        "send_offsets_to_transaction", api="TxnOffsetCommit"
    )
    commit_transaction = _passed_on(
        "commit_transaction", api="EndTxn", context={"phase": "commit"}
    )
    abort_transaction = _passed_on(
        "abort_transaction", api="EndTxn", context={"phase": "abort"}
    )

    # --- forks ---------------------------------------------------------------

    def _is_forked(self) -> bool:
        return self._session.gate == self._in_child

    def _pass_fork(self) -> None:
        if self._is_forked():
            self._in_child()

    def _after_fork(self) -> None:
        """In the child: leave the parent's connections alone."""
        _insides.disown(self._session.producer)
        _PARENTS.append(self._session.producer)
        self._fork_lock = threading.Lock()
        self._session.gate = self._in_child

    def _in_child(self) -> None:
        """Build a producer of the child's own, or say that it must do so."""
        if not self._builder.was_given:
            raise dual(ForkedProducerError, IllegalStateError)(
                "this producer was made before fork(), and its thread is not in this "
                f"process ({os.getpid()}): build it after the fork, or use "
                "guard(factory=KafkaProducer, config={...})",
                client=errors.CLIENT,
            )
        with self._fork_lock:
            if self._is_forked():
                self._begin(self._builder.build())


_LIVE: weakref.WeakSet[GuardedProducer] = weakref.WeakSet()
#: Producers of the parent process, kept so that none is closed by garbage collection.
_PARENTS: list[Any] = []


def _mark_forked() -> None:
    for guarded in list(_LIVE):
        guarded._after_fork()  # noqa: SLF001 - of this very module


os.register_at_fork(after_in_child=_mark_forked)


def _delivery_failed(report: DeliveryReport) -> DeliveryFailed:
    gravest = worst(report.errors)
    theirs = KafkaTimeoutError if report.pending else KafkaError
    error = dual(DeliveryFailed, theirs)(
        DeliveryFailed.describe(report),
        api="Produce",
        client=errors.CLIENT,
        verdict=_verdict_of(report, gravest),
    )
    assert isinstance(error, DeliveryFailed)
    error.report = report
    error.__cause__ = gravest
    return error


def _verdict_of(report: DeliveryReport, gravest: Any) -> Verdict:
    """Judge a report by the gravest of what it holds; pending records are in doubt."""
    verdicts: list[Verdict] = [gravest.verdict] if gravest else []
    if report.pending:
        verdicts.append(classify(KafkaTimeoutError(), api="Produce"))
    order = list(Action)
    return max(verdicts, key=lambda verdict: order.index(verdict.action))


def wrap(
    producer: Any,
    *,
    factory: Callable[..., Any] | None,
    config: Mapping[str, Any] | None,
    policy: Any,
    topics: Mapping[str, TopicFacts] | None,
    **_: Any,
) -> GuardedProducer:
    """Guard a producer, as :func:`kafkaguard.guard` says."""
    settings = load_policy(policy)
    if settings.on_reject != "raise":
        raise errors.make(
            ClientConfigurationError,
            f"policy {settings.name}: a guarded producer of kafka-python raises what "
            f"is rejected; on_reject {settings.on_reject!r} is for pipelines and Spark",
        )
    return GuardedProducer(
        producer,
        Builder(factory, config),
        topics=topics,
        null_key=settings.null_key,
        disguised_null_key=settings.disguised_null_key,
        rescue=settings.rescue,
        resend_in_doubt=settings.resend_in_doubt,
    )
