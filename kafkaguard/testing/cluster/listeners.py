"""The listeners of a cluster, by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkaguard.testing.cluster.ports import HOST, free_ports

if TYPE_CHECKING:
    from collections.abc import Sequence


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
