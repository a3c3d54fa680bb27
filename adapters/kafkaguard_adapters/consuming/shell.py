"""The shell that each client implements: it executes commands and does not decide.

There are two kinds of clients. If private attributes of the client show the answer to
each read, the shell reports it to the driver (``Driver.refused``, ``Driver.answered``),
and a held partition is left out of the client's reads without ``pause()``. If the
client does not show its answers, the shell returns the positions of its partitions, and
a hold is a ``pause()``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kafkaguard._cluster.reports import TopicPartition
    from kafkaguard._consuming.standing import Reader
    from kafkaguard._errors import KafkaGuardError


class ConsumerShell(Protocol):
    """Calls of a driver to a client, made only on the thread that uses the client."""

    def assignment(self) -> Collection[TopicPartition]:
        """Return the assigned partitions."""

    def hold(self, place: TopicPartition) -> None:
        """Stop reading a partition."""

    def free(self, place: TopicPartition) -> None:
        """Read a partition again; ignored if it is not assigned any more."""

    def let_reset(self, place: TopicPartition) -> None:
        """Leave the next answer "out of range" to the client."""

    def restart(self, places: Collection[TopicPartition]) -> None:
        """Look up again where to begin with partitions of which nothing was read."""

    def fail(self, place: TopicPartition, error: KafkaGuardError) -> None:
        """Let a poll raise an error, after the records that are already fetched."""

    def end(self, error: KafkaGuardError) -> None:
        """Let each poll raise an error from now on, and do not join the group again."""

    def readers(self) -> Mapping[TopicPartition, Reader]:
        """Return the readers with their positions; empty if the answers are visible."""

    def wake(self) -> None:
        """Note that an answer waits; called on any thread, so it only sets a flag."""
