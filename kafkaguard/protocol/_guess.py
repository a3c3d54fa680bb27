"""Find the API and version of a message from its bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkaguard.protocol._errors import ProtocolError
from kafkaguard.protocol._message import message

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaguard.protocol._message import Message

_SIZE = 4


def split_frames(data: bytes) -> list[bytes]:
    """Split the bytes of a connection into messages, without their sizes.

    Returns:
        The messages; the data unchanged if it does not consist of frames.
    """
    messages, position = [], 0
    while position + _SIZE <= len(data):
        start = position + _SIZE
        position = start + int.from_bytes(data[position:start], "big")
        messages.append(data[start:position])
    return messages if messages and position == len(data) else [data]


def guess_request(data: bytes) -> tuple[Message, int]:
    """Read the message and version from the start of a request's header.

    Raises:
        ProtocolError: The data does not start with the number of a known message.
    """
    if len(data) < _SIZE:
        raise ProtocolError(f"{len(data)} bytes are not a Kafka message", offset=0)
    key = int.from_bytes(data[:2], "big", signed=True)
    try:
        message_type = message(key)
    except ProtocolError as error:
        raise ProtocolError(f"no header of a request: {error}", offset=0) from None
    return message_type, int.from_bytes(data[2:4], "big", signed=True)


def guess_version(
    message_type: Message, read: Callable[[int], dict[str, Any]]
) -> tuple[int, dict[str, Any]]:
    """Find the newest version in which a message can be decoded.

    Args:
        message_type: The message.
        read: Decodes it as a given version.

    Returns:
        The version and the decoded content.

    Raises:
        ProtocolError: No version fits.
    """
    first, last = (
        message_type.min_supported_version(),
        message_type.max_supported_version(),
    )
    problems: list[ProtocolError] = []
    for version in range(last, first - 1, -1):
        try:
            return version, read(version)
        except ProtocolError as problem:
            problems.append(problem)
    raise ProtocolError(
        f"none of the versions {first} to {last} fits; the newest says: {problems[0]}",
        message=message_type.name,
    )
