"""A Kafka message: request and response, in all versions."""

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
    """Return the names of all messages that ``message`` knows, by API key."""
    return names()
