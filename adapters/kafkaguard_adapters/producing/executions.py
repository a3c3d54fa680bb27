"""Map commands of the delivery machine to calls of a shell, and to replies.

Both drivers use this module: the thread driver calls the functions, the task driver
also awaits them.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kafkaguard._delivery import commands as c
from kafkaguard._delivery.facts import HandOverStoppedError
from kafkaguard.errors import ClientTimeoutError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from kafkaguard._delivery.facts import Batch
    from kafkaguard._delivery.machine import DeliveryMachine
    from kafkaguard._delivery.records import Record


class Execution(NamedTuple):
    """How to execute one command.

    Attributes:
        do: The function to call; the task driver also awaits its result.
        reply: Reports the result and the time to the machine, which returns further
            commands; None: the machine expects no reply.
        if_raised: Makes the result from an exception that ``do`` raised, because the
            machine waits for the reply.
    """

    do: Callable[[], Any]
    reply: Callable[[Any, float], Sequence[c.Command]] | None = None
    if_raised: Callable[[BaseException], Any] = lambda _: None


class DriverSteps(Protocol):
    """The steps that a driver implements itself; its methods may be coroutines."""

    def hold(self, topic: str) -> Any:
        """Wait until no send of a topic is running."""

    def hand_over(self, records: Sequence[Record]) -> Any:
        """Give records to the client; return their tokens or errors."""

    def end_client(self) -> Any:
        """Stop the client, and wait until no send to it is running."""

    def replace(self, locking_out: Batch | None) -> Any:
        """Build a successor, and report success or failure to the machine."""


def execution_of(  # noqa: PLR0911 - one case for each command
    command: c.Command, shell: Any, machine: DeliveryMachine, steps: DriverSteps
) -> Execution:
    """Return how to execute a command that calls the shell or the driver's steps.

    Raises:
        TypeError: The command is not one of these.
    """
    match command:
        case c.HoldSends(None):
            return Execution(shell.shut)
        case c.HoldSends(str(topic)):
            return Execution(
                partial(steps.hold, topic), lambda _, now: machine.held(topic, now)
            )
        case c.AskSizeLimit(topic):
            return Execution(
                partial(shell.ask_size_limit, topic),
                lambda most, now: machine.size_limit(topic, most, now),
            )
        case c.Send(topic, records):
            return Execution(
                partial(steps.hand_over, records),
                lambda handed, now: machine.sent(topic, handed, now),
                lambda error: [error] * len(records),
            )
        case c.HearOut(until):
            return Execution(
                partial(shell.hear_out, until), lambda _, now: machine.heard_out(now)
            )
        case c.Stop():
            return Execution(steps.end_client, lambda _, now: machine.stopped(now))
        case c.AskAnswers(batches):
            return Execution(
                partial(shell.answers, batches), machine.answered, lambda _: {}
            )
        case c.Replace(locking_out):
            return Execution(partial(steps.replace, locking_out))
    raise TypeError(f"no shell does {command!r}")


class HandedOver:
    """The results of giving records to the client.

    If the client timed out on a record, the next dead letters do not wait for the same
    timeout again: they fail with the same error.

    Attributes:
        handed: For each record, its new token, or the error.
    """

    def __init__(self) -> None:
        self.handed: list[Hashable | BaseException] = []
        self._late: BaseException | None = None

    def stop(self, left: int) -> None:
        """Give back the records that are left, as the machine asked for."""
        self.handed += (HandOverStoppedError() for _ in range(left))

    def skip_letter(self, record: Record) -> bool:
        """Fail a dead letter after a timeout; return whether that was done."""
        if self._late is None or not record.is_letter:
            return False
        self.handed.append(self._late)
        return True

    def not_taken(self, error: BaseException) -> None:
        """Keep the error of a record that the client did not take."""
        self.handed.append(error)
        self._late = error if isinstance(error, ClientTimeoutError) else None
