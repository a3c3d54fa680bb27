"""A Kafka message: request and response, in every version."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from kafkaguard._common.arguments import wrong_type
from kafkaguard._verdicts.apis import API_KEYS
from kafkaguard._verdicts.request_names import no_such_request, request_named
from kafkaguard.protocol._direction import Direction
from kafkaguard.protocol._errors import ProtocolError
from kafkaguard.protocol._schema import load, names

if TYPE_CHECKING:
    from collections.abc import Mapping


class Message:
    """One of Kafka's messages: its request and its response.

    Content is a dict with Kafka's field names in lower case, as ``broker_id``. What is
    left out has Kafka's default; what no version knows is an error. Structs keep tags
    that the schema does not know under ``unknown_tags``, a dict from number to bytes.
    The header, where there is one, is the content's ``header``, a dict too.

    Attributes:
        name: Kafka's name, as ``BrokerRegistration``.
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
        """Return the number of the message."""
        return API_KEYS[self.name]

    def min_supported_version(self) -> int:
        """Return the oldest version that Kafka 4 knows (KIP-896 removed older ones)."""
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
        """Write a request, without the four bytes of the frame's size.

        Args:
            content: The fields. A field that the version lacks is left out if Kafka
                calls it ignorable or it has its default.
            version: The version.
            with_header: Whether the header goes before it.
            request_header: ``correlation_id`` (0) and ``client_id`` ("kafkaguard", may
                be None), above those in the content's ``header``.

        Returns:
            The bytes.

        Raises:
            ProtocolError: The content cannot be written as this message and version.
        """
        return self._request.encode(content, version, with_header, request_header)

    def deserialize_request(
        self, data: bytes, version: int, with_header: bool = True
    ) -> dict[str, Any]:
        """Read a request, without the four bytes of the frame's size.

        Args:
            data: All of it.
            version: The version.
            with_header: Whether a header comes first.

        Returns:
            The fields of that version, ids as ``uuid.UUID``, and the ``header``.

        Raises:
            ProtocolError: This is no such message, with the offset.
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
        """Write a response, as :meth:`serialize_request` writes a request.

        Args:
            content: The fields.
            version: The version of the request that it answers.
            with_header: Whether the header goes before it.
            response_header: ``correlation_id`` (0), above that in the content's.
        """
        return self._response.encode(content, version, with_header, response_header)

    def deserialize_response(
        self, data: bytes, version: int, with_header: bool = True
    ) -> dict[str, Any]:
        """Read a response, as :meth:`deserialize_request` reads a request.

        Error codes are the numbers that they are, known or not.
        """
        return self._response.decode(data, version, with_header)


def message(name: str | int) -> Message:
    """Look a message up.

    Args:
        name: Kafka's name (``DescribeLogDirs``, also ``describe_log_dirs``) or number.

    Returns:
        The message.

    Raises:
        ProtocolError: Kafka has no such message, or its schema is not known here.
        TypeError: ``name`` is neither a name nor a number.
    """
    if not isinstance(name, str | int):
        raise wrong_type("message()", "a name (str) or a number (int)", name)
    known = request_named(name)
    if known is None:
        raise ProtocolError(no_such_request(name))
    return _message(known)


@cache
def _message(name: str) -> Message:
    if name not in names():
        raise ProtocolError(
            f"the schema of {name} ({API_KEYS[name]}) is not known here; "
            "kafkaguard.protocol.message_names() lists those that are"
        )
    return Message(name)


def message_names() -> tuple[str, ...]:
    """Name the messages that ``message`` knows, in the order of their numbers."""
    return names()
