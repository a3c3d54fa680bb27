"""A fault proxy with recorders on both sides of it, which know nothing of Kafka."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, defaultdict

from kafkaguard.testing import FaultProxy
from kafkaguard.testing.proxy import frames, hub


class Recorder:
    """Passes bytes on to an address, and keeps them, connection by connection."""

    def __init__(self, target):
        self._target = target
        self.conversations = []
        self._tasks = set()

    async def start(self):
        """Listen, and return the port."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self._server.sockets[0].getsockname()[1]

    async def stop(self):
        """Wait until both sides of every connection are closed."""
        self._server.close()
        await asyncio.wait_for(asyncio.gather(*self._tasks), 10)

    def _accept(self, reader, writer):
        self._tasks.add(asyncio.create_task(self._serve(reader, writer)))

    async def _serve(self, reader, writer):
        said, heard = bytearray(), bytearray()
        self.conversations.append((said, heard))
        far_reader, far_writer = await asyncio.open_connection(*self._target)
        pumps = [_pump(reader, far_writer, said), _pump(far_reader, writer, heard)]
        await asyncio.gather(*pumps)


async def _pump(reader, writer, kept):
    try:
        while data := await reader.read(1 << 16):
            kept += data
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


class TappedProxy(FaultProxy):
    """Clients reach it through one recorder, and it reaches brokers through another."""

    def __init__(self, upstream):
        super().__init__(upstream)
        self._near = {}
        self._far = {}
        self._open_port, self._dial = self._hub.open, self._hub.dial
        self._hub.open, self._hub.dial = self._open_tapped, self._dial_tapped

    async def _open_tapped(self, listener):
        port = await self._open_port(listener)
        recorder = self._near[listener.upstream] = Recorder(("127.0.0.1", port))
        return await recorder.start()

    async def _dial_tapped(self, host, port):
        if (host, port) not in self._far:
            recorder = Recorder((host, port))
            self._far[host, port] = (recorder, await recorder.start())
        return await self._dial("127.0.0.1", self._far[host, port][1])

    def stop(self):
        """Stop the proxy, then the recorders, whose other ends are then closed."""
        if self._loop is not None:
            self._run(self._hub.shut_down(), 10)
            self._run(self._stop_recorders(), 10)
        super().stop()

    async def _stop_recorders(self):
        for recorder in self._near.values():
            await recorder.stop()
        for recorder, _ in self._far.values():
            await recorder.stop()

    def compare(self):
        """Stop, and compare what was said and heard on both sides of the proxy.

        Returns:
            How many frames of each API were compared.
        """
        self.stop()
        counts = Counter()
        brokers = {listener.address: at for at, listener in self._hub.listeners.items()}
        for upstream, near in self._near.items():
            far = self._far.get(upstream, (Recorder(None), 0))[0]
            _compare(near.conversations, far.conversations, brokers, counts)
        return counts


def _compare(near, far, brokers, counts):
    by_requests = defaultdict(list)
    for said, heard in far:
        by_requests[bytes(said)].append(_split(heard))
    for said, heard in near:
        requests = _split(said)
        whole = b"".join(requests)
        headers = [frames.read_header(frame) for frame in requests]
        answers = [
            _with_addresses_of(brokers, header, answer)
            for header, answer in zip(
                _answered(headers, requests), _split(heard), strict=False
            )
        ]
        candidates = by_requests[whole]
        match = next(
            index
            for index, found in enumerate(candidates)
            if found[: len(answers)] == answers
        )
        del candidates[match]
        counts.update(header.api for header in headers)
    assert not any(by_requests.values()), (
        "the broker was told more than the clients said"
    )


def _split(stream):
    """Cut a stream into whole frames; what is left of the last one is dropped."""
    found, at = [], 0
    while at + 4 <= len(stream):
        end = at + 4 + int.from_bytes(stream[at : at + 4], "big")
        if end > len(stream):
            break
        found.append(bytes(stream[at:end]))
        at = end
    return found


def _answered(headers, requests):
    for header, frame in zip(headers, requests, strict=True):
        if frames.expects_answer(header, frames.decode_request(header, frame)):
            yield header


def _with_addresses_of(brokers, header, answer):
    """Put the brokers' addresses back into an answer, nothing else."""
    if header.api_key not in hub.ADDRESS_LISTS:
        return answer
    decoded = frames.decode_answer(header, answer)
    found = list(hub.list_endpoints(header.api_key, decoded))
    for endpoint in found:
        endpoint.host, endpoint.port = brokers[endpoint.host, endpoint.port]
    return frames.encode_answer(header, decoded) if found else answer
