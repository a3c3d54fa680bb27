"""Answer an HTTP request when its record is written, and say why if it is not."""

from __future__ import annotations

import os
import threading
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from kafka import KafkaProducer

from kafkaguard import guard
from kafkaguard.errors import KafkaGuardError

producer = guard(
    factory=KafkaProducer,
    config={"bootstrap_servers": os.environ["KAFKA"], "linger_ms": 5},
    policy={"extends": "idempotent-producer", "deadline": 8},
)


class Payments(BaseHTTPRequestHandler):
    """One producer serves all threads."""

    def do_POST(self):
        """Write the body, with the path as the key."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        key = self.path.strip("/").encode() or None
        try:
            producer.send("payments", body, key=key).get()
        except KafkaGuardError as error:
            self.answer(422 if error.verdict.action == "REJECT" else 503, error)
        else:
            self.answer(201, "written")

    def answer(self, status, text):
        """Send an answer."""
        self.send_response(status)
        self.end_headers()
        self.wfile.write(str(text).encode())

    def log_message(self, *_):
        """Print nothing."""


with producer, ThreadingHTTPServer(("127.0.0.1", 0), Payments) as server:
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for path in ("/order-1", "/", "/order-2"):
        url = f"http://127.0.0.1:{server.server_port}{path}"
        try:
            with urllib.request.urlopen(url, b"100", timeout=30) as answer:
                print(path, answer.status)
        except urllib.error.HTTPError as error:
            print(path, error.code, error.read().decode()[:34])
    server.shutdown()
