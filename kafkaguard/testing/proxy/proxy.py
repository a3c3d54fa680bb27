"""``FaultProxy``: a TCP proxy in front of real brokers that injects faults."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TypeVar

from kafkaguard._common import arguments
from kafkaguard._common.public import public
from kafkaguard.testing.proxy import language, script
from kafkaguard.testing.proxy.frames import MAX_FRAME_BYTES
from kafkaguard.testing.proxy.hub import BROKER_TAKEN_AWAY, Hub
from kafkaguard.testing.proxy.journal import Journal, Recorder

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator

    from kafkaguard.testing.proxy.actions import CountedFault, Fault
    from kafkaguard.testing.proxy.journal import Closure, Exchange
    from kafkaguard.testing.proxy.language import SelectedRequests
    from kafkaguard.testing.proxy.listener import Address, Listener
    from kafkaguard.testing.proxy.matching import Request

_T = TypeVar("_T")
_START_TIMEOUT_S: Final = 10.0
_STOP_TIMEOUT_S: Final = 10.0
_JOURNAL_SIZE: Final = 20_000


@public("kafkaguard.testing")
class ProxyError(RuntimeError):
    """The proxy cannot do something; the text says why and what to do."""


class _Cluster(Protocol):
    @property
    def bootstrap_servers(self) -> str: ...


class FaultProxy:
    """A TCP proxy in front of one or more brokers that injects faults.

    Clients use :attr:`bootstrap_servers` instead of the cluster's. All addresses of
    brokers in answers are replaced by the proxy's. Everything else passes unchanged
    until you set a fault with :meth:`on`.

    It runs in a thread of its own between :meth:`start` and :meth:`stop`, or in a
    ``with`` block. Connections may use SASL. TLS is not supported on either side.

    Args:
        upstream: The brokers: ``"host:port,..."``, a list of these, or an object with
            ``bootstrap_servers``, such as :class:`~kafkaguard.testing.KafkaCluster`.
        host: The interface to listen at.
        port: The port for the first broker; the others get the next ports. 0: any free
            port.
        advertised_host: The host name for clients. Default: ``host``.
        journal_size: How many exchanges are kept.
        max_frame_bytes: The largest frame that may pass.

    Raises:
        ProxyError: ``upstream`` is not a list of ``host:port``, or there is no such
            port.
        TypeError: ``journal_size`` or ``max_frame_bytes`` is not a whole number.
        ValueError: One of these is below 1.
    """

    def __init__(
        self,
        upstream: str | Iterable[str] | _Cluster,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        advertised_host: str | None = None,
        journal_size: int = _JOURNAL_SIZE,
        max_frame_bytes: int = MAX_FRAME_BYTES,
    ) -> None:
        size = arguments.whole_number("FaultProxy(): journal_size", journal_size, 1)
        arguments.whole_number("FaultProxy(): max_frame_bytes", max_frame_bytes, 1)
        recorder = Recorder(size)
        self.journal: Journal = recorder
        """Everything that went through; ``print(proxy.journal)`` shows it."""
        self.upstream = _addresses(upstream)
        """Host and port of each broker behind it."""
        if isinstance(port, str) or arguments.port(str(port), lowest=0) is None:
            raise ProxyError(f"port={port!r}: give 1 to 65535, or 0 for any free port")
        self._hub = Hub(recorder, host, port, advertised_host or host, max_frame_bytes)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._entrances: list[Listener] = []

    def start(self) -> Self:
        """Start to listen.

        Raises:
            ProxyError: It is already running, or a port is not available.
        """
        if self._loop is not None:
            raise ProxyError("the proxy is already running")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="kafkaguard-proxy", daemon=True
        )
        self._thread.start()
        try:
            self._entrances = self._run(self._open(), _START_TIMEOUT_S)
        except OSError as error:
            self.stop()
            raise ProxyError(f"the proxy cannot listen: {error}") from error
        return self

    def stop(self) -> None:
        """End all connections and stop listening; a second call does nothing.

        Raises:
            ProxyError: The proxy's thread did not end in time.
        """
        if self._loop is None or self._thread is None:
            return
        loop, thread = self._loop, self._thread
        try:
            self._run(self._hub.shut_down(), _STOP_TIMEOUT_S)
        finally:
            self._loop = self._thread = None
            self._entrances = []
            loop.call_soon_threadsafe(loop.stop)
            thread.join(_STOP_TIMEOUT_S)
        if thread.is_alive():
            raise ProxyError(f"the proxy's thread still runs after {_STOP_TIMEOUT_S} s")
        loop.close()

    def __enter__(self) -> Self:
        """Start."""
        return self.start()

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self.stop()

    @property
    def bootstrap_servers(self) -> str:
        """The bootstrap servers for clients: the proxy's address for each broker."""
        if not self._entrances:
            raise ProxyError("the proxy does not run: use it in a with block")
        return ",".join(f"{h}:{p}" for h, p in (e.address for e in self._entrances))

    def on(  # noqa: PLR0913 - each way to choose a request
        self,
        api: str | Iterable[str] | None = None,
        *,
        topic: str | None = None,
        partition: int | None = None,
        broker: int | None = None,
        client_id: str | None = None,
        nth: int | None = None,
        skip: int = 0,
        rate: float = 1.0,
        seed: int | None = None,
        where: Callable[[Request], bool] | None = None,
    ) -> SelectedRequests:
        """Select requests; the methods of the result say what happens to them.

        Args:
            api: Kafka's name of the API, or several names. Default: all APIs.
            topic: The topic, or a pattern (``"orders-*"``); it also matches requests
                that contain only the topic's id.
            partition: The partition.
            broker: The id of the request's broker.
            client_id: The client id, or a pattern.
            nth: Only the nth matching request, from 1.
            skip: How many matching requests pass first.
            rate: The share of matching requests, in (0, 1].
            seed: Makes the choice of that share repeatable.
            where: A predicate. If it raises, this is logged, and the request does not
                match.

        Raises:
            FaultSpecError: A word is unknown; the text has the closest right one.
        """
        return language.when(
            self._add,
            api,
            topic=topic,
            partition=partition,
            broker=broker,
            client_id=client_id,
            nth=nth,
            skip=skip,
            rate=rate,
            seed=seed,
            where=where,
        )

    def load(
        self, file: Path | str, *, rate: float | None = None, seed: int | None = None
    ) -> list[Fault]:
        """Set the faults of a YAML file; if one of them is wrong, none is set.

        Args:
            file: Its path. ``faults`` is a list. Each entry has the arguments of
                :meth:`on` (``on`` is the API) and one method of
                :class:`SelectedRequests`. The file may also have ``rate`` and ``seed``
                for all faults.
            rate: The share of requests, for faults without their own.
            seed: Makes the choice of that share repeatable.

        Raises:
            FaultSpecError: The file is wrong; the text has file, line, the wrong word
                and the closest right one.
            OSError: The file cannot be read.
        """
        faults = script.read_faults(Path(file), rate=rate, seed=seed)
        return [self._add(fault) for fault in faults]

    @property
    def faults(self) -> tuple[Fault, ...]:
        """The faults that are set, in the order in which they are tried."""
        return self._hub.faults

    def clear(self) -> None:
        """Remove all faults, and make all brokers reachable again."""
        self._hub.faults = ()
        for listener in list(self._hub.listeners.values()):
            self._reopen(listener)

    @property
    def paused(self) -> bool:
        """The kill switch: while True, no fault is applied."""
        return self._hub.paused

    @paused.setter
    def paused(self, value: bool) -> None:
        self._hub.paused = value

    def take_away(self, broker: int) -> None:
        """Make a broker unreachable: end its connections and refuse new ones.

        Raises:
            ProxyError: No answer has contained such a broker yet.
        """
        closing = self._hub.close(self._listener_of(broker), BROKER_TAKEN_AWAY)
        self._run(closing, _STOP_TIMEOUT_S)

    def bring_back(self, broker: int) -> None:
        """Make a broker reachable again, at the same address.

        Raises:
            ProxyError: No answer has contained such a broker yet.
        """
        self._reopen(self._listener_of(broker))

    @contextmanager
    def without(self, broker: int) -> Iterator[None]:
        """Make a broker unreachable while the block runs."""
        self.take_away(broker)
        try:
            yield
        finally:
            self.bring_back(broker)

    def requests(
        self,
        api: str | None = None,
        *,
        topic: str | None = None,
        broker: int | None = None,
        client_id: str | None = None,
    ) -> list[Exchange]:
        """List the requests so far with their outcomes, oldest first.

        Args:
            api: Kafka's name of the API.
            topic: A topic that they name.
            broker: The id of their broker.
            client_id: The client id.

        Raises:
            FaultSpecError: Kafka has no such API.
        """
        if api is not None:
            language.api_key(api)
        return [
            exchange
            for exchange in self.journal.exchanges()
            if api in (None, exchange.api)
            and (topic is None or any(topic == name for name, _ in exchange.partitions))
            and broker in (None, exchange.broker)
            and client_id in (None, exchange.client_id)
        ]

    def wait_for(
        self, api: str, *, count: int = 1, timeout: float = 10.0, **filters: Any
    ) -> list[Exchange]:
        """Wait until ``count`` requests have come, and return them.

        Args:
            api: Kafka's name of the API.
            count: How many.
            timeout: Seconds to wait.
            filters: As for :meth:`requests`.

        Raises:
            TimeoutError: They did not come in time; the text has the journal.
            TypeError: ``count`` is not a whole number, or ``timeout`` not a number.
            ValueError: ``count`` is below 0, or ``timeout`` not above 0, or endless.
        """
        arguments.whole_number("wait_for(): count", count, 0)
        timeout = arguments.seconds("wait_for(): timeout", timeout)
        with self.journal.changed:
            is_complete = self.journal.changed.wait_for(
                lambda: len(self.requests(api, **filters)) >= count, timeout
            )
        exchanges = self.requests(api, **filters)
        if is_complete:
            return exchanges
        raise TimeoutError(
            f"{len(exchanges)} of {count} {api} requests within {timeout:g} s:\n"
            f"{self.journal}"
        )

    @property
    def closures(self) -> list[Closure]:
        """The connections that have ended, each with the reason, oldest first."""
        return self.journal.closures()

    @property
    def brokers(self) -> dict[int, str]:
        """The proxy's address for each broker, by id, for brokers seen in answers."""
        return {
            listener.broker: f"{listener.address[0]}:{listener.address[1]}"
            for listener in list(self._hub.listeners.values())
            if listener.broker is not None
        }

    async def _open(self) -> list[Listener]:
        for listener in self._hub.listeners.values():
            await self._hub.open(listener)
        return [await self._hub.listener(address) for address in self.upstream]

    def _add(self, fault: CountedFault) -> Fault:
        fault.owner = self._remove
        self._hub.faults = (*self._hub.faults, fault)
        return fault

    def _remove(self, fault: CountedFault) -> None:
        self._hub.faults = tuple(f for f in self._hub.faults if f is not fault)

    def _listener_of(self, broker: int) -> Listener:
        for listener in list(self._hub.listeners.values()):
            if listener.broker == broker:
                return listener
        ids = ", ".join(map(str, sorted(self.brokers))) or "none"
        raise ProxyError(
            f"broker {broker} is not known yet (known: {ids}); the proxy learns of "
            "brokers from the first Metadata answer"
        )

    def _reopen(self, listener: Listener) -> None:
        if self._loop is not None and not listener.is_up:
            self._run(self._hub.open(listener), _START_TIMEOUT_S)

    def _run(self, work: Coroutine[Any, Any, _T], timeout: float) -> _T:
        if self._loop is None:
            work.close()
            raise ProxyError("the proxy does not run: use it in a with block")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout)


def _addresses(upstream: str | Iterable[str] | _Cluster) -> list[Address]:
    value: Any = getattr(upstream, "bootstrap_servers", upstream)
    words = value.split(",") if isinstance(value, str) else list(value)
    if not words:
        raise ProxyError("no upstream broker was given")
    return [_address(str(word).strip()) for word in words]


def _address(word: str) -> Address:
    host, _, text = word.rpartition(":")
    port = arguments.port(text)
    if not host or port is None:
        raise ProxyError(
            f"an upstream broker is host:port with a port up to 65535, not {word!r}"
        )
    return host, port
