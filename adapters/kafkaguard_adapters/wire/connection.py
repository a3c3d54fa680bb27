"""A connection to one broker: kafka-python's codecs over asyncio.

The order is: ApiVersions, then SASL if it is configured, then any requests. Several
requests can be in flight, each in the highest version that both sides support (KIP-35,
KIP-152). Nothing that is sent or received is ever logged.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from kafka.protocol.api_header import ResponseClassRegistry
from kafka.protocol.metadata import ApiVersionsRequest
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from kafkaguard._errors import (
    ClientConfigurationError,
    ClientNotConnectedError,
    ClientProtocolError,
    IllegalSaslStateError,
    UnsupportedVersionError,
)
from kafkaguard._version import __version__
from kafkaguard.protocol._other_protocols import name_protocol
from kafkaguard_adapters.wire import connection_texts
from kafkaguard_adapters.wire.sasl import Login

if TYPE_CHECKING:
    from kafkaguard._cluster.reports import Make
    from kafkaguard_adapters.wire.settings import Settings

MAX_FRAME_BYTES: Final = 100_000_000
#: The share of a SASL session's lifetime after which a connection is not used any more
#: (KIP-368).
_SESSION_SHARE: Final = 0.85
_SIZE_BYTES: Final = 4
_NUMBER_BYTES: Final = 4


class ConnectionLostError(Exception):
    """The connection ended before the answer; the broker may have run the request.

    Args:
        fault: The network error; None: the other side closed the connection normally.
        mistake: The error text for a setting that does not fit, if that is the cause.
    """

    def __init__(self, fault: str | None = None, mistake: str | None = None) -> None:
        super().__init__(fault)
        self.fault = fault
        self.mistake = mistake


class Connection:
    """A connection; :meth:`connect` makes it, and after :meth:`enter` it can be used.

    Args:
        reader: The stream of answers.
        transport: The transport for requests.
        settings: The connection settings.
        make: Makes the errors.
        address: Host and port that were used to connect.
        broker: The broker's id; None if it is not known yet.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        transport: asyncio.WriteTransport,
        settings: Settings,
        make: Make,
        address: tuple[str, int],
        broker: int | None,
    ) -> None:
        self.address = address
        self.broker = broker
        self.is_new = True
        self._reader = reader
        self._transport = transport
        self._settings = settings
        self._make = make
        self._offered: dict[int, tuple[int, int]] = {}
        self._waiting: dict[int, tuple[asyncio.Future[Any], Any]] = {}
        self._number = 0
        self._fault: str | None = None
        self._mistake: str | None = None
        self._session_ends: float | None = None
        self._process = os.getpid()
        self._loop = asyncio.get_running_loop()
        self._receiving = self._loop.create_task(self._receive())
        # If nobody closes the client, asyncio must not print an error about this task:
        # the task ends with the connection (_release).
        self._receiving._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001 - as asyncio.gather does

    @classmethod
    async def connect(
        cls,
        address: tuple[str, int],
        settings: Settings,
        make: Make,
        broker: int | None,
    ) -> Connection:
        """Connect, with TLS if the settings say so.

        Raises:
            KafkaGuardError: The broker cannot be reached.
        """
        host, port = address
        place = f"{host}:{port}"
        context = _context(settings, make)
        try:
            reader, transport = await _open_connection(host, port, context)
        except ssl.SSLError as error:
            text = connection_texts.tls_failed(place, error, settings.ca)
            raise make(ClientConfigurationError, text, broker=broker) from error
        except OSError as error:
            if context and _is_closing(error):
                text = connection_texts.closed_in_handshake(place)
                raise make(ClientConfigurationError, text, broker=broker) from error
            reason = error.strerror or str(error)
            text = f"{place} cannot be reached: {reason}"
            raise make(ClientNotConnectedError, text, broker=broker) from error
        return cls(reader, transport, settings, make, address, broker)

    async def enter(self) -> None:
        """Agree on versions and log in; close the connection if this fails.

        Raises:
            KafkaGuardError: The broker refuses the login or does not speak Kafka.
        """
        try:
            await self._agree()
            if self._settings.mechanism is not None:
                host, _ = self.address
                await self._log_in(Login(self._settings, host, self._make))
        except ConnectionLostError as error:
            self.close()
            if error.mistake:
                raise self._make(
                    ClientConfigurationError, error.mistake, broker=self.broker
                ) from error
            text = connection_texts.closed_at_once(
                self._place, error.fault, has_tls=self._settings.tls is not None
            )
            raise self._make(
                ClientNotConnectedError, text, broker=self.broker
            ) from error
        except BaseException:
            self.close()
            raise
        self.is_new = True

    @property
    def _place(self) -> str:
        return "{}:{}".format(*self.address)

    @property
    def is_open(self) -> bool:
        """Whether the connection can be used: not closed, and SASL session not over."""
        now = asyncio.get_running_loop().time()
        expired = self._session_ends is not None and now >= self._session_ends
        return not expired and not self._receiving.done()

    def close(self) -> None:
        """Close at once; requests in flight raise ``ConnectionLostError``."""
        self._receiving.cancel()
        self._give_up()
        self._release()

    def _release(self) -> None:
        """Close the transport; safe in any thread and while the interpreter exits.

        In a forked child this does nothing, because the transport is the parent's. Both
        processes share the epoll object, so removing the socket from the child's loop
        would remove it from the parent's loop.
        """
        if os.getpid() != self._process or self._loop.is_closed():
            return
        with suppress(RuntimeError):  # the loop was closed in the meantime
            self._loop.call_soon_threadsafe(self._transport.abort)

    def offered(self, request: Any) -> tuple[int, int] | None:
        """Return the lowest and highest version that the broker supports."""
        return self._offered.get(request.API_KEY)

    def version(
        self, request: Any, max_version: int | None = None, min_version: int = 0
    ) -> int | None:
        """Return the highest version that both sides support; None if there is none.

        Args:
            request: A request, or its class.
            max_version: The highest version to use. Default: no limit.
            min_version: The lowest version that has the fields which the caller needs.
        """
        offered = self.offered(request)
        if offered is None:
            return None
        lowest, own_highest = request.valid_versions
        highest = min(
            offered[1], own_highest, own_highest if max_version is None else max_version
        )
        return highest if highest >= max(lowest, offered[0], min_version) else None

    async def ask(
        self, request: Any, *, max_version: int | None = None, min_version: int = 0
    ) -> Any:
        """Send a request in the highest common version and wait for the answer.

        Raises:
            KafkaGuardError: There is no common version (nothing is sent), or the answer
                cannot be read.
            ConnectionLostError: The connection ended before the answer.
        """
        version = self.version(request, max_version, min_version)
        if version is None:
            raise self._make(
                UnsupportedVersionError,
                f"the broker offers {_describe_range(self.offered(request))}, and "
                f"kafkaguard has up to {request.max_version}"
                + ("" if max_version is None else f", capped at {max_version}")
                + (f"; this needs {min_version} or higher" if min_version else "")
                + "; nothing was sent",
                api=api_name(request),
                broker=self.broker,
            )
        self.is_new = False
        return await self._ask(request, version)

    async def _ask(self, request: Any, version: int) -> Any:
        if self._receiving.done():
            raise ConnectionLostError(self._fault, self._mistake)
        self._number += 1
        number = self._number
        request.with_header(correlation_id=number, client_id=self._settings.client_id)
        frame = request.encode(version=version, header=True, framed=True)
        answer = asyncio.get_running_loop().create_future()
        response = ResponseClassRegistry.get_response_class(request.header)
        self._waiting[number] = answer, response
        self._transport.write(frame)
        try:
            return await answer
        finally:
            self._waiting.pop(number, None)

    async def _receive(self) -> None:
        try:
            while True:
                first = await self._reader.readexactly(_SIZE_BYTES)
                size = int.from_bytes(first, "big")
                if not _NUMBER_BYTES <= size <= MAX_FRAME_BYTES:
                    self._set_protocol_fault(first)
                    return
                self._deliver(await self._reader.readexactly(size))
        except ssl.SSLError as error:  # TLS 1.3 checks client certificates this late
            self._mistake = connection_texts.tls_failed(
                self._place, error, self._settings.ca
            )
            self._fault = error.reason or str(error)
        except OSError as error:
            self._fault = error.strerror or str(error)
        except asyncio.IncompleteReadError as error:
            if error.partial or error.expected != _SIZE_BYTES:
                self._fault = "it closed within an answer"
        finally:
            self._give_up()
            self._release()

    def _set_protocol_fault(self, first: bytes) -> None:
        """Set the fault for an answer that is not in Kafka's protocol."""
        protocol = name_protocol(first)
        self._fault = f"it answers in {protocol or 'no protocol of Kafka'}"
        if protocol is not None:
            self._mistake = connection_texts.speaks_otherwise(self._place, protocol)

    def _deliver(self, frame: bytes) -> None:
        answer, response = self._waiting.pop(
            int.from_bytes(frame[:_NUMBER_BYTES], "big"), (None, None)
        )
        if answer is None or response is None or answer.done():
            return
        try:
            answer.set_result(response.decode(frame, header=True))
        except Exception as error:  # noqa: BLE001 - the codec raises any exception
            failure = self._make(
                ClientProtocolError,
                f"the answer ({len(frame)} bytes) cannot be read",
                api=api_name(response),
                broker=self.broker,
            )
            failure.__cause__ = error
            answer.set_exception(failure)

    def _give_up(self) -> None:
        if self._loop.is_closed():
            return
        for answer, _ in self._waiting.values():
            if not answer.done():
                answer.set_exception(ConnectionLostError(self._fault, self._mistake))

    async def _agree(self) -> None:
        """Send ApiVersions, and again in version 0 to an old broker (KIP-511)."""
        request = ApiVersionsRequest(
            client_software_name="kafkaguard", client_software_version=__version__
        )
        try:
            answer = await self._ask(request, ApiVersionsRequest.max_version)
            is_old = answer.error_code == UnsupportedVersionError.code
        except ClientProtocolError:  # some servers answer in a different layout
            is_old = True
        if is_old:
            answer = await self._ask(request, 0)
        self._check(answer, request)
        self._offered = {
            each.api_key: (each.min_version, each.max_version)
            for each in answer.api_keys
        }

    async def _log_in(self, login: Login) -> None:
        mechanism = self._settings.mechanism
        handshake = SaslHandshakeRequest(mechanism=mechanism)
        answer = await self.ask(handshake)
        if answer.error_code == IllegalSaslStateError.code:
            text = connection_texts.uses_no_sasl(self._place)
        else:
            offered = ", ".join(answer.mechanisms) or "no mechanism"
            text = f"SASL {mechanism}: {self._place} offers {offered}"
        self._check(answer, handshake, text)
        while (data := await login.next_bytes()) is not None:
            request = SaslAuthenticateRequest(auth_bytes=data)
            answer = await self.ask(request)
            self._check(answer, request, f"SASL {mechanism}: {answer.error_message}")
            login.receive(answer.auth_bytes)
        lifetime = getattr(answer, "session_lifetime_ms", 0) or 0
        if lifetime > 0:
            now = asyncio.get_running_loop().time()
            self._session_ends = now + lifetime / 1000 * _SESSION_SHARE

    def _check(self, answer: Any, request: Any, text: str | None = None) -> None:
        if answer.error_code:
            api = api_name(request)
            raise self._make(answer.error_code, text, api=api, broker=self.broker)


