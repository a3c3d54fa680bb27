"""Messages on the command line: hexadecimal digits in, text and JSON out."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any
from uuid import UUID

from kafkaguard import errors
from kafkaguard.protocol._uuids import format_uuid

if TYPE_CHECKING:
    from collections.abc import Iterator


# xxd and tcpdump write "00000010: 003e 0004  .>..", hexdump -C "00000010  00 3e  |.>|".
_COLON = re.compile(r"^\s*(?:0x)?[0-9a-fA-F]{4,16}: ?")
_CANONICAL = re.compile(r"^[0-9a-fA-F]{8,16}(?=  |$)")
_DECORATION = re.compile(r"0x|\\x|[\s:,-]")


def from_hex(text: str) -> bytes | None:
    """Parse hexadecimal digits, plain or as xxd, hexdump -C or tcpdump -X print them.

    Returns:
        The bytes; None if the text contains anything else.
    """
    lines = text.strip("\r\n").splitlines()
    canonical = any(_CANONICAL.match(line) and "  " in line for line in lines)
    digits = "".join(_digits(line, canonical=canonical) for line in lines)
    try:
        return bytes.fromhex(_DECORATION.sub("", digits)) or None
    except ValueError:
        return None


def _digits(line: str, *, canonical: bool) -> str:
    if canonical:
        return _CANONICAL.sub("", line).partition("|")[0]
    if _COLON.match(line):
        return re.split(r"\s{2,}", _COLON.sub("", line).strip())[0]
    return line


def is_text(data: bytes) -> bool:
    """Return whether this is text: Kafka messages always have a zero byte."""
    return data.isascii() and b"\0" not in data


_SHOWN_BYTES = 64
_CREDENTIALS = {"auth_bytes", "salted_password", "salt", "hmac"}


def without_credentials(value: Any) -> Any:
    """Remove the fields that contain credentials."""
    if isinstance(value, dict):
        return {
            key: f"{len(inner)} bytes, hidden"
            if key in _CREDENTIALS and inner
            else without_credentials(inner)
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [without_credentials(inner) for inner in value]
    return value


def as_json_knows(value: Any) -> Any:
    """Convert content to JSON types: ids as Kafka prints them, bytes as digits."""
    if isinstance(value, dict):
        return {str(key): as_json_knows(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [as_json_knows(inner) for inner in value]
    if isinstance(value, UUID):
        return format_uuid(value)
    return value.hex() if isinstance(value, bytes) else value


def lines(content: dict[Any, Any]) -> Iterator[str]:
    """Write content as indented lines, error codes with their names."""
    for key, value in content.items():
        inner = _inner(value)
        if inner:
            yield f"{key}:"
            yield from (f"  {line}" for line in inner)
        else:
            yield f"{key}: {_shown(key, value)}"


def _inner(value: Any) -> list[str]:
    if isinstance(value, dict):
        return list(lines(value))
    if isinstance(value, list):
        return [line for element in value for line in _bulleted(element)]
    return []


def _bulleted(element: Any) -> Iterator[str]:
    inner = _inner(element) or [_shown(None, element)]
    for mark, line in zip(["- ", *["  "] * len(inner)], inner, strict=False):
        yield f"{mark}{line}"


def _shown(key: object, value: Any) -> str:
    if key == "error_code" and value:
        return f"{value} {errors.for_code(value).name}"
    if isinstance(value, bytes):
        more = f"... ({len(value)} bytes)" if len(value) > _SHOWN_BYTES else ""
        return f"0x{value[:_SHOWN_BYTES].hex()}{more}"
    if isinstance(value, UUID):
        return format_uuid(value)
    return json.dumps(value, ensure_ascii=False)
