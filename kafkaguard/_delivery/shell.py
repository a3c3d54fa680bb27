"""Protocols that a client's shell and its driver implement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from kafkaguard._delivery.dialects import Dialect
    from kafkaguard._delivery.facts import Answer, Batch, Place, Raw, Refusal, Traits
    from kafkaguard._delivery.records import Record
    from kafkaguard._retries.machine import CallContext, Ruling
    from kafkaguard._verdicts.verdict import Verdict
    from kafkaguard.errors import KafkaGuardError

Rescue = Literal["ordered", "any_order", "never"]


class ClientErrors(Protocol):
    """The one door through which a client's errors are made. Pure."""

    @property
    def client(self) -> str:
        """The library."""

    @property
    def conditions(self) -> Mapping[type[KafkaGuardError], type[BaseException]]:
        """The client's classes for conditions that have no code."""

    def make(
        self,
        error: int | type[KafkaGuardError],
        message: str | None = None,
        **place: Any,
    ) -> KafkaGuardError:
        """Make an error of a code or a class of ours, also of the client's class."""

    def translate(self, original: Any, **known: Any) -> KafkaGuardError:
        """Turn what the client raised or reported into one that is ours as well."""


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
        """Whose headers say why."""

    @property
    def limit(self) -> LetterLimit | None:
        """Beyond what records are raised instead; None: there is no bound."""

    def topic_for(self, topic: str) -> str:
        """Return the dead-letter topic of a topic."""


class Policy(Protocol):
    """What the machine asks a policy."""

    @property
    def name(self) -> str:
        """For logs and events."""

    @property
    def policy_id(self) -> str:
        """The hash of its content, for events."""

    @property
    def rescue(self) -> Rescue:
        """Whether records are sent again that failed only with their batch."""

    @property
    def dead_letter(self) -> DeadLetters:
        """Where rejected records go."""

    def ruling(
        self, verdict: Verdict, context: CallContext, error: Any = None
    ) -> Ruling:
        """Return what it says about a failure."""


class Shell(Protocol):
    """A client's producer, as any driver sees it. It translates and decides nothing.

    No method is called with a driver's lock held, and each is bounded by the time that
    it is given.
    """

    traits: Traits
    errors: ClientErrors

    def listen(
        self,
        began: Callable[[Batch], object],
        accepted: Callable[[Batch], object],
        failed: Callable[[Batch, Sequence[Refusal]], object],
        died: Callable[[BaseException, Place | None], object],
        fault: Callable[[str, BaseException], object],
    ) -> None:
        """Tell of each batch from now on, in any thread.

        ``began`` comes before the batch can be sent; A bug of the guard in it must not
        fail the send. Where a batch kills its client, ``died`` comes before its
        ``failed``. ``fault`` is told what of ours went wrong, for the log.
        """

    def send_now(self) -> None:
        """Send what was taken in without lingering."""

    def size_alone(self, raw: Raw) -> int | None:
        """Return the bytes of a batch with this record only, compressed. No I/O.

        None: it is compressed, and that size cannot be known.
        """

    def take_back(self, behind: Batch) -> None:
        """Fail what waits behind a batch that has failed, and was never sent.

        Asked for where ``traits.takes_back`` says that the client can do it.
        """

    def give_up(self, batch: Batch) -> None:
        """Fail a batch, of which nothing more is sent if it was not sent yet."""

    def shut(self) -> None:
        """Record nothing more."""

    def answers(self, batches: Sequence[Batch]) -> Mapping[Batch, Answer]:
        """Say what was heard of batches after they were given up."""

    def may_pass(self, error: BaseException) -> bool:
        """Return whether building a successor may succeed later."""


class ProducerShell(Shell, Protocol):
    """A client's producer, as the thread driver sees it: its methods block."""

    def hand_over(self, record: Record, deadline: float) -> Hashable:
        """Give a record to the client, past every hold; return its token.

        Waits for the topic, or for room, until ``deadline`` (monotonic seconds).

        Raises:
            Exception: The client did not take it.
        """

    def sending_now(self) -> AbstractContextManager[None]:
        """Send everything without lingering, for the time of a wait."""

    def await_batches(self, batches: Sequence[Batch], deadline: float) -> None:
        """Wait for the client's word about batches, until monotonic seconds."""

    def look(self, token: Hashable) -> None:
        """Tell at once of the batch of a record that its client has failed."""

    def attach(self, token: Any, record: Record) -> None:
        """Have the application's future find a record; called with the lock held."""

    def is_own_thread(self) -> bool:
        """Return whether the caller is the client's own thread."""

    def ask_limit(self, topic: str) -> int | None:
        """Look up ``max.message.bytes``; None if it is unknown after a few seconds."""

    def hear_out(self, until: float) -> None:
        """Wait for the answers to what was sent, until monotonic seconds."""

    def stop(self) -> None:
        """End the client, within about a second; what it holds fails."""

    def succeed(self, locking_out: Batch | None) -> None:
        """Build a successor and put it in use; then ``listen`` is about that one.

        Raises:
            Exception: It cannot be built; ``may_pass`` tells whether later.
        """

    def retire(self) -> None:
        """Close the clients that have had a successor; that may take long."""

    def close(self, within: float) -> None:
        """Close the client within seconds."""


class AwaitedShell(Shell, Protocol):
    """A client's producer, as the task driver sees it: what takes long is awaited.

    Its methods do what those of :class:`ProducerShell` do.
    """

    async def hand_over(self, record: Record, deadline: float) -> Hashable:
        """Give a record to the client, past every hold; return its token.

        Raises:
            Exception: The client did not take it.
        """

    def settle(self, record: Record) -> None:
        """Settle the application's future of a record, which has its outcome."""

    def note_seen(self) -> None:
        """Record the failures that the application has looked at."""

    def note_told(self) -> None:
        """Record that the failures until now were told in a report."""

    async def ask_limit(self, topic: str) -> int | None:
        """Look up ``max.message.bytes``; None if it is unknown after a few seconds."""

    async def hear_out(self, until: float) -> None:
        """Wait for the answers to what was sent, until monotonic seconds."""

    async def stop(self) -> None:
        """End the client, within about a second; what it holds fails."""

    async def succeed(self, locking_out: Batch | None) -> None:
        """Build a successor and put it in use; then ``listen`` is about that one.

        Raises:
            Exception: It cannot be built; ``may_pass`` tells whether later.
        """

    async def retire(self) -> None:
        """Close the clients that have had a successor; that may take long."""
