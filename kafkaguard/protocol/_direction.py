"""Requests or responses of one API, with their headers.

The header of a message depends on its version: flexible versions have a header with
tags. Kafka has two exceptions (KIP-511). An ApiVersions response always has the old
header, because the client does not know yet which versions the broker supports. A
response with code 35 to an ApiVersions request has the layout of version 0, whatever
version was requested.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kafkaguard._common.arguments import flag
from kafkaguard._verdicts.apis import API_KEYS
from kafkaguard.protocol._errors import MalformedError, ProtocolError
from kafkaguard.protocol._layout import layout
from kafkaguard.protocol._scalars import raise_wrong_type
from kafkaguard.protocol._schema import load
from kafkaguard.protocol._source import Source

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
            body, own_header = _apart(content)
            if with_header:
                written = {**self._defaults(version), **own_header, **(header or {})}
                self._write_header(target, version, written)
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
        known = load(self._name).versions
        if isinstance(version, bool) or not isinstance(version, int):
            problem = f"a version is a number, not {type(version).__name__}"
            raise ProtocolError(problem, message=self._name)
        if version not in known:
            removed = " (Kafka 4 removed older ones, KIP-896)" if known.first else ""
            raise ProtocolError(
                f"there are versions {known.first} to {known.last}{removed}",
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

    def _defaults(self, version: int) -> dict[str, Any]:
        if not self._is_request:
            return {}
        return {**self._identity(version), "client_id": _CLIENT_ID}

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
        for name, mine in self._identity(version).items():
            if header[name] != mine:
                problem = f"{header[name]}, and this message's is {mine}"
                raise MalformedError(problem, offset).inside(f"{HEADER}.{name}")


def _apart(content: object) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """Separate the content and its header."""
    body = dict(_mapping(content))
    try:
        return body, _mapping(body.pop(HEADER, {}))
    except MalformedError as problem:
        raise problem.inside(HEADER) from None


def _mapping(value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise_wrong_type("a dict", value)
    return value


def _as_bytes(data: object) -> bytes:
    if isinstance(data, bytes):
        return data
    if isinstance(data, (bytearray, memoryview)):
        return bytes(data)
    raise MalformedError(f"bytes needed, not {type(data).__name__}", 0)