async def _open_connection(
    host: str, port: int, context: ssl.SSLContext | None
) -> tuple[asyncio.StreamReader, asyncio.WriteTransport]:
    """Connect without asyncio's StreamWriter.

    A StreamWriter that nobody closes closes its transport when it is garbage-collected,
    in any thread. In a forked child, that would change the parent's loop.
    """
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(loop=loop)
    transport, _ = await loop.create_connection(
        lambda: asyncio.StreamReaderProtocol(reader, loop=loop), host, port, ssl=context
    )
    return reader, transport


def _is_closing(error: OSError) -> bool:
    """Return whether the connection was open, and the other side closed it."""
    is_reset = isinstance(error, ConnectionResetError)
    return is_reset or (isinstance(error, ConnectionError) and not error.errno)


def _context(settings: Settings, make: Make) -> ssl.SSLContext | None:
    try:
        return settings.tls() if settings.tls else None
    except OSError as error:  # a file is missing, or is not what it should be
        reason = error.strerror or (error.args[0] if error.args else error)
        text = f"TLS cannot be set up: {reason}"
        file_text = f" ({error.filename})" if error.filename else ""
        advice = (
            "check the PEM files of the CA, the client's certificate and its key, and "
            "the list of ciphers"
        )
        raise make(ClientConfigurationError, f"{text}{file_text}: {advice}") from error


def api_name(message: Any) -> str:
    """Return Kafka's name for a request or response of the protocol engine."""
    name: str = message.name
    return name.removesuffix("Request").removesuffix("Response")


def _describe_range(offered: tuple[int, int] | None) -> str:
    return "no such request" if offered is None else "versions {}..{}".format(*offered)
