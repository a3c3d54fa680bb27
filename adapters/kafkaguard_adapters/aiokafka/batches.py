"""aiokafka's batches as facts for the delivery machine, with the errors of records.

aiokafka speaks Produce up to version 7, whose answers name no records: what a broker
refuses is the whole batch, and who is to blame is found out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol

from aiokafka.errors import KafkaError, KafkaTimeoutError

from kafkaguard._delivery.facts import Answer, Batch, Place, Refusal
from kafkaguard._verdicts.classification import classify
from kafkaguard_adapters.aiokafka._private.producing import reading

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from kafkaguard._delivery.facts import Raw
    from kafkaguard._delivery.records import Record
    from kafkaguard.errors import KafkaGuardError


class TakenBackError(KafkaError):  # type: ignore[misc]  # it comes without types
    """A batch was taken from the client again before it was sent."""


class Owner(Protocol):
    """The shell, as its batches see it."""

    def batch_accepted(self, batch: SourceBatch) -> None:
        """The broker took all of a batch."""

    def batch_failed(self, batch: SourceBatch, cause: BaseException) -> None:
        """The client has given a batch up."""

    async def wait_for_room(self, topic: str) -> None:
        """Wait until a record that waited for room may go on."""


class Whole:
    """The one outcome of a batch that the application has made itself.

    Args:
        future: The application's.

    Attributes:
        records: Those of its records that have failed and are settled.
    """

    def __init__(self, future: asyncio.Future[Any]) -> None:
        self.future = future
        self.records: list[Record] = []
        self.left = 0


class Slot:
    """What stands for a record of such a batch, which has no future of its own."""

    __slots__ = ("whole",)

    def __init__(self, whole: Whole | None) -> None:
        self.whole = whole


class SourceBatch(Batch):
    """A batch of an aiokafka producer.

    Args:
        owner: Is told what comes of it.
        producer: The producer that holds it.
        source: The client's batch.
        position: As for any batch.
        due: As for any batch.

    Attributes:
        before: How many records came into it before the producer was guarded.
        whole: Its outcome, if the application has made it itself.
        attempts: How often it was in a request.
        late: What was heard after it had been given up.
    """

    __slots__ = (
        "_code",
        "_is_on_its_way",
        "_owner",
        "_slots",
        "_was_unanswered",
        "attempts",
        "before",
        "late",
        "producer",
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
        self.attempts = 0
        self.late: Answer | None = None
        #: What the last request was answered; None: it was not.
        self._code: int | None = None
        self._is_on_its_way = False
        #: An earlier request may have written it.
        self._was_unanswered = False
        self._slots: list[Slot] = []

    # --- what the machine asks --------------------------------------------------------

    @property
    def count(self) -> int:
        """How many records it has."""
        return int(self.source.record_count) - self.before

    def tokens(self) -> Sequence[Any]:
        """Return the client's futures of its records, or what stands for them."""
        futures = reading.futures_of(self.source)
        while len(self._slots) < futures.count(None):
            self._slots.append(Slot(self.whole))
        slots = iter(self._slots)
        tokens = [next(slots) if each is None else each for each in futures]
        return tokens[self.before :]

    def keys(self) -> Sequence[bytes | None] | None:
        """Return each record's key; None while the batch is open for more."""
        raws = reading.records_of(self.source)
        return None if raws is None else [raw.key for raw in raws[self.before :]]

    def raws(self) -> Sequence[Raw]:
        """Return each record's bytes."""
        return reading.final_records_of(self.source)[self.before :]

    # --- what the client tells --------------------------------------------------------

    def went(self) -> None:
        """Record a request."""
        self._was_unanswered = self.may_be_written()
        self._code, self._is_on_its_way = None, True
        self.attempts += 1

    def was_answered(self, code: int) -> None:
        """Record an answer."""
        self._code = code

    def was_not_sent(self) -> None:
        """Record that a request could not be sent."""
        self.attempts -= 1
        self._is_on_its_way = False

    def waits_again(self) -> None:
        """Record that it waits for its next request."""
        self._was_unanswered = self.may_be_written()
        self._is_on_its_way = False

    def was_accepted(self, base_offset: int | None) -> None:
        """Tell that the broker took it."""
        if self.ended is not None:
            self.late = Answer(-1 if base_offset is None else base_offset + self.before)
            return
        if base_offset is not None:
            self.base_offset = base_offset + self.before
        self._owner.batch_accepted(self)

    def has_failed(self, error: BaseException) -> None:
        """Tell that the client has given it up."""
        if self.ended is not None:
            self.late = Answer(refusals=self.refusals(error))
            return
        self._owner.batch_failed(self, error)

    async def room(self) -> None:
        """Let a record that waited for room wait for what is sent again, too."""
        await self._owner.wait_for_room(self.place.topic)

    # --- what that means --------------------------------------------------------------

    @property
    def is_on_its_way(self) -> bool:
        """Whether a request with it was sent that has no answer."""
        return self._is_on_its_way and self._code is None

    @property
    def was_answered_at_last(self) -> bool:
        """Whether its last request was answered."""
        return self._is_on_its_way and self._code is not None

    @property
    def waits(self) -> bool:
        """Whether no request has taken it away; an idempotent one never expires."""
        task = reading.sender_task(self.producer)
        is_well = task is not None and not task.done()
        return is_well and not (self._is_on_its_way or self.may_be_written())

    def may_be_written(self) -> bool:
        """Return whether any of its requests may have written it."""
        if self._was_unanswered or self.is_on_its_way:
            return True
        return self._code is not None and _may_be_written(self._code)

    def refusals(self, cause: BaseException) -> list[Refusal]:
        """Say why each of its records has failed.

        Args:
            cause: What the client gives as the reason.
        """
        raws = self.raws()
        how = self._answered() if self.was_answered_at_last else self._lost(cause)
        return [
            Refusal(
                token=token,
                index=index,
                cause=cause,
                first_try=self.attempts == 1 and not self._was_unanswered,
                null_key=raw.key is None,
                **how,
            )
            for index, (token, raw) in enumerate(zip(self.tokens(), raws, strict=True))
        ]

    def _answered(self) -> dict[str, Any]:
        return {
            "blame": "record" if self.source.record_count == 1 else "unknown",
            "sent": "answered",
            "was_unanswered": self._was_unanswered,
        }

    def _lost(self, cause: BaseException) -> dict[str, Any]:
        sent: Literal["never", "maybe"] = "maybe" if self.may_be_written() else "never"
        expired = isinstance(cause, KafkaTimeoutError) or self._has_expired(cause)
        return {"blame": "client", "sent": sent, "expired": expired}

    def _has_expired(self, cause: BaseException) -> bool:
        """Return whether the client has given it up, while its sender goes on."""
        task = reading.sender_task(self.producer)
        is_alive = task is not None and not task.done()
        return is_alive and not isinstance(cause, TakenBackError)


def expired(refusals: Sequence[Refusal]) -> bool:
    """Return whether records failed since their time was over."""
    return any(refusal.expired for refusal in refusals)


def settle_whole(whole: Whole, found: Any, error: KafkaGuardError | None) -> None:
    """Settle the future of a batch that the application has made itself."""
    if whole.future.done():
        return
    if error is None:
        whole.future.set_result(found)
    else:
        whole.future.set_exception(error)


def _may_be_written(code: int) -> bool:
    return classify(code, api="Produce", idempotent=False).written != "no"
