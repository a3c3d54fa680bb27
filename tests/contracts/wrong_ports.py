"""What a client says of a port that speaks another protocol than its settings.

A test class inherits this, and implements how its client sends, reads and measures lag.
"""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager, suppress

import pytest

from kafkaguard import Action, errors

#: Seconds that a client tries to connect, or to deliver a record.
PATIENCE_S = 2
HTTP = b"HTTP/1.1 400 Bad Request\r\n\r\n"


@contextmanager
def web_server():
    """Listen on a port that answers as a web server does; yield its address."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve():
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection, suppress(OSError):
                connection.recv(100)
                connection.sendall(HTTP)

    thread = threading.Thread(target=serve)
    thread.start()
    yield "127.0.0.1:{}".format(*listening.getsockname()[1:])
    with suppress(OSError):
        listening.shutdown(socket.SHUT_RDWR)  # which ends accept()
    listening.close()
    thread.join()


class WrongPortsContract:
    """A client whose port or security protocol is wrong.

    The fixture ``cluster`` has a listener for TLS and one without.
    """

    def produce(self, servers, protocol, cluster):
        """Send a record with a guarded producer; return the error of the record."""
        raise NotImplementedError

    def consume(self, servers, protocol, cluster):
        """Poll with a guarded consumer until it raises."""
        raise NotImplementedError

    def lag(self, servers, protocol, cluster):
        """Measure lag with a guarded client, and let it raise."""
        raise NotImplementedError

    @pytest.mark.parametrize("role", ["produce", "consume", "lag"])
    @pytest.mark.parametrize(
        ("port", "protocol", "said"),
        [
            ("PLAINTEXT", "SSL", "ended the connection in the TLS handshake"),
            ("TLS", "PLAINTEXT", "the broker requires TLS there"),
            ("web", "PLAINTEXT", "it is not a Kafka broker"),
            ("web", "SSL", "(?i)wrong.version.number"),
        ],
    )
    def test_port_with_another_protocol_is_told(
        self, cluster, port, protocol, said, role
    ):
        """A port with another security protocol has the verdict CONFIGURE."""
        with web_server() as web:
            servers = web
            if port != "web":
                servers = cluster.client_config(port)["bootstrap_servers"]
            with pytest.raises(errors.KafkaGuardError, match=said) as caught:
                getattr(self, role)(servers, protocol, cluster)
        assert servers in str(caught.value)
        assert caught.value.verdict.action is Action.CONFIGURE
        assert caught.value.verdict.written == "no"
