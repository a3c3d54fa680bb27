"""Free loopback ports, without conflicts between parallel test runs."""

from __future__ import annotations

import random
import socket

HOST = "127.0.0.1"
# Below the range of ports for outgoing connections, so that the port of a stopped
# broker stays free.
_RANGE = range(20_000, 32_000)
# Not the shared generator: test runners give it the same seed in all processes.
_random = random.SystemRandom()


def free_ports(count: int) -> list[int]:
    """Choose different ports on which nothing listens now."""
    chosen: list[int] = []
    while len(chosen) < count:
        port = _random.choice(_RANGE)
        if port not in chosen and _is_free(port):
            chosen.append(port)
    return chosen


def _is_free(port: int) -> bool:
    with socket.socket() as candidate:
        candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            candidate.bind((HOST, port))
        except OSError:
            return False
        return True
