"""Kafka frames: read from a stream, with decoded headers and bodies.

A frame is a length of four bytes, a header and a body. A request's header contains API
and version. An answer's header only repeats the correlation id, so an answer is decoded
with the header of its request.
"""

from __future__ import annotations

import asyncio
import io
import struct
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, Final

from kafkaguard._verdicts.apis import API_NAMES

#: ``socket.request.max.bytes`` of a broker with default settings.
MAX_FRAME_BYTES: Final = 104_857_600

_PREFIX: Final = 4
_HEADER = struct.Struct(">hhih")
_CORRELATION = struct.Struct(">i")
_TLS_HANDSHAKE: Final = b"\x16\x03"
_TLS_ALERT: Final = b"\x15\x03"
_MAX_VARINT_SHIFT: Final = 28
# For a varint without end, the time of the compiled decoder grows with the square of
# the frame's size. The interpreted decoder is slower, but limits the varint.
_COMPILED_UP_TO: Final = 32_768
_API_VERSIONS: Final = 18
_UNSUPPORTED_VERSION: Final = b"\0\x23"  # code 35, answered in the oldest format
_PRODUCE: Final = 0


class GarbageError(Exception):
    """Bytes that are not a Kafka frame; the text says why."""


@dataclass(frozen=True, slots=True)
class Header:
    """The header of a request.

    Attributes:
        body_at: The offset of the body in the frame, including the length field.
    """

    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    body_at: int

    @property
    def api(self) -> str:
        """Kafka's name of the API, or its number if there is no name."""
        return API_NAMES.get(self.api_key, f"api {self.api_key}")


async def read_frame(
    reader: asyncio.StreamReader, max_bytes: int = MAX_FRAME_BYTES
) -> bytes | None:
    """Read one frame with its length; None at the end of the stream.

    Raises:
        GarbageError: The length is impossible, or the stream ends within a frame.
    """
    try:
        prefix = await reader.readexactly(_PREFIX)
        size = _checked_size(prefix, max_bytes)
        return prefix + await reader.readexactly(size)
    except asyncio.IncompleteReadError as error:
        if error.expected == _PREFIX and not error.partial:
            return None
        raise GarbageError(
            f"the stream ended after {len(error.partial)} of {error.expected} bytes"
        ) from None


def _checked_size(prefix: bytes, max_bytes: int) -> int:
    size: int = _CORRELATION.unpack(prefix)[0]
    if _PREFIX <= size <= max_bytes:
        return size
    if prefix.startswith((_TLS_HANDSHAKE, _TLS_ALERT)):
        raise GarbageError(
            "these bytes are TLS, which the proxy does not support: use a PLAINTEXT "
            "or SASL_PLAINTEXT listener on both sides"
        )
    raise GarbageError(f"a frame of {size} bytes; 4 to {max_bytes} are possible")


def read_header(frame: bytes) -> Header:
    """Read the header of a request.

    Raises:
        GarbageError: The frame is too short.
    """
    try:
        api_key, version, correlation_id, size = _HEADER.unpack_from(frame, _PREFIX)
        at = _PREFIX + _HEADER.size
        end = at + max(size, 0)
        client_id = None if size < 0 else frame[at:end].decode()
        body_at = _skip_tags(frame, end) if _is_flexible(api_key, version) else end
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise GarbageError(f"no request header: {error}") from None
    if body_at > len(frame):
        raise GarbageError("a request header that is longer than its frame")
    return Header(api_key, version, correlation_id, client_id, body_at)


def correlation_id(answer: bytes) -> int:
    """Read the correlation id of an answer."""
    number: int = _CORRELATION.unpack_from(answer, _PREFIX)[0]
    return number


def answer_header(request: Header) -> bytes:
    """Return the header for an answer to a request, without tags."""
    tags = b"\0" if _answer_is_flexible(request) else b""
    return _CORRELATION.pack(request.correlation_id) + tags


def decode_request(header: Header, frame: bytes) -> Any:
    """Decode the body of a request; None if its API or version is unknown.

    Raises:
        GarbageError: The body does not match its version.
    """
    schema = request_schema(header.api_key, header.version)
    return schema and _decode(schema, header.version, frame[header.body_at :])


