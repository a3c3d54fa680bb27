"""A Kafka message: request and response, with their headers, in all versions.

The header of a message depends on its version: flexible versions have a header with
tags. Kafka has two exceptions (KIP-511). An ApiVersions response always has the old
header, because the client does not know yet which versions the broker supports. A
response with code 35 to an ApiVersions request has the layout of version 0, whatever
version was requested.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from kafkaguard._common.arguments import flag, wrong_type
from kafkaguard._verdicts.apis import API_KEYS
from kafkaguard._verdicts.request_names import no_such_request, request_named
from kafkaguard.protocol._errors import MalformedError, ProtocolError
from kafkaguard.protocol._layout import layout, load, names
from kafkaguard.protocol._scalars import Source, raise_wrong_type

if TYPE_CHECKING:
    from kafkaguard.protocol._nodes import Struct


HEADER = "header"
_CLIENT_ID = "kafkaguard"
_UNSUPPORTED_VERSION = 35


class Direction:
    """One direction of a message.

    Args:
        api: Kafka's name of the message.
        side: ``Request`` or ``Response``.
    """

    def __init__(self, api: str, side: str) -> None:
        self._api = api
        self._name = f"{api}{side}"
        self._header_name = f"{side}Header"
        self._is_request = side == "Request"

    def encode(
        self,
        content: Mapping[str, Any],
        version: int,
        with_header: bool,
        header: Mapping[str, Any] | None,
    ) -> bytes:
        """Write a message."""
        self._check_version(version)
        flag("with_header", with_header)
        target = bytearray()
        try:
            body, own_header = _split_header(content)
            if with_header:
                header_fields = {
                    **self._identity(version),
                    **({"client_id": _CLIENT_ID} if self._is_request else {}),
                    **own_header,
                    **(header or {}),
                }
                self._write_header(target, version, header_fields)
            code = body.get("error_code")
            layout(self._name, self._body_version(version, code)).write(target, body)
        except MalformedError as problem:
            raise problem.within(self._name, version) from None
        return bytes(target)

    def decode(self, data: bytes, version: int, with_header: bool) -> dict[str, Any]:
        """Read a message."""
        self._check_version(version)
        flag("with_header", with_header)
        content: dict[str, Any] = {}
        try:
            source = Source(_as_bytes(data))
            if with_header:
                content[HEADER] = self._read_header(source, version)
            code = int.from_bytes(source.data[source.position :][:2], "big")
            body = layout(self._name, self._body_version(version, code))
            content |= body.read(source)
            source.finish()
        except MalformedError as problem:
            raise problem.within(self._name, version) from None
        return content

    def _check_version(self, version: int) -> None:
        versions = load(self._name).versions
        if isinstance(version, bool) or not isinstance(version, int):
            problem = f"a version is a number, not {type(version).__name__}"
            raise ProtocolError(problem, message=self._name)
        if version not in versions:
            removed = " (Kafka 4 removed older ones, KIP-896)" if versions.first else ""
            raise ProtocolError(
                f"there are versions {versions.first} to {versions.last}{removed}",
                message=self._name,
                version=version,
            )

    def _body_version(self, version: int, code: object) -> int:
        if self._name == "ApiVersionsResponse" and code == _UNSUPPORTED_VERSION:
            return 0
        return version

    def _header(self, version: int) -> Struct:
        versions = load(self._header_name).versions
        flexible = version in load(self._name).flexible
        if self._name == "ApiVersionsResponse":
            flexible = False
        return layout(self._header_name, versions.last if flexible else versions.first)

    def _identity(self, version: int) -> dict[str, int]:
        if not self._is_request:
            return {}
        key = API_KEYS[self._api]
        return {"request_api_key": key, "request_api_version": version}

    def _write_header(
        self, target: bytearray, version: int, header: Mapping[str, Any]
    ) -> None:
        self._check_identity(header, version)
        try:
            self._header(version).write(target, header)
        except MalformedError as problem:
            raise problem.inside(HEADER) from None

    def _read_header(self, source: Source, version: int) -> dict[str, Any]:
        try:
            header = self._header(version).read(source)
        except MalformedError as problem:
            raise problem.inside(HEADER) from None
        self._check_identity(header, version, offset=0)
        return header

    def _check_identity(
        self, header: Mapping[str, Any], version: int, offset: int | None = None
    ) -> None:
        for name, expected in self._identity(version).items():
            if header[name] != expected:
                problem = f"{header[name]}, and this message's is {expected}"
                raise MalformedError(problem, offset).inside(f"{HEADER}.{name}")


def _split_header(content: object) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """Separate the content and its header."""
    body = dict(_check_mapping(content))
    try:
        return body, _check_mapping(body.pop(HEADER, {}))
    except MalformedError as problem:
        raise problem.inside(HEADER) from None


def _check_mapping(value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise_wrong_type("a dict", value)
    return value


def _as_bytes(data: object) -> bytes:
    if isinstance(data, bytes):
        return data
    if isinstance(data, (bytearray, memoryview)):
        return bytes(data)
    raise MalformedError(f"bytes needed, not {type(data).__name__}", 0)


class Message:
    """A Kafka message: its request and its response.

    Content is a dict with Kafka's field names in snake case, such as ``broker_id``. A
    missing field has Kafka's default. A field that no version has is an error. Structs
    keep tags that the schema does not know under ``unknown_tags``, a dict from number
    to bytes. The header, if there is one, is a dict under ``header``.

    Attributes:
        name: Kafka's name, such as ``BrokerRegistration``.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._request = Direction(name, "Request")
        self._response = Direction(name, "Response")

    def __repr__(self) -> str:
        """Show the name and the versions."""
        first, last = self.min_supported_version(), self.max_supported_version()
        return f"<Message {self.name} v{first} to v{last}>"

    def api_key(self) -> int:
        """Return the API key of the message."""
        return API_KEYS[self.name]

    def min_supported_version(self) -> int:
        """Return the oldest version in Kafka 4 (KIP-896 removed older ones)."""
        return load(f"{self.name}Request").versions.first

    def max_supported_version(self) -> int:
        """Return the newest version."""
        return load(f"{self.name}Request").versions.last

    def serialize_request(
        self,
        content: Mapping[str, Any],
        version: int,
        with_header: bool = True,
        *,
        request_header: Mapping[str, Any] | None = None,
    ) -> bytes:
        """Encode a request, without the four bytes of the frame's size.

        Args:
            content: The fields. A field that the version lacks is left out if Kafka
                declares it ignorable or it has its default.
            version: The version.
            with_header: Whether to write the header first.
            request_header: ``correlation_id`` (0) and ``client_id`` ("kafkaguard", may
                be None); they override those in the content's ``header``.

        Returns:
            The bytes.

        Raises:
            ProtocolError: The content cannot be encoded as this message and version.
            TypeError: ``with_header`` is not a bool.
        """
        return self._request.encode(content, version, with_header, request_header)

    def deserialize_request(
        self, data: bytes, version: int, with_header: bool = True
    ) -> dict[str, Any]:
        """Decode a request, without the four bytes of the frame's size.

        Args:
            data: All bytes of the request.
            version: The version.
            with_header: Whether a header comes first.

        Returns:
            The fields of that version, ids as ``uuid.UUID``, and the ``header``.

        Raises:
            ProtocolError: The bytes are not this message; the error has the offset.
            TypeError: ``with_header`` is not a bool.
        """
        return self._request.decode(data, version, with_header)

    def serialize_response(
        self,
        content: Mapping[str, Any],
        version: int,
        with_header: bool = True,
        *,
        response_header: Mapping[str, Any] | None = None,
    ) -> bytes:
        """Encode a response, as :meth:`serialize_request` encodes a request.

        Args:
            content: The fields.
            version: The version of the request that it answers.
            with_header: Whether to write the header first.
            response_header: ``correlation_id`` (0); it overrides that in the content's
                ``header``.
        """
        return self._response.encode(content, version, with_header, response_header)

    def deserialize_response(
        self, data: bytes, version: int, with_header: bool = True
    ) -> dict[str, Any]:
        """Decode a response, as :meth:`deserialize_request` decodes a request.

        Error codes stay numbers, whether they are known or not.
        """
        return self._response.decode(data, version, with_header)


def message(name: str | int) -> Message:
    """Look up a message.

    Args:
        name: Kafka's name (``DescribeLogDirs``, also ``describe_log_dirs``) or number.

    Returns:
        The message.

    Raises:
        ProtocolError: Kafka has no such message, or its schema is not available.
        TypeError: ``name`` is neither a name nor a number.
    """
    if not isinstance(name, str | int):
        raise wrong_type("message()", "a name (str) or a number (int)", name)
    request_name = request_named(name)
    if request_name is None:
        raise ProtocolError(no_such_request(name))
    return _message(request_name)


@cache
def _message(name: str) -> Message:
    if name not in names():
        raise ProtocolError(
            f"the schema of {name} ({API_KEYS[name]}) is not known here; "
            "kafkaguard.protocol.message_names() lists those that are"
        )
    return Message(name)


def message_names() -> tuple[str, ...]:
    """Return the names of all messages that ``message`` knows, by API key."""
    return names()
