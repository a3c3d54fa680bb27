"""Kafka messages as dicts and bytes.

``broker_registration`` is one message; ``message(name)`` returns any other. The schemas
are those of kafka-python's protocol engine, loaded at first use, and kafkaguard's own
for messages that the engine lacks.
"""

from __future__ import annotations

from kafkaguard.protocol import broker_registration
from kafkaguard.protocol._errors import ProtocolError
from kafkaguard.protocol._message import Message, message, message_names
from kafkaguard.protocol._uuids import format_uuid, parse_uuid

__all__ = [
    "Message",
    "ProtocolError",
    "broker_registration",
    "format_uuid",
    "message",
    "message_names",
    "parse_uuid",
]
