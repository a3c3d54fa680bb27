"""``ProtocolError``, and how it collects the path of a field."""

from __future__ import annotations

from kafkaguard._common.public import public


@public("kafkaguard.errors")
class ProtocolError(ValueError):
    """Bytes that are not the expected message, or content that cannot be encoded.

    The text names the message, its version, the field and, when decoding, the offset.
    It never contains the value of a string or of bytes, which may be a record or a
    password.

    Attributes:
        message: The message, such as ``BrokerRegistrationRequest``; None if unknown.
        version: Its version; None if unknown.
        field: The field, such as ``listeners[0].port``; empty for the whole message.
        offset: The offset in the bytes; None when encoding.
    """

    def __init__(
        self,
        problem: str,
        *,
        message: str | None = None,
        version: int | None = None,
        field: str = "",
        offset: int | None = None,
    ) -> None:
        where = [message, None if version is None else f"v{version}"]
        place = [field, None if offset is None else f"offset {offset}"]
        parts = [" ".join(filter(None, where)), ", ".join(filter(None, place)), problem]
        super().__init__(": ".join(filter(None, parts)))
        self.message = message
        self.version = version
        self.field = field
        self.offset = offset


class MalformedError(Exception):
    """A problem in a message, to which each outer struct and array adds its name."""

    def __init__(self, problem: str, offset: int | None = None) -> None:
        self.problem = problem
        self.offset = offset
        self.field = ""

    def inside(self, step: str) -> MalformedError:
        """Add the name of the field or element in which the problem is."""
        separator = "." if self.field and not self.field.startswith("[") else ""
        self.field = f"{step}{separator}{self.field}"
        return self

    def within(self, message: str, version: int) -> ProtocolError:
        """Make the error that users see."""
        return ProtocolError(
            self.problem,
            message=message,
            version=version,
            field=self.field,
            offset=self.offset,
        )
