"""aiokafka's batches as facts for the delivery machine, with the errors of records.

aiokafka uses Produce up to version 7, whose answers name no records. So a broker
refuses the whole batch, and the machine must find out which record is to blame.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol

from aiokafka.errors import (
    BrokerResponseError,
    KafkaError,
    KafkaTimeoutError,
    ProducerFenced,
    for_code,
)

from kafkaguard._delivery.facts import Answer, Batch, Place, Refusal
from kafkaguard._delivery.judging import may_be_written
from kafkaguard_adapters.aiokafka._private.producing import reading

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from kafkaguard._delivery.facts import Earlier, Raw
    from kafkaguard._delivery.records import Record
    from kafkaguard._errors import KafkaGuardError

#: What the client makes of a broker's answer; ProducerFenced is that for 47.
_ANSWERS = (BrokerResponseError, ProducerFenced)


class TakenBackError(KafkaError):  # type: ignore[misc]  # it comes without types
    """The guard took back a batch before the client sent it."""


class Owner(Protocol):
    """The methods of the shell that its batches call."""

    def batch_accepted(self, batch: SourceBatch) -> None:
        """The broker accepted a batch."""

    def batch_failed(self, batch: SourceBatch, cause: BaseException) -> None:
        """The client has given up a batch."""

    async def wait_for_room(self, topic: str) -> None:
        """Wait until a record that waited for room may be added."""


class Whole:
    """The one outcome of a batch that the application has built itself.

    Args:
        future: The application's future for the batch.

    Attributes:
        future: See above.
        records: The records that have failed and are settled.
        unsettled: How many failed records are not settled yet.
    """

    def __init__(self, future: asyncio.Future[Any]) -> None:
        self.future = future
        self.records: list[Record] = []
        self.unsettled = 0


class Slot:
    """The token of a record that has no future of its own."""

    __slots__ = ("whole",)

    def __init__(self, whole: Whole | None) -> None:
        self.whole = whole


class SourceBatch(Batch):
    """A batch of an aiokafka producer.

    Args:
        owner: Receives the batch's outcome.
        producer: The producer that has the batch.
        source: The client's batch.
        position: As for any batch.
        due: As for any batch.

    Attributes:
        before: How many records were in it before the producer was guarded.
        whole: The outcome, if the application has built the batch itself.
        requests: How many requests had this batch.
        late: The answer that came after the batch had been given up.
    """

    __slots__ = (
        "_code",
        "_earlier",
        "_is_on_its_way",
        "_no",
        "_owner",
        "_slots",
        "before",
        "late",
        "producer",
        "requests",
        "source",
        "whole",
    )

    def __init__(
        self,
        owner: Owner,
        producer: Any,
        source: Any,
        position: tuple[int, ...],
        due: float,
    ) -> None:
        super().__init__(Place(*source.tp), position, due)
        self._owner = owner
        self.producer = producer
        self.source = source
        self.before = 0
        self.whole: Whole | None = None
        self.requests = 0
        self.late: Answer | None = None
        #: The code of the last answer; None: the last request has no answer.
        self._code: int | None = None
        #: The last code that says that the batch was not written.
        self._no: int | None = None
        self._is_on_its_way = False
        #: The end of an earlier request that may have written it; None: there is none.
        self._earlier: Earlier | None = None
        self._slots: list[Slot] = []

    # --- facts for the machine --------------------------------------------------------

    @property
    def count(self) -> int:
        """How many records the batch has."""
        return int(self.source.record_count) - self.before

    def tokens(self) -> Sequence[Any]:
        """Return the future of each record, or a ``Slot`` if it has none."""
        futures = reading.futures_of(self.source)
        while len(self._slots) < futures.count(None):
            self._slots.append(Slot(self.whole))
        slots = iter(self._slots)
        tokens = [next(slots) if each is None else each for each in futures]
        return tokens[self.before :]

    def keys(self) -> Sequence[bytes | None] | None:
        """Return each record's key; None while records can be added to the batch."""
        raws = reading.records_of(self.source)
        return None if raws is None else [raw.key for raw in raws[self.before :]]

    def raws(self) -> Sequence[Raw]:
        """Return each record's bytes."""
        return reading.final_records_of(self.source)[self.before :]

    # --- reports of the client --------------------------------------------------------

    def went(self) -> None:
        """Count a request that has this batch."""
        self._keep_earlier()
        self._code, self._is_on_its_way = None, True
        self.requests += 1

    def was_answered(self, code: int) -> None:
        """Keep the answer to a request."""
        self._code = code
        if not may_be_written(code):
            self._no = code

    def was_not_sent(self) -> None:
        """Do not count a request that could not be sent."""
        self.requests -= 1
        self._is_on_its_way = False

    def waits_again(self) -> None:
        """Handle a batch that waits for its next request."""
        self._keep_earlier()
        self._is_on_its_way = False

    def _keep_earlier(self) -> None:
        if self._earlier is None and self.may_be_written():
            self._earlier = "lost" if self._code is None else self._code

    def was_accepted(self, base_offset: int | None) -> None:
        """Report that the broker accepted the batch."""
        if self.ended is not None:
            self.late = Answer(-1 if base_offset is None else base_offset + self.before)
            return
        if base_offset is not None:
            self.base_offset = base_offset + self.before
        self._owner.batch_accepted(self)

    def has_failed(self, error: BaseException) -> None:
        """Report that the client has given up the batch."""
        if self.ended is not None:
            self.late = Answer(refusals=self.refusals(error))
            return
        self._owner.batch_failed(self, error)

    async def room(self) -> None:
        """Let a record that waited for room also wait for a hold of its topic."""
        await self._owner.wait_for_room(self.place.topic)

    # --- conclusions ------------------------------------------------------------------

    @property
    def is_on_its_way(self) -> bool:
        """Whether the batch is in flight: its last request has no answer."""
        return self._is_on_its_way and self._code is None

    @property
    def was_answered_at_last(self) -> bool:
        """Whether the batch's last request was answered."""
        return self._is_on_its_way and self._code is not None

    @property
    def waits(self) -> bool:
        """Whether the batch waits in a client that is alive, and was not written.

        aiokafka lets no batch of an idempotent producer expire.
        """
        task = reading.sender_task(self.producer)
        is_well = task is not None and not task.done()
        return is_well and not (self._is_on_its_way or self.may_be_written())

    def may_be_written(self) -> bool:
        """Return whether any request may have written the batch."""
        if self._earlier is not None or self.is_on_its_way:
            return True
        return self._code is not None and may_be_written(self._code)

    def refusals(self, cause: BaseException) -> list[Refusal]:
        """Return why each record has failed.

        Args:
            cause: The exception that the client gives as the reason.
        """
        raws = self.raws()
        # A batch that waits for its retry after an answer may also be given up.
        is_answer = self.was_answered_at_last and isinstance(cause, _ANSWERS)
        how = self._make_answered() if is_answer else self._make_lost(cause)
        if how["sent"] == "never" and how["expired"] and self._no is not None:
            # Each of its requests was refused: it counts as refused by the last answer.
            cause, how = for_code(self._no)(), self._make_answered()
        return [
            Refusal(
                token=token,
                index=index,
                cause=cause,
                first_try=self.requests == 1 and self._earlier is None,
                null_key=raw.key is None,
                **how,
            )
            for index, (token, raw) in enumerate(zip(self.tokens(), raws, strict=True))
        ]

    def _make_answered(self) -> dict[str, Any]:
        return {
            "blame": "record" if self.source.record_count == 1 else "unknown",
            "sent": "answered",
            "was_unanswered": self._earlier is not None,
            "earlier": self._earlier,
        }

    def _make_lost(self, cause: BaseException) -> dict[str, Any]:
        sent: Literal["never", "maybe"] = "maybe" if self.may_be_written() else "never"
        expired = isinstance(cause, KafkaTimeoutError) or self._has_expired(cause)
        return {"blame": "client", "sent": sent, "expired": expired}

    def _has_expired(self, cause: BaseException) -> bool:
        """Return whether the client has given up the batch, while its sender runs."""
        task = reading.sender_task(self.producer)
        is_alive = task is not None and not task.done()
        return is_alive and not isinstance(cause, TakenBackError)


def expired(refusals: Sequence[Refusal]) -> bool:
    """Return whether records have expired."""
    return any(refusal.expired for refusal in refusals)


def settle_whole(whole: Whole, found: Any, error: KafkaGuardError | None) -> None:
    """Settle the future of a batch that the application has built itself."""
    if whole.future.done():
        return
    if error is None:
        whole.future.set_result(found)
    else:
        whole.future.set_exception(error)
