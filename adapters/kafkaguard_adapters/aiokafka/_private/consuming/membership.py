"""Static members of aiokafka: one that lost its place to another member stops.

aiokafka does not send its ``group_instance_id`` with heartbeats and commits. So a
broker answers UNKNOWN_MEMBER_ID if another member took the place, as it does if the
session timed out, and the client takes the place back: the two throw each other out for
ever. The guard asks with the id before the client sees the answer. If the broker then
says FENCED_INSTANCE_ID, the client's task waits in its request until the consumer is
stopped.
"""

# ruff: noqa: SLF001 - this module exists to use private attributes

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from aiokafka.errors import KafkaError
from aiokafka.protocol.api import Request, RequestStruct
from aiokafka.protocol.group import (
    HeartbeatRequest,
    HeartbeatResponse_v1,
    JoinGroupRequest,
    SyncGroupRequest,
)
from aiokafka.protocol.types import Int32, Schema, String

from kafkaguard._consuming.machine import FENCED_INSTANCE
from kafkaguard_adapters.aiokafka.errors import errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaguard._errors import KafkaGuardError

_UNKNOWN_MEMBER: Final = 25
#: Requests of the client's own tasks, which would be made again.
_OF_TASKS: Final = (HeartbeatRequest, JoinGroupRequest, SyncGroupRequest)


class _StaticHeartbeatAnswer(HeartbeatResponse_v1):  # type: ignore[misc]  # aiokafka is untyped
    API_VERSION = 3


class _StaticHeartbeatStruct(RequestStruct):  # type: ignore[misc]  # aiokafka is untyped
    API_KEY = HeartbeatRequest.API_KEY
    API_VERSION = 3
    RESPONSE_TYPE = _StaticHeartbeatAnswer
    SCHEMA = Schema(
        ("group", String("utf-8")),
        ("generation_id", Int32),
        ("member_id", String("utf-8")),
        ("group_instance_id", String("utf-8")),
    )


class _StaticHeartbeat(Request[_StaticHeartbeatStruct]):  # type: ignore[misc]  # aiokafka is untyped
    """A heartbeat that names the static member, which aiokafka does not have."""

    API_KEY = HeartbeatRequest.API_KEY

    def __init__(self, *fields: Any) -> None:
        self._fields = fields

    def build(
        self, request_struct_class: type[_StaticHeartbeatStruct]
    ) -> _StaticHeartbeatStruct:
        """Build the request in its version."""
        return request_struct_class(*self._fields)


class Membership:
    """Watches the answers to a static member of a group.

    Args:
        consumer: The client's consumer, which was started with a group.
        report: Called with the error once another member has taken the place.
    """

    def __init__(
        self, consumer: Any, report: Callable[[KafkaGuardError], object]
    ) -> None:
        self._coordinator = coordinator = consumer._coordinator
        self._report = report
        self._error: KafkaGuardError | None = None
        self._send = coordinator._send_req
        if coordinator._group_instance_id is not None:
            coordinator._send_req = self._send_req

    async def _send_req(self, request: Any) -> Any:
        """Send a request to the coordinator, unless this member is fenced."""
        coordinator, response = self._coordinator, None
        if self._error is None:
            member = coordinator.generation, coordinator.member_id
            response = await self._send(request)
            if await self._is_fenced(_codes(response), *member) and not self._error:
                instance = coordinator._group_instance_id
                self._error = errors.fenced("group_instance_id", instance)
                self._report(self._error)
        if self._error is None:
            return response
        if isinstance(request, _OF_TASKS):
            await asyncio.wait([coordinator._closing])
        raise self._error.with_traceback(None)

    async def _is_fenced(self, codes: set[int], generation: int, member: str) -> bool:
        """Return whether another member has the place of this one."""
        if _UNKNOWN_MEMBER not in codes or not member:
            return FENCED_INSTANCE in codes
        coordinator = self._coordinator
        instance = coordinator._group_instance_id
        try:
            response = await self._send(
                _StaticHeartbeat(coordinator.group_id, generation, member, instance)
            )
        except (KafkaError, NotImplementedError):  # it joins again, as the client
            return False
        return FENCED_INSTANCE in _codes(response)


def _codes(response: Any) -> set[int]:
    """Return the error codes of an answer of the coordinator."""
    if hasattr(response, "error_code"):
        return {response.error_code}
    return {each[-1] for _, parts in response.topics for each in parts}
