"""Commits of aiokafka: the broker's answer for each partition.

The client retries a whole commit for ever while the error is retriable, and only logs
failures in the background. So a commit by the guard ends with the first answer, and the
guard decides the next step. The client commits in a task of its own, which goes on when
nobody waits for it any more, so the outcome is stored and not raised there.
"""

# ruff: noqa: SLF001 - this module exists to use private attributes

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aiokafka.errors import KafkaError
from aiokafka.protocol.commit import OffsetCommitRequest

from kafkaguard._consuming.commits import may_continue
from kafkaguard_adapters.aiokafka.errors import errors
from kafkaguard_adapters.consuming.commits import read_refusals, spread_error

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkaguard_adapters.consuming.commits import Refused


@dataclass(slots=True)
class _Attempt:
    """One request of a commit, and its outcome.

    Attributes:
        refused: The partitions that the answer refuses.
        error: Why there is no answer.
    """

    refused: Refused = field(default_factory=dict)
    error: KafkaError | None = None


#: The running attempt; tasks that the client creates for it inherit it.
_ATTEMPT: ContextVar[_Attempt | None] = ContextVar("kafkaguard commit", default=None)


class Committing:
    """Makes commits one attempt at a time, and reports failed background commits.

    Args:
        consumer: The client's consumer, which has a group and was started.
        report: Called with the errors when a commit by the client itself has failed.
    """

    def __init__(self, consumer: Any, report: Callable[[Refused], None]) -> None:
        self._subscription = consumer._subscription
        self._commit = consumer.commit
        self._report = report
        coordinator = consumer._coordinator
        self._do = coordinator._do_commit_offsets
        self._send = coordinator._send_req
        coordinator._do_commit_offsets = self._do_commit_offsets
        coordinator._send_req = self._send_req

    def consumed(self) -> dict[Any, Any] | None:
        """Return the offsets of a commit without any; None: nothing is assigned."""
        subscription = self._subscription.subscription
        if subscription is None or subscription.assignment is None:
            return None
        offsets: dict[Any, Any] = subscription.assignment.all_consumed_offsets()
        return offsets

    def is_member(self) -> bool:
        """Return whether the group assigns the partitions, not the user."""
        is_assigned: bool = self._subscription.partitions_auto_assigned()
        return is_assigned

    def owned(self) -> frozenset[Any]:
        """Return the assigned partitions; the client commits no others."""
        return frozenset(self._subscription.assigned_partitions())

    async def once(self, offsets: Mapping[Any, Any]) -> Refused:
        """Commit, until the first answer.

        If this is cancelled, the client still waits for the answer, and closes the
        connection after its ``request_timeout_ms``.

        Returns:
            The refused partitions and their errors.

        Raises:
            KafkaError: No broker has answered.
        """
        attempt = _Attempt()
        token = _ATTEMPT.set(attempt)
        try:
            await self._commit(offsets)
        finally:
            _ATTEMPT.reset(token)
        if attempt.error is not None:
            raise attempt.error
        return attempt.refused

    async def _do_commit_offsets(self, assignment: Any, offsets: Any) -> None:
        """Commit once; the client's lock allows one commit at a time."""
        attempt = _ATTEMPT.get()
        if attempt is None:
            await self._do_alone(assignment, offsets)
            return
        try:
            await self._do(assignment, offsets)
        except KafkaError as error:
            if not attempt.refused:
                attempt.error = error

    async def _do_alone(self, assignment: Any, offsets: Any) -> None:
        """Make a commit of the client's own; report its failure."""
        attempt = _Attempt()
        token = _ATTEMPT.set(attempt)
        try:
            await self._do(assignment, offsets)
        except KafkaError as error:
            refused = attempt.refused or spread_error(errors, offsets, error)
            self._report(refused)
            if not may_continue(refused):  # a transient error must not end the client
                raise
        finally:
            _ATTEMPT.reset(token)

    async def _send_req(self, request: Any) -> Any:
        """Send a request to the coordinator, and read the answer to a commit."""
        response = await self._send(request)
        attempt = _ATTEMPT.get()
        if attempt is not None and isinstance(request, OffsetCommitRequest):
            attempt.refused = read_refusals(errors, response)
        return response
