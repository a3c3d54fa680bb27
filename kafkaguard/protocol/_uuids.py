"""Kafka's ids in all their forms."""

from __future__ import annotations

import base64
from uuid import UUID

from kafkaguard.protocol._errors import ProtocolError

_BYTES = 16
_TEXT = 22
#: Kafka's "none" (and, in a log directory, "not assigned").
ZERO = UUID(int=0)


def parse_uuid(value: UUID | bytes | str | None) -> UUID:
    """Parse an id.

    Args:
        value: A ``uuid.UUID``, 16 bytes, 32 hexadecimal digits with or without hyphens,
            or the 22 characters of URL-safe base64 that Kafka prints. None is Kafka's
            zero id.

    Returns:
        The id.

    Raises:
        ProtocolError: The value is none of these.
    """
    if isinstance(value, UUID):
        return value
    if value is None:
        return ZERO
    if isinstance(value, str):
        return _from_text(value)
    if isinstance(value, (bytes, bytearray, memoryview)) and len(value) == _BYTES:
        return UUID(bytes=bytes(value))
    raise ProtocolError(f"a uuid cannot be made of {_describe(value)}; {_FORMS}")


def format_uuid(value: UUID | bytes | str | None) -> str:
    """Format an id as Kafka prints it: 22 characters of URL-safe base64.

    Raises:
        ProtocolError: The value is not an id.
    """
    encoded = base64.urlsafe_b64encode(parse_uuid(value).bytes)
    return encoded.decode().rstrip("=")


def _from_text(text: str) -> UUID:
    try:
        if len(text) == _TEXT:
            parsed = UUID(bytes=base64.b64decode(f"{text}==", b"-_"))
            if format_uuid(parsed) == text:
                return parsed
        elif text.count("-") in (0, 4):
            return UUID(text)
    except ValueError:
        pass
    raise ProtocolError(f"a uuid cannot be made of {_describe(text)}; {_FORMS}")


_FORMS = (
    "give a uuid.UUID, 16 bytes, 32 hexadecimal digits or the 22 characters that "
    "Kafka prints"
)


def _describe(value: object) -> str:
    kind = type(value).__name__
    if isinstance(value, str):
        return f"a text of {len(value)} characters"
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f"{len(value)} bytes"
    return f"a value of type {kind}"
