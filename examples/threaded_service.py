"""A service with threads around one guarded producer of confluent-kafka.

Workers produce orders, one thread polls, and the broker is killed in the middle. Each
order has its outcome: delivered, or an error that says what to do.
"""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, wait

from confluent_kafka import Producer

from kafkaguard import guard
from kafkaguard.testing import KafkaCluster

WORKERS, ORDERS = 4, 250
outcomes: Counter[str] = Counter()


def tell(error, _):
    """Count an outcome; runs in the thread that polls."""
    outcomes["delivered" if error is None else error.verdict.action] += 1


def work(producer, topic, worker):
    """Produce orders, each with the worker's key."""
    for number in range(ORDERS):
        order = b"order %d of worker %d" % (number, worker)
        producer.produce(topic, order, b"worker-%d" % worker, on_delivery=tell)


def poll(producer, is_done):
    """Serve delivery callbacks until the service ends."""
    while not is_done.is_set():
        producer.poll(0.1)


with KafkaCluster() as cluster:
    topic = cluster.create_topic(partitions=3)
    config = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "enable.idempotence": True,
        "linger.ms": 5,
    }
    is_done = threading.Event()
    with guard(factory=Producer, config=config) as producer:
        with ThreadPoolExecutor(WORKERS + 1) as pool:
            pool.submit(poll, producer, is_done)
            workers = [pool.submit(work, producer, topic, n) for n in range(WORKERS)]
            cluster.broker(0).kill()
            cluster.broker(0).start()
            wait(workers)
            print(producer.flush(60), "records are left")
            is_done.set()
        print(producer.report())
    print(dict(outcomes))
    assert outcomes.total() == WORKERS * ORDERS
