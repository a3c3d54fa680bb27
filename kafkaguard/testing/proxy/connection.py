"""One client's connection to one broker.

Three tasks share a connection: one reads the client's requests and forwards them, one
reads the broker's answers, and one sends answers to the client, in the order of the
requests, which Kafka requires. When one task ends, the connection ends, with a reason
for the journal.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import deque
from typing import TYPE_CHECKING, Any, Final, Protocol

from kafkaguard._common.logs import Log
from kafkaguard.testing.proxy import frames
from kafkaguard.testing.proxy.frames import GarbageError
from kafkaguard.testing.proxy.plan import outgoing

if TYPE_CHECKING:
    from kafkaguard.testing.proxy.actions import Plan
    from kafkaguard.testing.proxy.journal import Exchange, Recorder
    from kafkaguard.testing.proxy.listener import Answer, Listener

_log = Log("testing")

#: Bytes of a frame that are buffered before the other side is slowed down.
BUFFER_BYTES: Final = 1 << 21
_CONNECT_TIMEOUT_S: Final = 10.0
_CLOSE_TIMEOUT_S: Final = 2.0
_IN_FLIGHT: Final = 512
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)

_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Shared(Protocol):
    """The state that all connections share: the hub of the proxy."""

    journal: Recorder
    max_bytes: int

    async def dial(self, host: str, port: int) -> Any:
        """Connect to a broker."""

    def plan(self, frame: bytes, listener: Listener, connection: int) -> Plan:
        """Read a request, record it, and decide what to do with it."""

    async def answer(self, plan: Plan, raw: bytes | None, listener: Listener) -> Answer:
        """Make the client's answer from the broker's answer, or without one."""

    def take_down(self, listener: Listener, seconds: float) -> None:
        """Make a broker unreachable for some seconds."""


class Connection:
    """A client's connection, and the proxy's own to the broker.

    Args:
        number: The number in the journal.
        hub: The shared state.
        listener: The listener to which the client connected.
        client: The client's streams.
    """

    def __init__(
        self, number: int, hub: Shared, listener: Listener, client: _Streams
    ) -> None:
        self._number = number
        self._hub = hub
        self._listener = listener
        self._from_client, self._to_client = client
        self._plans: asyncio.Queue[Plan] = asyncio.Queue(_IN_FLIGHT)
        self._answers: asyncio.Queue[bytes] = asyncio.Queue(_IN_FLIGHT)
        self._pending = 0
        self._open_exchanges: deque[Exchange] = deque()
        self._is_mute = False
        self._is_reset = False

    async def run(self) -> None:
        """Serve the connection to its end, and record why it ended."""
        reason = ""
        try:
            reason = await self._serve()
        except asyncio.CancelledError as cancelled:
            reason = str(cancelled)
        finally:
            for exchange in self._open_exchanges:
                self._hub.journal.answer(exchange, "unanswered")
            self._hub.journal.closure(self._number, self._listener.broker, reason)
            await self._end_client()

    async def _serve(self) -> str:
        host, port = self._listener.upstream
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                upstream = await self._hub.dial(host, port)
        except (OSError, ValueError, OverflowError) as error:  # no host, no port
            return f"no connection to the broker at {host}:{port}: {error!r}"
        self._from_broker, self._to_broker = upstream
        try:
            return await self._run_until_one_ends()
        finally:
            await _close(self._to_broker)

    async def _run_until_one_ends(self) -> str:
        tasks = [
            asyncio.create_task(self._forward_requests()),
            asyncio.create_task(self._read_answers()),
            asyncio.create_task(self._send_answers()),
        ]
        try:
            ended_tasks, _ = await asyncio.wait(
                tasks, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            for task in tasks:
                task.cancel()
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        return _describe_end(outcomes[tasks.index(ended_tasks.pop())])

    async def _forward_requests(self) -> str:
        while frame := await frames.read_frame(self._from_client, self._hub.max_bytes):
            plan = self._hub.plan(frame, self._listener, self._number)
            self._open_exchanges.append(plan.exchange)
            if plan.delay_before:
                await asyncio.sleep(plan.delay_before)
            if plan.down is not None:
                self._hub.take_down(self._listener, plan.down)
                return "the fault took the broker away"
            outgoing_frame = outgoing(plan, frame)
            plan.awaits_broker = plan.is_answered and outgoing_frame is not None
            self._pending += plan.awaits_broker
            if outgoing_frame is not None:
                self._to_broker.write(outgoing_frame)
            await self._plans.put(plan)
            await self._to_broker.drain()
        return "the client closed it"

    async def _read_answers(self) -> str:
        while frame := await frames.read_frame(self._from_broker, self._hub.max_bytes):
            if not self._pending:
                raise GarbageError(
                    "the broker sent an answer that no request waits for"
                )
            self._pending -= 1
            await self._answers.put(frame)
        await self._answers.join()
        return "the broker closed it"

    async def _send_answers(self) -> str:
        while True:
            plan = await self._plans.get()
            raw = await self._answers.get() if plan.awaits_broker else None
            answer = None
            if plan.awaits_broker or (plan.is_answered and plan.is_made_here):
                answer = await self._hub.answer(plan, raw, self._listener)
            if plan.delay_after:
                await asyncio.sleep(plan.delay_after)
            reason = await self._finish(plan, answer)
            if plan.awaits_broker:
                self._answers.task_done()
            if reason is not None:
                return reason

    async def _finish(self, plan: Plan, answer: Answer | None) -> str | None:
        """Forward an answer, or break off; return the reason if the connection ends."""
        self._is_mute = self._is_mute or plan.breakage == "drop"
        if plan.breakage in {"close", "reset"}:
            self._is_reset = plan.breakage == "reset"
            self._record_outcome(plan, "broken off")
            return _fault_reason(plan)
        if plan.refusals and not plan.is_answered:
            self._record_outcome(plan, "no answer wanted")
            return "a broker closes the connection where acks=0 cannot tell an error"
        if answer is None or self._is_mute:
            self._record_outcome(
                plan, "no answer wanted" if not plan.is_answered else "dropped"
            )
            return None
        await self._send_answer(plan, answer)
        return _fault_reason(plan) if plan.breakage == "cut" else None

    async def _send_answer(self, plan: Plan, answer: Answer) -> None:
        frame = answer.frame if plan.damage is None else plan.damage(answer.frame)
        self._record_outcome(plan, "answered", errors=answer.errors, size=len(frame))
        self._to_client.write(frame)
        await self._to_client.drain()

    def _record_outcome(self, plan: Plan, outcome: str, **more: Any) -> None:
        self._open_exchanges.remove(plan.exchange)
        self._hub.journal.answer(plan.exchange, outcome, **more)

    async def _end_client(self) -> None:
        if self._is_reset:
            sock: Any = self._to_client.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            self._to_client.transport.abort()
        await _close(self._to_client)


def _fault_reason(plan: Plan) -> str:
    return f"a fault: {'; '.join(plan.exchange.faults)}"


def _describe_end(outcome: str | BaseException) -> str:
    if isinstance(outcome, str):
        return outcome
    if isinstance(outcome, GarbageError):
        return f"garbage: {outcome}"
    if isinstance(outcome, OSError):
        return f"the connection broke: {outcome!r}"
    _log.error("proxy_failed", "the proxy failed on a connection", error=outcome)
    return f"the proxy failed: {outcome!r}"


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    try:
        async with asyncio.timeout(_CLOSE_TIMEOUT_S):
            await writer.wait_closed()
    except TimeoutError:
        writer.transport.abort()  # the other side does not read the rest
    except OSError:
        pass  # it is closed all the same
