"""Addresses of brokers."""

from __future__ import annotations

import re
from typing import Final

from kafkaguard._common.arguments import port

#: The port of a broker if none is given.
DEFAULT_PORT: Final = 9092
_ADDRESS: Final = re.compile(
    r"(?:(?i:PLAINTEXT|SSL|SASL_PLAINTEXT|SASL_SSL)://)?"
    r"(?P<host>\[[0-9A-Fa-f:.%\w]+\]|[\w.-]+)(?::(?P<port>\d+))?"
)


def read_address(text: str) -> tuple[str, int] | None:
    """Parse ``host:port``, ``SSL://host:port`` or ``[::1]:9092``; None if invalid.

    The default port is 9092.
    """
    found = _ADDRESS.fullmatch(text)
    number = found and port(found["port"] or str(DEFAULT_PORT))
    return (found["host"].strip("[]"), number) if found and number else None
