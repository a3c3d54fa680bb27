"""Measure what bare and guarded consumers do about a partition that cannot be read.

One of three partitions answers 9 for five seconds while all are written to. The table
in docs/consumers.md is made of it: ``python scripts/measure_consumers.py``.
"""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import confluent_kafka
import kafka

import aiokafka
from kafkaguard import guard
from kafkaguard.testing import FaultProxy, KafkaCluster

if TYPE_CHECKING:
    from collections.abc import Callable

PAGE = Path(__file__).parent.parent / "docs" / "consumers.md"
BEGIN, END = "<!-- client matrix -->\n", "<!-- end of the client matrix -->\n"
FAULT_S = 5.0
AFTER_S = 8.0


class Seen(NamedTuple):
    """What a consumer did."""

    refused: int
    others: int
    lost: int
    raised: str


def kafka_python(
    servers: str, topic: str, until: float, wrap: Callable[..., Any]
) -> list[tuple[int, bytes, float]]:
    """Read with kafka-python."""
    client = wrap(
        kafka.KafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest")
    )
    client.assign([kafka.TopicPartition(topic, n) for n in range(3)])
    read = []
    while time.monotonic() < until:
        for records in client.poll(timeout_ms=200).values():
            read += [(r.partition, r.value, time.monotonic()) for r in records]
    client.close()
    return read


def confluent(
    servers: str, topic: str, until: float, wrap: Callable[..., Any]
) -> list[tuple[int, bytes, float]]:
    """Read with confluent-kafka."""
    config = {
        "bootstrap.servers": servers,
        "group.id": "measured",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    client = wrap(confluent_kafka.Consumer(config), config=config)
    client.assign([confluent_kafka.TopicPartition(topic, n) for n in range(3)])
    read = []
    while time.monotonic() < until:
        read += [
            (each.partition(), each.value(), time.monotonic())
            for each in client.consume(500, 0.2)
            if each.error() is None
        ]
    client.close()
    return read


def awaited(
    servers: str, topic: str, until: float, wrap: Callable[..., Any]
) -> list[tuple[int, bytes, float]]:
    """Read with aiokafka."""

    async def run() -> list[tuple[int, bytes, float]]:
        client = wrap(
            aiokafka.AIOKafkaConsumer(
                bootstrap_servers=servers, auto_offset_reset="earliest"
            )
        )
        await client.start()
        client.assign([aiokafka.TopicPartition(topic, n) for n in range(3)])
        read = []
        while time.monotonic() < until:
            for records in (await client.getmany(timeout_ms=200)).values():
                read += [(r.partition, r.value, time.monotonic()) for r in records]
        await client.stop()
        return read

    return asyncio.run(run())


CLIENTS = {
    "kafka-python": kafka_python,
    "confluent-kafka": confluent,
    "aiokafka": awaited,
}


def bare(client: Any, **_: Any) -> Any:
    """Do not guard it."""
    return client


def measure(cluster: KafkaCluster, read: Any, wrap: Callable[..., Any]) -> Seen:
    """Read under load, with the fault from the second second on."""
    topic = cluster.create_topic(partitions=3)
    done = threading.Event()
    written = [0, 0, 0]

    def write() -> None:
        servers = cluster.bootstrap_servers
        with kafka.KafkaProducer(bootstrap_servers=servers, linger_ms=5) as producer:
            while not done.wait(0.005):
                for partition in range(3):
                    producer.send(topic, b"x" * 100, partition=partition)
                    written[partition] += 1

    with FaultProxy(cluster) as proxy:
        writer = threading.Thread(target=write)
        writer.start()
        began = time.monotonic()
        threading.Timer(2.0, lambda: faults(proxy, topic)).start()
        raised, found = "", []
        try:
            stop = threading.Timer(2.0 + FAULT_S + 1.0, done.set)
            stop.start()
            until = began + 2.0 + FAULT_S + AFTER_S
            found = read(proxy.bootstrap_servers, topic, until, wrap)
        except Exception as error:  # noqa: BLE001 - what a bare client raises is a result
            raised = type(error).__name__
        done.set()
        writer.join()
        refused = sum(bool(each.errors) for each in proxy.requests("Fetch"))
    during = (began + 2.0, began + 2.0 + FAULT_S)
    others = sum(
        during[0] < at < during[1] for partition, _, at in found if partition != 1
    )
    return Seen(refused, others, sum(written) - len(found), raised)


def faults(proxy: FaultProxy, topic: str) -> None:
    """Let one partition answer 9 for some seconds."""
    fault = proxy.on("Fetch", topic=topic, partition=1).fail(9)
    threading.Timer(FAULT_S, fault.remove).start()


def row(name: str, alone: Seen, guarded: Seen) -> str:
    """Make a row of the table."""
    rate = guarded.others / max(1, alone.others)
    cells = (
        name,
        f"{alone.refused:,}" + (f", then {alone.raised}" if alone.raised else ""),
        f"{guarded.refused}",
        f"{rate:.2f}",
        f"{guarded.lost}",
    )
    return "| " + " | ".join(cells) + " |\n"


def main() -> None:
    """Measure, and write the table into the page."""
    rows = [
        "| client | bare: refused reads | guarded | others' rate to bare | missed |\n",
        "| --- | --- | --- | --- | --- |\n",
    ]
    with KafkaCluster() as cluster:
        for name, read in CLIENTS.items():
            alone = measure(cluster, read, bare)
            rows.append(row(name, alone, measure(cluster, read, guard)))
            print(rows[-1], end="")
    text = PAGE.read_text()
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    PAGE.write_text(text[:begin] + "".join(rows) + text[end:])


if __name__ == "__main__":
    main()
