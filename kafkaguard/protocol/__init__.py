"""Kafka messages as dicts and bytes.

``broker_registration`` is one message; ``message(name)`` returns any other. The schemas
are those of kafka-python's protocol engine, loaded at first use, and kafkaguard's own
for messages that the engine lacks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaguard._common.public import exports

if TYPE_CHECKING:
    from kafkaguard.protocol import broker_registration as broker_registration
    from kafkaguard.protocol._message import (
        Message as Message,
        message as message,
        message_names as message_names,
    )
    from kafkaguard.protocol._uuids import (
        format_uuid as format_uuid,
        parse_uuid as parse_uuid,
    )

exports(
    __name__,
    {
        "kafkaguard.protocol.broker_registration": "",
        "kafkaguard.protocol._message": "Message message message_names",
        "kafkaguard.protocol._uuids": "format_uuid parse_uuid",
    },
)