def decode_answer(header: Header, frame: bytes) -> Any:
    """Decode the answer to a request; None if its API or version is unknown.

    Raises:
        GarbageError: The answer does not match this version.
    """
    schema = answer_schema(header.api_key, header.version)
    if schema is None:
        return None
    body = frame[_answer_body_at(header, frame) :]
    unsupported = header.api_key == _API_VERSIONS and body[:2] == _UNSUPPORTED_VERSION
    return _decode(schema, 0 if unsupported else header.version, body)


def encode_request(header: Header, frame: bytes, body: Any) -> bytes:
    """Encode a changed body after the request's own header."""
    return _framed(frame[_PREFIX : header.body_at], _encode(body, header.version))


def encode_answer(header: Header, body: Any) -> bytes:
    """Encode an answer to a request, in the request's version."""
    return _framed(answer_header(header), _encode(body, header.version))


def expects_answer(header: Header, body: Any) -> bool:
    """Return whether a request has an answer: a Produce with ``acks=0`` has none."""
    return header.api_key != _PRODUCE or body is None or body.acks != 0


def request_schema(api_key: int, version: int) -> Any:
    """Return the message class of a request, or None if it is unknown."""
    return _if_supported(_schemas()[0].get(api_key), version)


def answer_schema(api_key: int, version: int) -> Any:
    """Return the message class of an answer, or None if it is unknown."""
    return _if_supported(_schemas()[1].get(api_key), version)


def struct_of(message: Any) -> Any:
    """Return the schema of a message, of its class, or of a part of it."""
    return message._struct  # noqa: SLF001 - kafka-python has no public way to it


def max_version(api_key: int) -> int | None:
    """Return the highest version of an API that can be decoded, or None."""
    schema = _schemas()[0].get(api_key)
    return None if schema is None else schema.max_version


@cache
def _schemas() -> tuple[dict[int, Any], dict[int, Any]]:
    """Return kafka-python's classes of requests and of answers, by API key."""
    requests: dict[int, Any] = {}
    answers: dict[int, Any] = {}
    for part in ("admin", "consumer", "metadata", "producer", "sasl"):
        module = import_module(f"kafka.protocol.{part}")
        for name, value in vars(module).items():
            key = getattr(value, "API_KEY", None)
            if key is not None:
                (requests if name.endswith("Request") else answers)[key] = value
    return requests, answers


def _if_supported(schema: Any, version: int) -> Any:
    return schema if schema and 0 <= version <= schema.max_version else None


def _is_flexible(api_key: int, version: int) -> bool:
    schema = request_schema(api_key, version)
    return bool(schema and schema.flexible_version_q(version))


def _answer_is_flexible(request: Header) -> bool:
    # Clients read this answer before they know the broker's versions.
    if request.api_key == _API_VERSIONS:
        return False
    return _is_flexible(request.api_key, request.version)


def _answer_body_at(request: Header, frame: bytes) -> int:
    at = _PREFIX + _CORRELATION.size
    try:
        return _skip_tags(frame, at) if _answer_is_flexible(request) else at
    except IndexError:
        raise GarbageError("an answer that ends within its header") from None


def _skip_tags(frame: bytes, at: int) -> int:
    count, at = _varint(frame, at)
    for _ in range(count):
        _, at = _varint(frame, at)
        size, at = _varint(frame, at)
        at += size
    return at


def _varint(frame: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, _MAX_VARINT_SHIFT + 1, 7):
        byte = frame[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the bit that says "more follows"
            return value, at
    raise GarbageError("a number without end in a header")


def _decode(schema: Any, version: int, body: bytes) -> Any:
    flexible = schema.flexible_version_q(version)
    arguments = (version, flexible, flexible)
    try:
        if len(body) > _COMPILED_UP_TO:
            stream = io.BytesIO(body)
            return struct_of(schema).decode(stream, *arguments, data_class=schema)
        decode = struct_of(schema).compiled_decode_from(*arguments, schema)
        message, end = decode(memoryview(body), 0)
    except (ValueError, struct.error, IndexError, TypeError, OverflowError) as error:
        raise GarbageError(f"not a {schema.__name__} v{version}: {error}") from None
    if end > len(body):
        raise GarbageError(f"a {schema.__name__} v{version} that is cut short")
    return message


def _encode(body: Any, version: int) -> bytes:
    body._header = None  # noqa: SLF001 - a decoded message has none, and encode() looks
    # An answer to ApiVersions may be of an older version than its request.
    return bytes(body.encode(version=version if body.version is None else body.version))


def _framed(head: bytes, body: bytes) -> bytes:
    return _CORRELATION.pack(len(head) + len(body)) + head + body
