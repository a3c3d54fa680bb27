"""The shell that each client implements: it executes and does not decide.

There are two kinds of clients. Where the insides of a client show what each read is
answered, the shell tells the driver (``Driver.refused``, ``Driver.answered``), and a
held partition is left out of the client's reads without a pause. Where a client shows
nothing, the shell tells where its readers are, and a hold is a pause.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kafkaguard._cluster.reports import TopicPartition
    from kafkaguard._consuming.standing import Reader
    from kafkaguard.errors import KafkaGuardError


class ConsumerShell(Protocol):
    """What a driver asks of a client. Only the thread that uses the client calls it."""

    def assignment(self) -> Collection[TopicPartition]:
        """Return what the consumer is assigned."""

    def hold(self, place: TopicPartition) -> None:
        """Do not read a partition."""

    def free(self, place: TopicPartition) -> None:
        """Read a partition again; one that is not assigned any more is ignored."""

    def let_reset(self, place: TopicPartition) -> None:
        """Leave the next answer "out of range" to the client."""

    def fail(self, place: TopicPartition, error: KafkaGuardError) -> None:
        """Let polling raise an error; records that are there come first."""

    def readers(self) -> Mapping[TopicPartition, Reader]:
        """Return where the readers are, of a client that shows nothing else."""

    def wake(self) -> None:
        """A question was answered; called on any thread, so only to set something."""
