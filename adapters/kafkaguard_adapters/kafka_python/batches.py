"""kafka-python's batches as facts for the delivery machine, with record errors."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from kafka.errors import (
    BrokerResponseError,
    IncompatibleBrokerVersion,
    KafkaError,
    KafkaTimeoutError,
    NodeNotReadyError,
)

from kafkaguard._delivery.facts import Batch, Place, Refusal
from kafkaguard._delivery.judging import NO_PRODUCER_ID, ends_all, may_be_written
from kafkaguard._errors import ClientConfigurationError, for_code
from kafkaguard_adapters.kafka_python._private import reading
from kafkaguard_adapters.kafka_python.errors import errors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkaguard._delivery.facts import Earlier, Raw


#: Seconds within which a record that failed at once must have its outcome.
_SOON_S = 10.0


class SourceBatch(Batch):
    """A batch of a kafka-python producer.

    Args:
        producer: The producer that holds it.
        source: The client's batch.
        position: As for :class:`Batch`.
        due: As for :class:`Batch`.
        parent: As for :class:`Batch`.

    Attributes:
        result: The client's future of the whole batch.
        inners: The client's futures of its records; this list may still grow.
        before: How many records were in the batch before the producer was guarded.
        in_parts: How many of its records are in new batches, after it was split.
        earlier: The end of an earlier attempt that may have written it; None: no
            attempt has, before the last one.
    """

    __slots__ = (
        "_no",
        "_unwritten_at",
        "before",
        "earlier",
        "in_parts",
        "inners",
        "producer",
        "result",
        "source",
    )

    def __init__(
        self,
        producer: Any,
        source: Any,
        position: tuple[int, ...],
        due: float,
        parent: Batch | None = None,
    ) -> None:
        super().__init__(Place(*source.topic_partition), position, due, parent)
        self.producer = producer
        self.source = source
        self.result = source.produce_future
        self.inners = reading.records_in(source)
        self.before = 0
        self.in_parts = 0
        self.earlier: Earlier | None = getattr(parent, "earlier", None)
        #: The last answer, if it says that the batch was not written.
        self._no: BrokerResponseError | None = None
        #: When the client began the last attempt that certainly did not write it.
        self._unwritten_at: float | None = None

    @property
    def count(self) -> int:
        """The number of records that the guard tracks."""
        return len(self.inners) - self.before

    def tokens(self) -> Sequence[Any]:
        """Return the client's futures of the records."""
        return self.inners[self.before :]

    def keys(self) -> Sequence[bytes | None] | None:
        """Return each record's key; None while the batch is open for more."""
        raws = self.raws()
        return None if raws is None else [raw.key for raw in raws]

    def raws(self) -> Sequence[Raw] | None:
        """Return each record's bytes; None while the batch is open for more."""
        raws = reading.records_of(self.source)
        return None if raws is None else raws[self.before :]

    def was_in_flight(self) -> bool:
        """Return whether the client gave it up in flight; an answer may still come."""
        return (
            reading.was_given_up(self.result)
            and reading.was_sent(self.source)
            and not reading.was_held_back(self.producer, self.source)
        )

    def is_tried_again(self, cause: BaseException, *, answered: bool) -> None:
        """Handle an attempt that has failed, after which the client tries again.

        Args:
            cause: The exception of the attempt.
            answered: Whether a broker has answered it.
        """
        if isinstance(cause, NodeNotReadyError):  # nothing was sent
            self._unwritten_at = reading.drained_at(self.source)
        elif self.earlier is None and not answered:
            self.earlier = "lost"
        elif self.earlier is None and isinstance(cause, BrokerResponseError):
            if may_be_written(cause.errno):
                self.earlier = cause.errno
            self._no, self._unwritten_at = cause, reading.drained_at(self.source)

    def refusals(self) -> list[Refusal]:
        """Return the refusal of each record."""
        error_at = self.result.value[2]
        return [
            self._refusal(
                index, inner, inner.exception or error_at(index + self.before)
            )
            for index, inner in enumerate(self.tokens())
        ]

    def late_refusals(self, error_at: Callable[[int], BaseException]) -> list[Refusal]:
        """Return the refusal of each record, from an answer that came too late.

        Args:
            error_at: Returns the exception of a record, by its index.
        """
        return [
            self._make_answered(index, inner, error_at(index + self.before), error_at)
            for index, inner in enumerate(self.tokens())
        ]

    def _refusal(self, index: int, inner: Any, cause: BaseException) -> Refusal:
        if isinstance(cause, KafkaTimeoutError):
            no = self._no
            if no is None or self._may_have_left():
                return self._make_unanswered(index, inner, cause, expired=True)
            return self._make_answered(index, inner, no, lambda _: no)
        if reading.was_given_up(self.result):
            return self._make_unanswered(index, inner, cause)
        return self._make_answered(index, inner, cause, self.result.value[2])

    def _make_unanswered(
        self, index: int, inner: Any, cause: BaseException, *, expired: bool = False
    ) -> Refusal:
        return Refusal(
            token=inner,
            index=index,
            cause=reason_of(cause, self.producer),
            blame="client",
            sent="maybe" if self._may_have_left() else "never",
            first_try=reading.is_first_try(self.source),
            expired=expired,
            null_key=reading.key_is_null(inner),
        )

    def _may_have_left(self) -> bool:
        # A part of a batch that was split was not sent, but maybe the whole batch was.
        if self.earlier is not None:
            return True
        if reading.drained_at(self.source) == self._unwritten_at:
            return False
        return reading.was_sent(self.source) and not reading.was_held_back(
            self.producer, self.source
        )

    def _make_answered(
        self,
        index: int,
        inner: Any,
        cause: BaseException,
        error_at: Callable[[int], BaseException],
    ) -> Refusal:
        in_source = index + self.before
        is_mate = type(cause) is KafkaError  # a record that record_errors do not name
        is_answer = is_mate or isinstance(cause, BrokerResponseError)
        if is_mate:
            blame = "mate"
        elif error_at(in_source) is not error_at(in_source):
            # kafka-python makes a new exception at each call for a record that
            # record_errors name.
            blame = "record"
        else:
            blame = "batch"
        return Refusal(
            token=inner,
            index=index,
            cause=cause,
            blame=blame,  # type: ignore[arg-type]  # one of three literals
            sent="answered" if is_answer else "maybe",  # or the connection broke
            first_try=reading.is_first_try(self.source),
            was_unanswered=self.earlier is not None,
            earlier=self.earlier,
            null_key=reading.key_is_null(inner),
        )


