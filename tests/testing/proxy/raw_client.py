"""A client without opinions: requests out, answers in, one socket."""

from __future__ import annotations

import socket

from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest

from kafkaguard.testing.proxy.frames import answer_schema, request_schema


class RawClient:
    """Sends kafka-python's messages and reads their answers.

    Args:
        address: ``host:port`` of a broker or a proxy.
    """

    def __init__(self, address, client_id="raw"):
        host, port = address.split(",")[0].split(":")
        self._socket = socket.create_connection((host, int(port)), timeout=10)
        self._client_id = client_id
        self._number = 0
        self._versions = {}

    def __enter__(self):
        """Return itself."""
        return self

    def __exit__(self, *_):
        """Close."""
        self._socket.close()

    def ask(self, request):
        """Send a request and decode its answer."""
        self.send(request)
        return self.receive(request)

    def send(self, request):
        """Send a request."""
        self._number += 1
        request.with_header(correlation_id=self._number, client_id=self._client_id)
        self._socket.sendall(request.encode(header=True, framed=True))

    def send_bytes(self, data):
        """Send whatever."""
        self._socket.sendall(data)

    def receive(self, request):
        """Decode the answer to a request."""
        schema = answer_schema(request.API_KEY, request.version)
        return schema.decode(self.receive_bytes(), version=request.version, header=True)

    def receive_bytes(self):
        """Read one frame without its length; nothing at the end of the stream."""
        size = self._exactly(4)
        return self._exactly(int.from_bytes(size, "big")) if size else b""

    def version(self, api_key):
        """Return the highest version that is offered and that we can decode."""
        if not self._versions:
            answer = self.ask(ApiVersionsRequest(version=2))
            self._versions = {key.api_key: key for key in answer.api_keys}
        known = request_schema(api_key, 0).max_version
        return min(known, self._versions[api_key].max_version)

    def offers(self, api_key):
        """Tell the lowest and highest version that is offered, None for none."""
        answer = self.ask(ApiVersionsRequest(version=2))
        found = [key for key in answer.api_keys if key.api_key == api_key]
        return (found[0].min_version, found[0].max_version) if found else None

    def topic_id(self, topic):
        """Look up the id of a topic."""
        topics = [MetadataRequest.MetadataRequestTopic(version=12, name=topic)]
        answer = self.ask(MetadataRequest(version=12, topics=topics))
        return answer.topics[0].topic_id

    def _exactly(self, size):
        data = b""
        while len(data) < size:
            part = self._socket.recv(size - len(data))
            if not part:
                return b""
            data += part
        return data
