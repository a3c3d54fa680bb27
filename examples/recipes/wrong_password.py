"""Tell a wrong password, a wrong port and a port without login apart."""

from __future__ import annotations

import os

from kafka import KafkaProducer

from kafkaguard import guard
from kafkaguard.errors import KafkaGuardError

login = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_plain_username": "alice",
    "sasl_plain_password": "wrong",
}
places = {
    "wrong password": os.environ["KAFKA_SASL"],
    "wrong port": "localhost:1",
}
for name, servers in places.items():
    config = {**login, "bootstrap_servers": servers, "bootstrap_timeout_ms": 3_000}
    try:
        guard(factory=KafkaProducer, config=config)
    except KafkaGuardError as error:
        print(f"{name}: {error.name}, {error.verdict.action}")
