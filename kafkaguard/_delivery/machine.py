"""The delivery machine: what becomes of each record that is sent, decided once.

It does nothing itself: no I/O, no lock, no clock, no thread, no client. A driver holds
one lock around it, tells it what a client tells (each method below is a fact), and
carries out the commands that each of these calls returns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from kafkaguard._delivery.commands import Command
    from kafkaguard._delivery.facts import Answer, Batch, Place, Raw, Refusal, Traits
    from kafkaguard._delivery.facts import Work
    from kafkaguard._delivery.records import Record
    from kafkaguard._delivery.report import DeliveryReport
    from kafkaguard._delivery.shell import ClientErrors, Policy
    from kafkaguard._retries.machine import OnReject
    from kafkaguard._verdicts.verdict import TopicFacts
    from kafkaguard.errors import KafkaGuardError


class DeliveryMachine:
    """See the module. Times are monotonic seconds.

    Args:
        traits: What the client can do and tell.
        policy: What the user decides.
        errors: Makes the client's errors.
        size_alone: ``ProducerShell.size_alone``, which does no I/O.
        facts: Returns what is known of a topic at this moment, without asking.

    Attributes:
        holds: The topics whose sends wait; None among them: all. A send looks at it
            without the lock: ``if machine.holds and ...``.
    """

    holds: set[str | None]

    def __init__(
        self,
        traits: Traits,
        policy: Policy,
        errors: ClientErrors,
        *,
        size_alone: Callable[[Raw], int],
        facts: Callable[[str], TopicFacts | None] = lambda _: None,
    ) -> None:
        raise NotImplementedError

    # --- batches ----------------------------------------------------------------------

    def began(self, batch: Batch) -> None:
        """The client has begun a batch. Next to nothing is done."""

    def accepted(self, batch: Batch) -> Sequence[Command]:
        """The broker took all of it. Next to nothing is done where nothing fails."""

    def failed(
        self, batch: Batch, refusals: Sequence[Refusal], now: float
    ) -> Sequence[Command]:
        """Records of a batch have failed; the others of it were accepted."""

    # --- records that send() itself refuses ------------------------------------------

    def on_reject(self, error: KafkaGuardError) -> OnReject:
        """Return what the policy does with a record that has failed so.

        A shell asks before it serialises the record for ``refused_at_once``.
        """

    def refused_at_once(
        self,
        token: Hashable,
        place: Place,
        raw: Raw | None,
        error: KafkaGuardError,
        now: float,
    ) -> tuple[Record, Sequence[Command]]:
        """``send`` refuses a record before the client has it.

        Where ``on_reject(error)`` is ``"raise"``, the shell raises the error instead
        and calls :meth:`raised`.
        """

    def raised(self, error: KafkaGuardError) -> Sequence[Command]:
        """``send`` raises an error: an event, and in no report."""

    # --- the client -------------------------------------------------------------------

    def died(
        self, cause: BaseException, place: Place | None, now: float
    ) -> Sequence[Command]:
        """The client in use delivers nothing from now on."""

    def heard_out(self, now: float) -> Sequence[Command]:
        """Reply to HearOut."""

    def stopped(self, now: float) -> Sequence[Command]:
        """Reply to Stop; each batch of the dead client has come back before."""

    def answered(
        self, answers: Mapping[Batch, Answer], now: float
    ) -> Sequence[Command]:
        """Reply to AskAnswers."""

    def replaced(self, now: float) -> Sequence[Command]:
        """Reply to Replace: a successor is in use."""

    def not_replaced(
        self, error: BaseException, now: float, *, may_pass: bool, awaited: bool
    ) -> Sequence[Command]:
        """Reply to Replace.

        Args:
            error: Why there is no successor.
            now: The time.
            may_pass: It may succeed later.
            awaited: Sends wait for it.
        """

    def wanted(self, now: float) -> Sequence[Command]:
        """A send waits while :attr:`lost` is not None: build a successor after all."""

    @property
    def lost(self) -> BaseException | None:
        """Why there is no client and none is being built; None: there is, or will be."""

    # --- replies for a topic ----------------------------------------------------------

    def held(self, topic: str, now: float) -> Sequence[Command]:
        """Reply to HoldSends: no send of the topic is under way."""

    def sent(
        self, topic: str, handed: Sequence[Hashable | Exception], now: float
    ) -> Sequence[Command]:
        """Reply to Send: for each record its new token, or why the client has it not.

        Batches of this topic that end between the command and this reply are kept and
        dealt with here, so a shell may tell them in any order.
        """

    def limit(self, topic: str, most: int | None, now: float) -> Sequence[Command]:
        """Reply to AskLimit: the topic's largest batch in bytes; None: not known."""

    # --- time and the end -------------------------------------------------------------

    def next_due(self) -> float | None:
        """Return when ``tick`` is to be called; None: nothing waits for a time."""

    def tick(self, now: float) -> Sequence[Command]:
        """Time has passed."""

    def closing(self, now: float) -> Sequence[Command]:
        """Take on nothing more: what fails from now on has failed."""

    def give_up(self, why: str, now: float) -> Sequence[Command]:
        """Settle what waits: nobody waits for it any longer."""

    # --- transactions -----------------------------------------------------------------

    @property
    def transaction_failure(self) -> KafkaGuardError | None:
        """The first failure of a record in this transaction: it can only be aborted."""

    @property
    def has_hole(self) -> bool:
        """A record failed on its way, so the client's sequence has a hole."""

    def spoil_transaction(self, error: KafkaGuardError) -> None:
        """A record of the transaction was never handed over: the rest is incomplete."""

    def new_transaction(self) -> None:
        """A transaction begins, or has ended: forget its failure."""

    # --- what the driver asks ---------------------------------------------------------

    def open_work(self) -> Work:
        """Return what is on its way at this moment, for ``left``."""

    def left(self, work: Work) -> int:
        """Count the records of that work that have no outcome yet."""

    def pending(self) -> int:
        """Count the records that have no outcome yet."""

    def report(self, pending: int) -> DeliveryReport:
        """Close the books: what became of records since the last report."""
