"""The listeners of a cluster, on free loopback ports."""

from __future__ import annotations

import random
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


HOST = "127.0.0.1"
# Below the range of ports for outgoing connections, so that the port of a stopped
# broker stays free.
_RANGE = range(20_000, 32_000)
# Not the shared generator: test runners give it the same seed in all processes.
_random = random.SystemRandom()


def free_ports(count: int) -> list[int]:
    """Choose different ports on which nothing listens now."""
    ports: list[int] = []
    while len(ports) < count:
        port = _random.choice(_RANGE)
        if port not in ports and _is_free(port):
            ports.append(port)
    return ports


def _is_free(port: int) -> bool:
    with socket.socket() as candidate:
        candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            candidate.bind((HOST, port))
        except OSError:
            return False
        return True


@dataclass(frozen=True, slots=True)
class Listener:
    """One listener of every broker.

    Attributes:
        name: Its name in the broker's settings.
        security_protocol: Kafka's name of the security protocol.
        mechanisms: The SASL mechanisms that it accepts; the first is the default.
        addresses: ``host:port`` by broker id.
    """

    name: str
    security_protocol: str
    mechanisms: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()

    @property
    def bootstrap_servers(self) -> str:
        """All addresses, separated by commas."""
        return ",".join(self.addresses)


PLAINTEXT = Listener("PLAINTEXT", "PLAINTEXT")
CONTROLLER = Listener("CONTROLLER", "PLAINTEXT")


def on_free_ports(kinds: Sequence[Listener], sizes: Sequence[int]) -> list[Listener]:
    """Give each listener its number of addresses, on free ports."""
    ports = iter(free_ports(sum(sizes)))
    return [
        Listener(
            kind.name,
            kind.security_protocol,
            kind.mechanisms,
            tuple(f"{HOST}:{next(ports)}" for _ in range(size)),
        )
        for kind, size in zip(kinds, sizes, strict=True)
    ]
