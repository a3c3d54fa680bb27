"""Commits of aiokafka: the broker's answer for each partition.

The client tries a whole commit again without end while the error may pass, and only
logs what fails in the background. So a commit of the guard's ends with the first
answer, and the guard decides what is next.
"""

# ruff: noqa: SLF001 - reaching inside is what this module is for

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from aiokafka.errors import KafkaError
from aiokafka.protocol.commit import OffsetCommitRequest

from kafkaguard._cluster.reports import TopicPartition
from kafkaguard._consuming.commits import OFFSET_COMMIT, may_pass
from kafkaguard_adapters.aiokafka.errors import errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kafkaguard.errors import KafkaGuardError

    Refused = dict[TopicPartition, KafkaGuardError]

#: Whether the guard makes this commit; it follows the client into its own tasks.
_IS_OURS: ContextVar[bool] = ContextVar("kafkaguard commit", default=False)


class _AnsweredError(KafkaError):  # type: ignore[misc]  # it comes without types
    """Ends the client's own loop of a commit: an answer with errors is there."""

    retriable = False

    def __init__(self, refused: Refused) -> None:
        super().__init__("the commit was refused")
        self.refused = refused


class Committing:
    """Makes commits one attempt at a time, and tells of those that nobody waits for.

    Args:
        consumer: The client's consumer, of a group and started.
        tell: Is told of a commit of the client's own that failed.
    """

    def __init__(self, consumer: Any, tell: Callable[[Refused], None]) -> None:
        self._subscription = consumer._subscription
        self._commit = consumer.commit
        self._tell = tell
        coordinator = consumer._coordinator
        self._do = coordinator._do_commit_offsets
        self._send = coordinator._send_req
        coordinator._do_commit_offsets = self._do_commit_offsets
        coordinator._send_req = self._send_req
        self._refused: Refused = {}

    def consumed(self) -> dict[Any, Any] | None:
        """Return what a commit without offsets commits; None: nothing is assigned."""
        subscription = self._subscription.subscription
        if subscription is None or subscription.assignment is None:
            return None
        offsets: dict[Any, Any] = subscription.assignment.all_consumed_offsets()
        return offsets

    def owned(self) -> frozenset[Any]:
        """Return what is assigned; the client commits nothing else."""
        return frozenset(self._subscription.assigned_partitions())

    async def once(self, offsets: Mapping[Any, Any]) -> Refused:
        """Commit, up to the first answer.

        Returns:
            What was refused.

        Raises:
            KafkaError: There is no answer.
        """
        token = _IS_OURS.set(True)
        try:
            await self._commit(offsets)
        except _AnsweredError as answered:
            return answered.refused
        finally:
            _IS_OURS.reset(token)
        return {}

    async def _do_commit_offsets(self, assignment: Any, offsets: Any) -> None:
        """Commit once; the client's lock lets one through at a time."""
        self._refused = {}
        try:
            await self._do(assignment, offsets)
        except KafkaError as error:
            if _IS_OURS.get():
                if self._refused:
                    raise _AnsweredError(self._refused) from error
                raise
            refused = self._refused or everywhere(offsets, error)
            self._tell(refused)
            if not may_pass(refused):  # else the client would end, and its records
                raise

    async def _send_req(self, request: Any) -> Any:
        """Send a request to the coordinator, and look at the answer to a commit."""
        response = await self._send(request)
        if isinstance(request, OffsetCommitRequest):
            self._refused = {
                TopicPartition(topic, partition): errors.make(
                    code, api=OFFSET_COMMIT, topic=topic, partition=partition
                )
                for topic, parts in response.topics
                for partition, code in parts
                if code
            }
        return response


def everywhere(places: Iterable[Any], error: BaseException) -> Refused:
    """Say that an error is about all partitions of a commit."""
    return {
        TopicPartition(*place): errors.translate(
            error, api=OFFSET_COMMIT, topic=place[0], partition=place[1]
        )
        for place in places
    }
