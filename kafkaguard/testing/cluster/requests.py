"""Requests to single brokers over the plain listener.

A normal client chooses a broker and hides what the others know. But a cluster is ready
only when all brokers know a change.
"""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING, Any

from kafkaguard.testing.cluster.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_PROBE_TIMEOUT_S = 2.0
_CHANGE_TIMEOUT_S = 30.0
_READY_TIMEOUT_S = 20.0
_PAUSE_S = 0.03


def ask(
    address: str,
    request: Any,
    response: Any,
    version: int,
    timeout: float = _PROBE_TIMEOUT_S,
) -> Any:
    """Send a request of kafka-python's protocol engine, and return the decoded answer.

    Raises:
        OSError: The broker cannot be reached, or does not answer within the timeout.
    """
    host, port = address.rsplit(":", 1)
    request.with_header(client_id="kafkaguard-testing")
    frame = request.encode(version=version, header=True, framed=True)
    with socket.create_connection((host, int(port)), timeout) as connection:
        connection.sendall(frame)
        size = int.from_bytes(_receive(connection, 4), "big")
        return response.decode(_receive(connection, size), version=version, header=True)


def change(
    addresses: Sequence[str], request: Any, response: Any, version: int, items: str
) -> None:
    """Send a request for a change to one broker, which forwards it to the controller.

    Raises:
        kafka.errors.BrokerResponseError: The controller refused an item.
        ClusterError: No broker is running, or this one does not answer.
    """
    from kafka.errors import for_code

    if not addresses:
        raise ClusterError("no broker is running; call start() of one first")
    try:
        answer = ask(addresses[0], request, response, version, _CHANGE_TIMEOUT_S)
    except OSError as error:
        raise ClusterError(f"{addresses[0]} does not answer: {error}") from error
    for item in getattr(answer, items):
        if item.error_code:
            raise for_code(item.error_code)(item.error_message)


def _receive(connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        chunk = connection.recv(size - len(received))
        if not chunk:
            raise ConnectionError("the broker closed the connection")
        received += chunk
    return received


def metadata(address: str, topics: Iterable[str] = ()) -> Any:
    """Ask a broker which brokers and topics it knows."""
    from kafka.protocol.metadata import MetadataRequest, MetadataResponse

    entries = [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
    request = MetadataRequest(topics=entries, allow_auto_topic_creation=False)
    return ask(address, request, MetadataResponse, version=9)


def knows_brokers(address: str, expected: set[int]) -> bool:
    """Return whether a broker answers and sees all expected brokers as alive."""
    from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse

    try:
        versions = ask(address, ApiVersionsRequest(), ApiVersionsResponse, version=0)
        node_ids = {broker.node_id for broker in metadata(address).brokers}
    except OSError:
        return False
    return versions.error_code == 0 and expected <= node_ids


def wait_for_all(
    addresses: Sequence[str], knows: Callable[[str], bool], description: str
) -> None:
    """Wait until the brokers at all of these addresses know something.

    Raises:
        ClusterError: Not all of them knew it in time.
    """

    def is_known(address: str) -> bool:
        try:
            return knows(address)
        except OSError:
            return False

    if not wait_for(lambda: all(map(is_known, addresses)), _READY_TIMEOUT_S):
        unaware = ", ".join(each for each in addresses if not is_known(each))
        raise ClusterError(
            f"{description}: after {_READY_TIMEOUT_S:g} s not known to "
            f"{unaware or 'all'}. See the brokers' logs."
        )


def wait_for(condition: Callable[[], bool], timeout: float) -> bool:
    """Check a condition repeatedly until it holds; False if it does not in time."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(_PAUSE_S)
    return True
