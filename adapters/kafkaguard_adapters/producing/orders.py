"""Execute commands of the delivery machine on a shell, and return the replies.

The same for both drivers: one calls what is to be done, the other awaits it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kafkaguard._delivery import commands as c
from kafkaguard.errors import ClientTimeoutError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from kafkaguard._delivery.facts import Batch
    from kafkaguard._delivery.machine import DeliveryMachine
    from kafkaguard._delivery.records import Record


class Order(NamedTuple):
    """One thing to do.

    Attributes:
        do: What to call, and to await where it is a driver of tasks.
        reply: Tells the machine what came of it, and the time; None: nobody waits.
        if_raised: What came of it where it raises: the machine waits for the reply.
    """

    do: Callable[[], Any]
    reply: Callable[[Any, float], Sequence[c.Command]] | None = None
    if_raised: Callable[[BaseException], Any] = lambda _: None


class Hands(Protocol):
    """What a driver does itself; its methods may be coroutines."""

    def hold(self, topic: str) -> Any:
        """Wait until no send of a topic is running."""

    def hand_over(self, records: Sequence[Record]) -> Any:
        """Give records to the client; return their tokens or errors."""

    def end_client(self) -> Any:
        """Stop the client, until no send to it is running."""

    def replace(self, locking_out: Batch | None) -> Any:
        """Build a successor, and tell the machine what came of it."""


def order_of(  # noqa: PLR0911 - one line a command
    command: c.Command, shell: Any, machine: DeliveryMachine, hands: Hands
) -> Order:
    """Return what a command comes to; it is one that is not for the driver alone."""
    match command:
        case c.HoldSends(None):
            return Order(shell.shut)
        case c.HoldSends(str(topic)):
            return Order(
                partial(hands.hold, topic), lambda _, now: machine.held(topic, now)
            )
        case c.AskLimit(topic):
            return Order(
                partial(shell.ask_limit, topic),
                lambda most, now: machine.limit(topic, most, now),
            )
        case c.Send(topic, records):
            return Order(
                partial(hands.hand_over, records),
                lambda handed, now: machine.sent(topic, handed, now),
                lambda error: [error] * len(records),
            )
        case c.HearOut(until):
            return Order(
                partial(shell.hear_out, until), lambda _, now: machine.heard_out(now)
            )
        case c.Stop():
            return Order(hands.end_client, lambda _, now: machine.stopped(now))
        case c.AskAnswers(batches):
            return Order(
                partial(shell.answers, batches), machine.answered, lambda _: {}
            )
        case c.Replace(locking_out):
            return Order(partial(hands.replace, locking_out))
    raise TypeError(f"no shell does {command!r}")


class HandedOver:
    """What came of records that are handed over.

    What costs a dead letter its time is not waited for again by the next ones.

    Attributes:
        handed: Of each record its new token, or why it has none.
    """

    def __init__(self) -> None:
        self.handed: list[Hashable | BaseException] = []
        self._late: BaseException | None = None

    def is_late(self, record: Record) -> bool:
        """Return whether a record is not even tried."""
        if self._late is None or not record.is_letter:
            return False
        self.handed.append(self._late)
        return True

    def failed(self, error: BaseException) -> None:
        """Take note that the client did not take one."""
        self.handed.append(error)
        self._late = error if isinstance(error, ClientTimeoutError) else None
