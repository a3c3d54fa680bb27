"""What the fault proxy costs: a million records with and without it.

The target is half of the direct connection's throughput, in the same run.
"""

from __future__ import annotations

import time
from statistics import median

from confluent_kafka import Producer

from kafkaguard.testing import FaultProxy, KafkaCluster

RECORDS = 1_000_000
VALUE = b"x" * 100
ROUNDS = 3
TARGET = 0.5
_POLL_EVERY = 10_000


def produce(servers: str, topic: str) -> float:
    """Produce a million records, wait for all, and return records per second."""
    producer = Producer(
        {"bootstrap.servers": servers, "queue.buffering.max.messages": RECORDS}
    )
    start = time.perf_counter()
    for number in range(RECORDS):
        producer.produce(topic, VALUE)
        if number % _POLL_EVERY == 0:
            producer.poll(0)
    left = producer.flush(120)
    if left:
        raise TimeoutError(f"{left} of {RECORDS} records were not delivered in 120 s")
    return RECORDS / (time.perf_counter() - start)


def main() -> bool:
    """Measure both in turn and print the medians; True if the target is missed."""
    with KafkaCluster() as cluster, FaultProxy(cluster) as proxy:
        topic = cluster.create_topic(config={"retention.bytes": 200_000_000})
        rates: dict[str, list[float]] = {"direct": [], "proxy": []}
        for _ in range(ROUNDS):
            rates["direct"].append(produce(cluster.bootstrap_servers, topic))
            rates["proxy"].append(produce(proxy.bootstrap_servers, topic))
    direct, through = median(rates["direct"]), median(rates["proxy"])
    ratio = through / direct
    print(f"confluent-kafka, {RECORDS:,} records of {len(VALUE)} bytes:")
    print(f"  direct            {direct:>10,.0f} records/s")
    print(f"  through the proxy {through:>10,.0f} records/s")
    print(f"  ratio             {ratio:>10.2f}   (target: at least {TARGET})")
    return ratio < TARGET


if __name__ == "__main__":
    main()
