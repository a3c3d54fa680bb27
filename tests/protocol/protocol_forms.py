"""Every message in each direction and version, and what must hold for any bytes."""

from __future__ import annotations

from uuid import UUID

from kafkaguard.errors import ProtocolError
from kafkaguard.protocol import message, message_names
from kafkaguard.protocol._layout import load

VALUES = {
    **dict.fromkeys(("int8", "int16", "uint16", "int32", "int64"), 7),
    "bool": True,
    "float64": 1.5,
    "uuid": UUID(int=7),
    "string": "text",
    "bytes": b"bytes",
    "records": b"records",
}


class Form:
    """A message in one direction and version."""

    def __init__(self, found, side, version):
        self.name = f"{found.name}{side.capitalize()}"
        self.version = version
        self.schema = load(self.name)
        self._deserialize = getattr(found, f"deserialize_{side}")
        self._serialize = getattr(found, f"serialize_{side}")

    def __repr__(self):
        """Show what it is."""
        return f"{self.name} v{self.version}"

    def read(self, data, **how):
        """Read bytes as this."""
        return self._deserialize(data, self.version, **how)

    def write(self, content, **how):
        """Write content as this."""
        return self._serialize(content, self.version, **how)

    def sample(self):
        """Write a message in which nothing is empty."""
        return self.write(full_content(self.schema.fields, self.version))

    def check(self, data):
        """Read the data, and say whether they were a message.

        Raises:
            AssertionError: What was read cannot be written and read again, or what was
                refused was refused without an offset.
        """
        try:
            content = self.read(data)
        except ProtocolError as error:
            refused = error
        else:
            written = self.write(content)
            assert written == self.write(self.read(written)), (self, data)
            return True
        assert refused.offset is not None, (self, refused)
        assert 0 <= refused.offset <= len(data), (self, refused)
        return False


def forms():
    """Name every message in each direction and version."""
    for name in message_names():
        found = message(name)
        last = found.max_supported_version()
        for version in range(found.min_supported_version(), last + 1):
            yield Form(found, "request", version)
            yield Form(found, "response", version)


def full_content(fields, version):
    """Fill every field of a version, arrays with one element."""
    content = {}
    for field in fields:
        if version in field.versions:
            inner = full_content(field.fields, version)
            value = inner if field.fields else VALUES[field.kind]
            content[field.name] = [value] if field.array else value
    return content
