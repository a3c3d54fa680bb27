"""Where the transactions of a producer stand, and what their records say. No I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaguard._delivery.judging import ABORTED
from kafkaguard._delivery.table import (
    TRANSACTIONS,
    TransactionEvent,
    TransactionState,
)
from kafkaguard._errors import (
    BatchMateRefusedError,
    ClientTimeoutError,
    RecordPurgedError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaguard._delivery.counters import Counters, TransactionEnding
    from kafkaguard._errors import KafkaGuardError


class Transaction:
    """The state of a producer's transactions, the open one and those before it.

    All methods are called under the lock of the driver.

    Args:
        counters: Counts the records when the transaction ends.

    Attributes:
        state: The state.
        failure: Why the transaction can only be aborted: the first failed record, but
            rather one that is to blame than one that followed from it.
        has_gap: Whether a record failed in flight. Some clients then lack sequence
            numbers, and the next transaction needs a new producer.
        number: How many transactions have ended.
        on_end: Called when one has ended.
    """

    def __init__(self, counters: Counters) -> None:
        self.state = TransactionState.NEW
        self.failure: KafkaGuardError | None = None
        self.has_gap = False
        self.number = 0
        self.on_end: Callable[[], object] = int
        self._counters = counters

    def happens(self, event: TransactionEvent) -> None:
        """Change to the next state; FENCED is the last one."""
        if self.state is not TransactionState.FENCED:
            self.state = TRANSACTIONS.after(self.state, event)

    def fail(self, error: KafkaGuardError, *, in_flight: bool = False) -> None:
        """Record that a record of the transaction was not written."""
        if self.failure is None or _follows(self.failure) > _follows(error):
            self.failure = error
        self.has_gap = self.has_gap or in_flight
        if self.state is TransactionState.OPEN:
            self.happens(TransactionEvent.FAILED)

    @property
    def follows(self) -> bool:
        """Whether it failed only as others had failed, as far as is known yet."""
        return self.failure is not None and _follows(self.failure)

    def spoil(self, error: KafkaGuardError) -> None:
        """Fail the transaction that is open, for a record that was never handed over.

        Java's producer does the same: it then refuses the commit.
        """
        if self.state is TransactionState.OPEN:
            self.fail(error)

    def ends(self, ending: TransactionEnding) -> None:
        """Forget the transaction: the application knows its end.

        So the failures of its records count as seen.
        """
        self.count(ending)
        self.failure, self.has_gap = None, False
        self.number += 1
        self.on_end()

    def count(self, ending: TransactionEnding) -> None:
        """Count the records that the broker has confirmed."""
        self._counters.end_transaction(ending)


def _follows(error: KafkaGuardError) -> bool:
    """Return whether a record may have failed only because another one had failed."""
    consequences = BatchMateRefusedError, ClientTimeoutError, RecordPurgedError
    return isinstance(error, consequences) or error.given_verdict is ABORTED
