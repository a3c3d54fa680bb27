"""A guarded producer under load while its broker goes away and comes back."""

from __future__ import annotations

import sys
import time

from kafka import KafkaProducer

from kafkaguard import DeliveryFailed, guard
from kafkaguard.testing import KafkaCluster
from tests.adapters.contracts import until
from tests.adapters.producer_load import PARTITIONS, Load, check

SETTINGS = {
    "reconnect_backoff_max_ms": 500,
    "request_timeout_ms": 1000,
    "delivery_timeout_ms": 3000,
    "bootstrap_timeout_ms": 2000,
    "max_block_ms": 30_000,
}


def go_away(broker, ending):
    """Let the broker be away for longer than a delivery may take."""
    (broker.kill if ending == "kill" else broker.pause)()
    end = time.monotonic() + 5
    until(lambda: time.monotonic() > end)
    (broker.start if ending == "kill" else broker.resume)()


def main(ending):
    """Run the load, and compare the topic with the outcomes."""
    with KafkaCluster() as cluster:
        topic = cluster.create_topic(partitions=PARTITIONS)
        servers = cluster.bootstrap_servers
        producer = guard(KafkaProducer(bootstrap_servers=servers, **SETTINGS))
        with Load(producer, topic) as load:
            until(lambda: load.count > 1000)
            go_away(cluster.broker(0), ending)
            sent = load.count
            until(lambda: load.count > sent + 1000, 60)
        start = time.monotonic()
        try:
            producer.close()
        except DeliveryFailed as failure:
            print(failure)
        assert time.monotonic() - start < 20
        check(cluster, topic, load)
        print("checked", len(load.outcomes), load.kinds())


if __name__ == "__main__":
    main(sys.argv[1])
