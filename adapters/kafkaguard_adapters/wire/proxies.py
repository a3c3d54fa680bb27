"""Connections through a SOCKS5 or HTTP proxy, with kafka-python's sockets."""

from __future__ import annotations

import asyncio
import errno
import os
from typing import TYPE_CHECKING, Final

from kafka.errors import KafkaConnectionError
from kafka.net import KafkaNetSocket

if TYPE_CHECKING:
    import socket

_UNDER_WAY: Final = (errno.EINPROGRESS, errno.EALREADY, errno.EWOULDBLOCK)
_DONE: Final = (0, errno.EISCONN)
#: Seconds between two steps of the handshake with the proxy.
_STEP_S: Final = 0.005


async def connect(proxy: str, host: str, port: int) -> socket.socket:
    """Connect to an address through a proxy. The caller sets the time limit.

    Args:
        proxy: The address of the proxy, in the format of kafka-python's ``proxy_url``.
        host: The host to connect to.
        port: The port to connect to.

    Raises:
        OSError: The proxy cannot be reached, or refuses the connection.
    """
    try:
        # Both calls look up names, which blocks.
        way = await asyncio.to_thread(KafkaNetSocket, proxy)
        found = await asyncio.to_thread(way.dns_lookup, host, port)
    except (KafkaConnectionError, ValueError):
        # Not the text of the exception: it may contain the address with its password.
        text = "proxy_url is not the address of a SOCKS5 or HTTP proxy"
        raise OSError(errno.EHOSTUNREACH, text) from None
    if not found:
        raise OSError(errno.EHOSTUNREACH, f"the name {host} is not known")
    family, kind, protocol, _, address = found[0]
    connection: socket.socket = way.socket(family, kind, protocol)
    connection.setblocking(False)
    code = _UNDER_WAY[0]
    try:
        while code in _UNDER_WAY:
            code = way.connect_ex(connection, address)
            await asyncio.sleep(_STEP_S)
    finally:
        if code not in _DONE:
            connection.close()
    if code not in _DONE:
        raise OSError(code, f"the proxy: {os.strerror(code)}")
    return connection
