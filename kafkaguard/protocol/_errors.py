"""``ProtocolError``, and how it collects the path of a field."""

from __future__ import annotations


class ProtocolError(ValueError):
    """Bytes that are no such message, or content that cannot be written as one.

    The text names the message, its version, the field and, when reading, the offset;
    never the value of a string or of bytes, which may be a record or a password.

    Attributes:
        message: The message, as ``BrokerRegistrationRequest``; None if that is unknown.
        version: Its version; None if that is unknown.
        field: Where in the content, as ``listeners[0].port``; empty for the whole.
        offset: Where in the bytes, from their start; None when writing.
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
    """A problem on its way up: each struct and array that it leaves adds its name."""

    def __init__(self, problem: str, offset: int | None = None) -> None:
        self.problem = problem
        self.offset = offset
        self.field = ""

    def inside(self, step: str) -> MalformedError:
        """Say that it happened inside this field or element."""
        separator = "." if self.field and not self.field.startswith("[") else ""
        self.field = f"{step}{separator}{self.field}"
        return self

    def within(self, message: str, version: int) -> ProtocolError:
        """Turn it into what users see."""
        return ProtocolError(
            self.problem,
            message=message,
            version=version,
            field=self.field,
            offset=self.offset,
        )
