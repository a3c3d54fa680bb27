"""Tell a topic that does not exist apart from a broker that does not answer."""

from __future__ import annotations

import os

from confluent_kafka import Producer

from kafkaguard import guard


def tell(error, _):
    """Print what is wrong; the error says whether to try again."""
    print(f"{error.verdict.action}: {error.verdict.rule.sentence}")


for servers in (os.environ["KAFKA"], "localhost:1"):
    config = {"bootstrap.servers": servers, "enable.idempotence": True}
    producer = guard(factory=Producer, config=config, policy={"deadline": 3})
    producer.produce("no-such-topic", b"value", b"key", on_delivery=tell)
    producer.flush(10)
