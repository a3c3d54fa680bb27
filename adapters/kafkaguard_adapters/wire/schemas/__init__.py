"""Messages that kafka-python's protocol engine lacks (KIP-848)."""

from __future__ import annotations

import sys

from kafka.protocol.api_message import ApiMessage

_HERE = sys.modules[__name__]


class ConsumerGroupDescribeRequest(ApiMessage, load_json=_HERE):  # type: ignore[call-arg,misc]  # untyped base
    """Asks a coordinator for groups of the new protocol."""


class ConsumerGroupDescribeResponse(ApiMessage, load_json=_HERE):  # type: ignore[call-arg,misc]  # untyped base
    """The coordinator's description of each group."""
