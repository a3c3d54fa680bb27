"""Protocols that a client's shell and its driver implement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from kafkaguard._delivery.dialects import Dialect
    from kafkaguard._delivery.facts import (
        Answer,
        Batch,
        Place,
        Raw,
        Refusal,
        Traits,
    )
    from kafkaguard._delivery.records import Record
    from kafkaguard._errors import KafkaGuardError
    from kafkaguard._errors.base import Verdict
    from kafkaguard._retries.machine import CallContext, Ruling

Rescue = Literal["ordered", "any_order", "never"]


class ClientErrors(Protocol):
    """Makes all errors of a client. No I/O."""

    @property
    def client(self) -> str:
        """The name of the client library."""

    @property
    def conditions(self) -> Mapping[type[KafkaGuardError], type[BaseException]]:
        """The client's classes for conditions that have no code."""

    @property
    def given_up(self) -> int | type[KafkaGuardError]:
        """The client's code, or a condition: it gave up a record without an answer."""

    def make(
        self,
        error: int | type[KafkaGuardError],
        message: str | None = None,
        **place: Any,
    ) -> KafkaGuardError:
        """Make an error from a code or from kafkaguard's class, of both classes."""

    def translate(self, original: Any, **known: Any) -> KafkaGuardError:
        """Make kafkaguard's error from what the client raised or reported."""


class LetterLimit(Protocol):
    """``dead_letter.limit`` of a policy."""

    @property
    def ratio(self) -> float | None:
        """The largest share of records that may become dead letters."""

    @property
    def consecutive(self) -> int | None:
        """The most dead letters in a row."""


class DeadLetters(Protocol):
    """``dead_letter`` of a policy."""

    @property
    def headers(self) -> Dialect:
        """The dialect of the headers that contain the reason."""

    @property
    def limit(self) -> LetterLimit | None:
        """The limit, above which the error is raised instead; None: no limit."""

    def topic_for(self, topic: str) -> str:
        """Return the dead-letter topic of a topic."""


class Policy(Protocol):
    """What the machine needs from a policy."""

    @property
    def name(self) -> str:
        """The name, for logs and events."""

    @property
    def policy_id(self) -> str:
        """The hash of the policy's content, for events."""

    @property
    def rescue(self) -> Rescue:
        """Whether records that failed only because of their batch are sent again."""

    @property
    def dead_letter(self) -> DeadLetters:
        """Where rejected records go."""

    def ruling(
        self, verdict: Verdict, context: CallContext, error: Any = None
    ) -> Ruling:
        """Return what the policy says about a failure."""


class FactSink(Protocol):
    """Takes what a shell reports, in any thread. Its methods raise nothing."""

    def began(self, batch: Batch) -> None:
        """The client has begun a batch, which it cannot have sent yet."""

    def accepted(self, batch: Batch) -> None:
        """The broker has accepted a batch."""

    def failed(self, batch: Batch, refusals: Sequence[Refusal]) -> None:
        """A batch has failed; there is one refusal for each failed record."""

    def died(self, cause: BaseException, place: Place | None) -> None:
        """The client has died; reported before the batch that killed it has failed.

        Args:
            cause: Why it has died.
            place: The partition of the batch that killed it, if that is known.
        """

    def fault(self, what: str, error: BaseException) -> None:
        """Code of kafkaguard has raised an exception, for the log."""


class Shell(Protocol):
    """A client's producer, as any driver sees it: it translates, and decides nothing.

    No method that waits or calls the client is called while the driver holds its lock.
    Each method returns within the time that it is given. Those that return ``Any`` may
    be coroutines.
    """

    traits: Traits
    errors: ClientErrors

    def listen(self, facts: FactSink) -> None:
        """Report each batch from now on, in any thread."""

    def attach(self, record: Record) -> None:
        """Let the application's future of a failed record wait for the guard.

        Called under the lock of the driver, once for each record, which may have its
        outcome already.
        """

    def settle(self, record: Record) -> None:
        """Complete the application's future of a record that has its outcome.

        Called under the lock of the driver, after ``attach``.
        """

    def send_now(self) -> None:
        """Send the buffered records without lingering."""

    def size_alone(self, raw: Raw) -> int | None:
        """Return the compressed bytes of a batch with only this record. No I/O.

        None if the batch is compressed and its size cannot be known.
        """

    def take_back(self, behind: Batch) -> None:
        """Fail the batches that wait behind a failed batch and were never sent.

        Called only if ``traits.takes_back`` is set.
        """

    def fail_batch(self, batch: Batch) -> None:
        """Fail a batch; if it was not sent yet, it is never sent."""

    def shut(self) -> None:
        """Accept no more records."""

    def answers(self, batches: Sequence[Batch]) -> Mapping[Batch, Answer]:
        """Return the late answers to batches that were given up."""

    def hand_over(self, record: Record, deadline: float) -> Any:
        """Give a record to the client despite all holds, and return its token.

        Waits for the topic, or for room, until ``deadline`` (monotonic seconds).

        Raises:
            Exception: The client did not accept the record.
        """

    def ask_size_limit(self, topic: str) -> Any:
        """Look up ``max.message.bytes``: a :data:`SizeAnswer`, within a few seconds.

        The error is returned if the topic does not exist, and no broker creates it.
        """

    def hear_out(self, until: float) -> Any:
        """Wait for the answers to what was sent, until monotonic seconds."""

    def stop(self) -> Any:
        """Stop the client within about a second; its pending records fail."""

    def put_successor_in_use(self, locking_out: Batch | None) -> Any:
        """Build a successor and use it; then ``listen`` reports its batches.

        Raises:
            Exception: It cannot be built; see ``may_build_later``.
        """

    def retire(self) -> Any:
        """Close the clients that were replaced; this may take long."""

    def may_build_later(self, error: BaseException) -> bool:
        """Return whether building a successor may succeed later, after this error."""


class ProducerShell(Shell, Protocol):
    """A client's producer, as the thread driver sees it: its methods block."""

    def sending_now(self) -> AbstractContextManager[None]:
        """Send everything without lingering while this context is open."""

    def delivered(self) -> Mapping[Batch, int]:
        """Count the delivered records of batches that have not ended, if it knows."""

    def await_batches(self, batches: Sequence[Batch], deadline: float) -> None:
        """Wait until the client has reported batches, or until monotonic seconds."""

    def report_early(self, token: Hashable) -> None:
        """Report at once the batch of a record whose failure the client knows."""

    def is_own_thread(self) -> bool:
        """Return whether this is called in the client's own thread."""

    def close(self, within: float) -> None:
        """Close the client within seconds."""


class AwaitedShell(Shell, Protocol):
    """A client's producer, as the task driver sees it: what waits is a coroutine."""

    def note_seen(self) -> None:
        """Mark the failures that the application has checked."""

    def note_reported(self) -> None:
        """Mark all failures until now as reported."""
