"""Rewrite brokers' addresses in answers.

A client connects to the addresses in answers, so each of them must be the proxy's: the
brokers in Metadata and DescribeCluster, the coordinators in FindCoordinator, and the
new leaders in Produce and Fetch (since KIP-951).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkaguard.testing.proxy.frames import struct_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_LISTS: Final = {
    0: "node_endpoints",
    1: "node_endpoints",
    3: "brokers",
    10: "coordinators",
    60: "brokers",
}
_FIND_COORDINATOR: Final = 10
#: APIs whose answers can contain addresses.
CARRIERS: Final = frozenset(_LISTS)


def endpoints(api_key: int, answer: Any) -> Iterator[Any]:
    """Yield each part of an answer that has a ``host`` and a ``port``."""
    found = list(getattr(answer, _LISTS[api_key], None) or ())
    if api_key == _FIND_COORDINATOR and not found:
        found.append(answer)
    for entry in found:
        if entry.host and entry.port > 0:
            yield entry


def node_id(endpoint: Any) -> int:
    """Return the id of the broker at an endpoint."""
    fields = struct_of(endpoint).fields
    found: int = endpoint.broker_id if "broker_id" in fields else endpoint.node_id
    return found