class LoneRecord(Batch):
    """A record that the client failed before it was in any batch.

    Args:
        inner: The client's future.
        raw: The record's bytes, or None.
    """

    __slots__ = ("_inner", "_raw")

    def __init__(self, inner: Any, raw: Raw | None) -> None:
        place = Place(*reading.result_of(inner).topic_partition)
        super().__init__(place, (), time.monotonic() + _SOON_S)
        self._inner = inner
        self._raw = raw

    @property
    def count(self) -> int:
        """The number of records: 1."""
        return 1

    def tokens(self) -> Sequence[Any]:
        """Return the client's future."""
        return (self._inner,)

    def keys(self) -> Sequence[bytes | None] | None:
        """Return the record's key; None if its bytes are not known."""
        return None if self._raw is None else (self._raw.key,)

    def raws(self) -> Sequence[Raw] | None:
        """Return the record's bytes; None if they are not known."""
        return None if self._raw is None else (self._raw,)

    def refusals(self) -> list[Refusal]:
        """Return the refusal of the record."""
        return [
            Refusal(
                token=self._inner,
                index=0,
                cause=self._inner.exception,
                blame="record",
                sent="never",
                null_key=reading.key_is_null(self._inner),
            )
        ]


def reason_of(error: BaseException, producer: Any) -> BaseException:
    """Return why a producer has died or given up a batch, as far as kafka-python knows.

    A broker's answer may be hidden in a text. If the brokers gave the producer no id,
    the result is a ``ClientConfigurationError``, because no new producer gets one. If
    it had an id, and was refused a new epoch, a new producer may get one.
    """
    refusal = reading.refusal_of_id(error)
    if refusal is None or ends_all(refusal) or reading.has_id(producer):
        return reading.unwrapped(error)
    id_error = errors.make(
        ClientConfigurationError,
        f"the brokers gave the producer no id (InitProducerId: {_name(refusal)}), and "
        "an idempotent producer needs one; nothing was sent. Set "
        "enable_idempotence=False, or connect to brokers that support InitProducerId",
        verdict=NO_PRODUCER_ID,
    )
    id_error.__cause__ = error
    return id_error


def _name(refusal: BaseException) -> str:
    """Return the name and the code of a broker's answer."""
    if isinstance(refusal, IncompatibleBrokerVersion):
        return "not offered"
    code = getattr(refusal, "errno", -1)
    return f"{for_code(code).name} ({code})"
