"""Measure how bare and guarded consumers handle a partition that cannot be read.

One of three partitions is refused while all are written to. ``python
scripts/measure_consumers.py`` writes the table in docs/consumers.md.
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

PAGE = Path(__file__).parent.parent / "docs" / "consumers.md"
BEGIN, END = "<!-- client matrix -->\n", "<!-- end of the client matrix -->\n"
BEFORE_S, FAULT_S, AFTER_S = 2.0, 5.0, 8.0


class Case(NamedTuple):
    """The answer to reads of one partition, after the first second."""

    name: str
    code: int
    #: How often it is answered; None: for five seconds.
    times: int | None = None


DELETED = "a commit for two topics, one of them deleted"
#: Seconds that the policy gives a commit, and that a bare client is waited for.
DEADLINE_S, PATIENCE_S = 5.0, 15.0

CASES = (
    Case("9 REPLICA_NOT_AVAILABLE for 5 s", 9),
    Case("1 OFFSET_OUT_OF_RANGE, once, within the log", 1, 1),
    Case("-1 UNKNOWN_SERVER_ERROR, three times", -1, 3),
)

if TYPE_CHECKING:
    from collections.abc import Callable

    #: Builds a consumer of a class and its settings.
    Make = Callable[[Callable[..., Any], dict[str, Any]], Any]
    #: Partition and offset of each record.
    Found = list[tuple[int, int]]


class Seen(NamedTuple):
    """What a consumer did and read."""

    refused: int
    missed: int
    twice: int
    raised: str


def bare(factory: Any, config: dict[str, Any]) -> Any:
    """Build a bare consumer."""
    return factory(config) if "group.id" in config else factory(**config)


def guarded(factory: Any, config: dict[str, Any]) -> Any:
    """Build a guarded consumer."""
    return guard(factory=factory, config=config, policy={"deadline": DEADLINE_S})


def kafka_python(servers: str, topic: str, until: float, make: Make) -> Found:
    """Read with kafka-python."""
    settings = {"bootstrap_servers": servers, "auto_offset_reset": "earliest"}
    client = make(kafka.KafkaConsumer, settings)
    client.assign([kafka.TopicPartition(topic, n) for n in range(3)])
    read = []
    while time.monotonic() < until:
        for records in client.poll(timeout_ms=200).values():
            read += [(r.partition, r.offset) for r in records]
    client.close()
    return read


def confluent(servers: str, topic: str, until: float, make: Make) -> Found:
    """Read with confluent-kafka."""
    settings = {
        "bootstrap.servers": servers,
        "group.id": "measured",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    client = make(confluent_kafka.Consumer, settings)
    client.assign([confluent_kafka.TopicPartition(topic, n) for n in range(3)])
    read = []
    while time.monotonic() < until:
        read += [
            (each.partition(), each.offset())
            for each in client.consume(500, 0.2)
            if each.error() is None
        ]
    client.close()
    return read


def awaited(servers: str, topic: str, until: float, make: Make) -> Found:
    """Read with aiokafka."""
    settings = {"bootstrap_servers": servers, "auto_offset_reset": "earliest"}

    async def run() -> Found:
        client = make(aiokafka.AIOKafkaConsumer, settings)
        await client.start()
        client.assign([aiokafka.TopicPartition(topic, n) for n in range(3)])
        read = []
        try:
            while time.monotonic() < until:
                for records in (await client.getmany(timeout_ms=200)).values():
                    read += [(r.partition, r.offset) for r in records]
        finally:
            await client.stop()
        return read

    return asyncio.run(run())


CLIENTS = {
    "kafka-python": kafka_python,
    "confluent-kafka": confluent,
    "aiokafka": awaited,
}


def measure(cluster: KafkaCluster, read: Any, make: Make, case: Case) -> Seen:
    """Read under load, with the fault after the first second."""
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

        def fail() -> None:
            rule = proxy.on("Fetch", topic=topic, partition=1)
            fault = rule.fail(case.code, times=case.times)
            if case.times is None:
                threading.Timer(FAULT_S, fault.remove).start()

        writer = threading.Thread(target=write)
        writer.start()
        began = time.monotonic()
        threading.Timer(BEFORE_S, fail).start()
        threading.Timer(BEFORE_S + FAULT_S + 1.0, done.set).start()
        raised, found = "", []
        try:
            until = began + BEFORE_S + FAULT_S + AFTER_S
            found = read(proxy.bootstrap_servers, topic, until, make)
        except Exception as error:  # noqa: BLE001 - what a bare client raises is a result
            raised = type(error).__name__
        done.set()
        writer.join()
        refused = sum(bool(each.errors) for each in proxy.requests("Fetch"))
    once = set(found)
    missed, twice = sum(written) - len(once), len(found) - len(once)
    return Seen(refused, missed, twice, raised)


def _group_settings(servers: str, group: str) -> dict[str, Any]:
    return {
        "bootstrap_servers": servers,
        "group_id": group,
        "enable_auto_commit": False,
    }


def commit_kafka_python(servers: str, places: list[str], make: Make) -> None:
    """Commit with kafka-python."""
    client = make(kafka.KafkaConsumer, _group_settings(servers, places[0]))
    where = [kafka.TopicPartition(topic, 0) for topic in places]
    client.assign(where)
    try:
        client.commit(
            {place: kafka.OffsetAndMetadata(1, "", -1) for place in where},
            timeout_ms=DEADLINE_S * 1000,
        )
    finally:
        client.close(autocommit=False)


def commit_confluent(servers: str, places: list[str], make: Make) -> None:
    """Commit with confluent-kafka; raise the first error of the list."""
    settings = {
        "bootstrap.servers": servers,
        "group.id": places[0],
        "enable.auto.commit": False,
    }
    client = make(confluent_kafka.Consumer, settings)
    where = [confluent_kafka.TopicPartition(topic, 0, 1) for topic in places]
    client.assign(where)
    try:
        for each in client.commit(offsets=where, asynchronous=False):
            if each.error is not None:
                raise confluent_kafka.KafkaException(each.error)
    finally:
        client.close()


def commit_awaited(servers: str, places: list[str], make: Make) -> None:
    """Commit with aiokafka."""

    async def run() -> None:
        settings = _group_settings(servers, places[0])
        client = make(aiokafka.AIOKafkaConsumer, settings)
        await client.start()
        where = [aiokafka.TopicPartition(topic, 0) for topic in places]
        client.assign(where)
        try:
            async with asyncio.timeout(PATIENCE_S):
                await client.commit(dict.fromkeys(where, 1))
        finally:
            await client.stop()

    asyncio.run(run())


COMMITS = {
    "kafka-python": commit_kafka_python,
    "confluent-kafka": commit_confluent,
    "aiokafka": commit_awaited,
}


def measure_commit(cluster: KafkaCluster, commit: Any, make: Make) -> str:
    """Commit for a topic and a deleted one; describe the outcome."""
    servers = cluster.bootstrap_servers
    places = [cluster.create_topic(), cluster.create_topic()]
    with kafka.KafkaAdminClient(bootstrap_servers=servers) as admin:
        admin.delete_topics(places[1:])
        began = time.monotonic()
        outcome = "no error"
        try:
            commit(servers, places, make)
        except TimeoutError:
            outcome = "does not end"
        except Exception as error:  # noqa: BLE001 - what a client raises is a result
            code = getattr(error, "code", None)
            if isinstance(error, confluent_kafka.KafkaException):
                code = error.args[0].code()
            outcome = f"{type(error).__name__}" + ("" if code is None else f" ({code})")
        seconds = time.monotonic() - began
        group = admin.list_group_offsets(places[0])
    kept = any(place.topic == places[0] for place in group[places[0]])
    stays = "the other is committed" if kept else "nothing is committed"
    return f"{outcome} after {seconds:.0f} s, {stays}"


def told(seen: Seen) -> str:
    """Describe what a consumer did."""
    if seen.raised:
        return f"raises {seen.raised}"
    return f"{seen.refused:,} refused reads, {seen.missed} missed, {seen.twice:,} twice"


def row(case: Case, name: str, alone: Seen, ours: Seen) -> str:
    """Make a row of the table."""
    return f"| {case.name} | {name} | {told(alone)} | {told(ours)} |\n"


def main() -> None:
    """Measure all cases, and write the table into the page."""
    rows = [
        "| a read is answered | client | bare | guarded |\n",
        "| --- | --- | --- | --- |\n",
    ]
    with KafkaCluster() as cluster:
        for case in CASES:
            for name, read in CLIENTS.items():
                alone = measure(cluster, read, bare, case)
                rows.append(
                    row(case, name, alone, measure(cluster, read, guarded, case))
                )
                print(rows[-1], end="", flush=True)
        for name, commit in COMMITS.items():
            alone = measure_commit(cluster, commit, bare)
            ours = measure_commit(cluster, commit, guarded)
            rows.append(f"| {DELETED} | {name} | {alone} | {ours} |\n")
            print(rows[-1], end="", flush=True)
    text = PAGE.read_text()
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    PAGE.write_text(text[:begin] + "".join(rows) + text[end:])


if __name__ == "__main__":
    main()
