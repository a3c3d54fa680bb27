"""A guarded producer under load while its broker goes away and comes back."""

from __future__ import annotations

import sys
import time

from kafka import KafkaProducer

from kafkaguard import guard
from kafkaguard.errors import DeliveryFailed
from kafkaguard.testing import KafkaCluster
from tests.contracts.producer import until
from tests.kafka_python.producer_load import PARTITIONS, Load, check

#: How the broker goes, for how many seconds it stays away, and the client's settings.
SHORT = {
    "request_timeout_ms": 500,
    "delivery_timeout_ms": 1500,
    "bootstrap_timeout_ms": 2000,
    "max_block_ms": 30_000,
    "reconnect_backoff_max_ms": 500,
}
CASES = {
    "killed for longer than a delivery may take": ("kill", 3.0, SHORT),
    "paused for longer than a delivery may take": ("pause", 3.0, SHORT),
    "killed and started at once": ("kill", 0.0, {}),
}


def go_away(broker, ending, seconds):
    """Let the broker be away for a while."""
    (broker.kill if ending == "kill" else broker.pause)()
    end = time.monotonic() + seconds
    until(lambda: time.monotonic() >= end)
    (broker.start if ending == "kill" else broker.resume)()


def main(case):
    """Run the load, and compare the topic with the outcomes."""
    ending, seconds, settings = CASES[case]
    with KafkaCluster() as cluster:
        topic = cluster.create_topic(partitions=PARTITIONS)
        servers = cluster.bootstrap_servers
        producer = guard(KafkaProducer(bootstrap_servers=servers, **settings))
        with Load(producer, topic) as load:
            until(lambda: load.count > 500)
            go_away(cluster.broker(0), ending, seconds)
            sent = load.count
            until(lambda: load.count > sent + 500, 60)
        start = time.monotonic()
        try:
            producer.close()
        except DeliveryFailed as failure:
            print(failure)
        assert time.monotonic() - start < 20
        check(cluster, topic, load)
        if not settings:
            written = {o.verdict.written for o in load.refused().values()}
            assert written <= {"maybe"}, load.kinds()
        print("checked", len(load.outcomes), load.kinds())


if __name__ == "__main__":
    main(sys.argv[1])
