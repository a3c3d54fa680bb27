"""A bare loop of each client, and ``process()``, each measured in a process.

All read the same topic with a handler that does nothing, and commit each five seconds.
The measures are the CPU time of the whole process for each record, and the bytes that
all its connections have received.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
import stat
import struct
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import confluent_kafka
import kafka

import aiokafka
from kafkaguard import guard

CLIENTS = ("kafka-python", "confluent-kafka", "aiokafka")
RECORDS = 200_000
#: Records of a run, of which the first part is not measured: the client starts up.
WARM_UP = 20_000
VALUE = b"v" * 100
KEYS = 1_000
COMMIT_S = 5.0
#: Where Linux has the bytes received in the answer to ``TCP_INFO``.
_TCP_INFO_BYTES = 136
_BYTES_RECEIVED = 128


def fill(servers, topic, count, *, keys=KEYS, value=VALUE):
    """Write the records."""
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": servers, "queue.buffering.max.messages": 2_000_000}
    )
    for n in range(count):
        producer.produce(topic, value, key=b"%d" % (n % keys))
        if n % 100_000 == 0:
            producer.flush()
    producer.flush()


def received():
    """Return how many bytes the TCP connections of this process have received."""
    total = 0
    for each in Path("/proc/self/fd").iterdir():
        number = int(each.name)
        try:
            if not stat.S_ISSOCK(os.fstat(number).st_mode):
                continue
            with socket.socket(fileno=os.dup(number)) as sock:
                if sock.family == socket.AF_INET and sock.type == socket.SOCK_STREAM:
                    info = sock.getsockopt(
                        socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES
                    )
                    total += struct.unpack_from("Q", info, _BYTES_RECEIVED)[0]
        except OSError:
            continue  # it was closed meanwhile
    return total


class Meter:
    """Measures the CPU time between two records.

    Args:
        count: The number of the last record.

    Attributes:
        bytes: What was received by then.
    """

    def __init__(self, count=RECORDS):
        self.done, self._last = 0, count
        self._start = self._end = None
        self.bytes = 0

    def count(self, number):
        """Count records; return whether all are there."""
        self.done += number
        if self._start is None and self.done >= min(WARM_UP, self._last // 10):
            self._start = time.process_time(), self.done
        if self._end is None and self.done >= self._last:
            self._end = time.process_time(), self.done
            self.bytes = received()
        return self._end is not None

    @property
    def result(self):
        """Microseconds of CPU time for each record; bytes received for each."""
        (begin, first), (end, last) = self._start, self._end
        return (end - begin) / (last - first) * 1e6, self.bytes / last


def settings(client, servers, group):
    """Return the settings of a consumer."""
    if client == "confluent-kafka":
        return {
            "bootstrap.servers": servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    return {
        "bootstrap_servers": servers,
        "group_id": group,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
    }


def bare_kafka_python(servers, topic, group, count):
    """Poll, and commit each five seconds."""
    meter, commit_at = Meter(count), time.monotonic() + COMMIT_S
    consumer = kafka.KafkaConsumer(topic, **settings("kafka-python", servers, group))
    while True:
        number = 0
        for records in consumer.poll(timeout_ms=100, max_records=500).values():
            for _ in records:
                number += 1
        if meter.count(number):
            break
        if time.monotonic() >= commit_at:
            consumer.commit_async()
            commit_at += COMMIT_S
    consumer.close()
    return meter.result


def bare_confluent(servers, topic, group, count):
    """Consume, and commit each five seconds."""
    meter, commit_at = Meter(count), time.monotonic() + COMMIT_S
    consumer = confluent_kafka.Consumer(settings("confluent-kafka", servers, group))
    consumer.subscribe([topic])
    while True:
        number = 0
        for message in consumer.consume(500, 0.1):
            if message.error() is None:
                number += 1
        if meter.count(number):
            break
        if time.monotonic() >= commit_at:
            consumer.commit(asynchronous=True)
            commit_at += COMMIT_S
    consumer.close()
    return meter.result


def bare_aiokafka(servers, topic, group, count):
    """Get many, and commit each five seconds."""

    async def run():
        meter, commit_at = Meter(count), time.monotonic() + COMMIT_S
        consumer = aiokafka.AIOKafkaConsumer(
            topic, **settings("aiokafka", servers, group)
        )
        await consumer.start()
        while True:
            number = 0
            found = await consumer.getmany(timeout_ms=100, max_records=500)
            for records in found.values():
                for _ in records:
                    number += 1
            if meter.count(number):
                break
            if time.monotonic() >= commit_at:
                await consumer.commit()
                commit_at += COMMIT_S
        await consumer.stop()
        return meter.result

    return asyncio.run(run())


BARE = {
    "kafka-python": bare_kafka_python,
    "confluent-kafka": bare_confluent,
    "aiokafka": bare_aiokafka,
}
FACTORIES = {
    "kafka-python": kafka.KafkaConsumer,
    "confluent-kafka": confluent_kafka.Consumer,
}


def bare(client, servers, topic, count=RECORDS):
    """Measure the bare loop."""
    return BARE[client](servers, topic, _new_group(), count)


def _new_group():
    return f"group-{os.getpid()}-{time.time_ns()}"


class Watch:
    """An event that never stops a run; it measures when the driver asks, at each poll.

    Args:
        counter: Counts the calls of the handler.
        count: The number of records.
    """

    def __init__(self, counter, count):
        self._counter = counter
        self.meter = Meter(count)

    def is_set(self):
        """Look at the counter."""
        done = self._counter.__reduce__()[1][0]
        self.meter.count(done - self.meter.done)
        return False


def processed(client, servers, topic, count=RECORDS, *, handler=None, **arguments):
    """Measure ``process``.

    Args:
        client: The client.
        servers: The bootstrap servers.
        topic: The topic.
        count: How many records it has.
        handler: Called with the number of each record. Default: nothing is.
        arguments: Those of ``process``; ``policy`` is that of the guard.
    """
    counter = itertools.count()
    watch = Watch(counter, count)
    config = settings(client, servers, _new_group())
    policy = arguments.pop("policy", "consumer")
    arguments |= {"until_end": True, "stop": watch}
    if client == "aiokafka":
        asyncio.run(
            _process_awaited(config, policy, topic, counter, handler, arguments)
        )
        return watch.meter.result
    handle = partial(next, counter)
    if handler is not None:

        def handle(_):
            handler(next(counter))

    elif arguments.get("batch") is not None:
        handle = counting(counter)
    with guard(factory=FACTORIES[client], config=config, policy=policy) as consumer:
        consumer.subscribe([topic])
        consumer.process(handle, **arguments)
    watch.is_set()
    return watch.meter.result


def counting(counter):
    """Return a handler of batches."""

    def count(records):
        for _ in records:
            next(counter)

    return count


async def _process_awaited(config, policy, topic, counter, handler, arguments):
    batch = counting(counter)

    async def count(record):
        if handler is not None:
            await asyncio.to_thread(handler, next(counter))
        elif arguments.get("batch") is not None:
            batch(record)
        else:
            next(counter)

    factory = aiokafka.AIOKafkaConsumer
    async with guard(factory=factory, config=config, policy=policy) as consumer:
        consumer.subscribe([topic])
        await consumer.process(count, **arguments)
        arguments["stop"].is_set()


def fresh(function, *args, **kwargs):
    """Call a function in a process of its own."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(function, *args, **kwargs).result()
