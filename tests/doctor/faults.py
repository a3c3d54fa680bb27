"""Faults that are injected into a real cluster, and what the doctor must find of each."""

from __future__ import annotations

import shlex
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer

from kafkaguard import guard
from kafkaguard._cluster.transactions import HANGING_S
from kafkaguard.cluster import diagnose
from kafkaguard.testing import FaultProxy, KafkaCluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass(frozen=True)
class Fault:
    """A fault.

    Attributes:
        name: What is wrong.
        check: The check that finds it.
        severity: How grave it is.
        place: What the place of the finding contains; ``{topic}`` is the fault's own.
        inject: Injects it for a ``with`` block; gets the cluster and a topic's name. It
            may give settings of the client.
        settings: The client's settings.
        call: More arguments of ``diagnose``.
        remedied: Whether the finding's command removes it.
    """

    name: str
    check: str
    severity: str
    place: str
    inject: Callable[[KafkaCluster, str], Any]
    settings: dict[str, Any] = field(default_factory=dict)
    call: dict[str, Any] = field(default_factory=dict)
    remedied: bool = False


def topic(partitions: int = 1, *, letters: bool = False, **config: Any) -> Any:
    """Make the fault's topic with these settings, written with underscores."""

    @contextmanager
    def inject(cluster: KafkaCluster, name: str) -> Iterator[None]:
        settings = {key.replace("_", "."): value for key, value in config.items()}
        own = f"{name}.dlq" if letters else name
        cluster.create_topic(own, partitions, config=settings)
        yield

    return inject


def _config(cluster: KafkaCluster, **more: Any) -> dict[str, Any]:
    return {"bootstrap.servers": cluster.bootstrap_servers, **more}


def write(
    cluster: KafkaCluster, name: str, count: int, key: bytes | None = b"k"
) -> None:
    """Write records to a topic."""
    producer = Producer(_config(cluster))
    for number in range(count):
        producer.produce(name, b"%d" % number, key)
    assert producer.flush(30) == 0


@contextmanager
def keyless(cluster: KafkaCluster, name: str) -> Iterator[None]:
    """A topic that became compacted after records without keys."""
    cluster.create_topic(name)
    write(cluster, name, 3, None)
    cluster.alter_topic(name, {"cleanup.policy": "compact"})
    yield


@contextmanager
def nothing(cluster: KafkaCluster, name: str) -> Iterator[None]:
    """A topic with nothing wrong; the fault is in the settings."""
    cluster.create_topic(name)
    yield


@contextmanager
def no_topic(cluster: KafkaCluster, name: str) -> Iterator[None]:
    """No topic at all."""
    yield


def commit(cluster: KafkaCluster, group: str, name: str, offset: int) -> None:
    """Commit an offset for a group without members."""
    consumer = Consumer(_config(cluster, **{"group.id": group}))
    consumer.commit(offsets=[TopicPartition(name, 0, offset)], asynchronous=False)
    consumer.close()


def committed(offset: int, *, delete: int = 0) -> Any:
    """A group, named as its topic, that committed an offset of 10 records."""

    @contextmanager
    def inject(cluster: KafkaCluster, name: str) -> Iterator[None]:
        cluster.create_topic(name)
        write(cluster, name, 10)
        commit(cluster, name, name, offset)
        if delete:
            admin = AdminClient(_config(cluster))
            places = [TopicPartition(name, 0, delete)]
            for done in admin.delete_records(places).values():
                done.result(30)
        yield

    return inject


@contextmanager
def stalled(cluster: KafkaCluster, name: str) -> Iterator[None]:
    """A member that has committed 1 of 10 records and reads no more."""
    cluster.create_topic(name)
    write(cluster, name, 10)
    consumer = Consumer(
        _config(
            cluster,
            **{
                "group.id": name,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            },
        )
    )
    consumer.subscribe([name])
    until = time.monotonic() + 30
    while not consumer.consume(1, 0.5) and time.monotonic() < until:
        pass
    consumer.commit(offsets=[TopicPartition(name, 0, 1)], asynchronous=False)
    try:
        yield
    finally:
        consumer.close()


def members(instance_id: str | None) -> Any:
    """Members that come and go, all the time."""

    @contextmanager
    def inject(cluster: KafkaCluster, name: str) -> Iterator[None]:
        cluster.create_topic(name, 4)
        done = threading.Event()

        def come_and_go() -> None:
            while not done.is_set():
                consumer = KafkaConsumer(
                    name,
                    bootstrap_servers=cluster.bootstrap_servers,
                    group_id=name,
                    group_instance_id=instance_id,
                    session_timeout_ms=6000,
                )
                until = time.monotonic() + 0.7
                while time.monotonic() < until and not done.is_set():
                    consumer.poll(timeout_ms=100)
                consumer.close(autocommit=False)

        commit(cluster, name, name, 0)
        thread = threading.Thread(target=come_and_go)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join(30)

    return inject


@contextmanager
def static_member_leaves(cluster: KafkaCluster, name: str) -> Iterator[None]:
    """A static member that ends; the group waits for it until its session is over."""
    cluster.create_topic(name)
    consumer = KafkaConsumer(
        name,
        bootstrap_servers=cluster.bootstrap_servers,
        group_id=name,
        group_instance_id="one",
        session_timeout_ms=6000,
    )
    until = time.monotonic() + 30
    while not consumer.assignment() and time.monotonic() < until:
        consumer.poll(timeout_ms=200)
    leaving = threading.Timer(1.0, consumer.close)
    leaving.start()
    try:
        yield
    finally:
        leaving.join(30)


@contextmanager
def open_transaction(cluster: KafkaCluster, name: str) -> Iterator[None]:
    """A transaction that is open for longer than is usual."""
    cluster.create_topic(name)
    producer = Producer(_config(cluster, **{"transactional.id": name}))
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(name, b"x")
    producer.flush(10)
    yield


@contextmanager
def fencing(cluster: KafkaCluster, name: str) -> Iterator[None]:
    """Two producers with one id."""
    cluster.create_topic(name)
    done = threading.Event()

    def take_over() -> None:
        while not done.is_set():
            producer = Producer(_config(cluster, **{"transactional.id": name}))
            producer.init_transactions(30)
            producer.begin_transaction()
            producer.produce(name, b"x")
            producer.flush(10)
            done.wait(0.3)

    thread = threading.Thread(target=take_over)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(60)


TWO = {"samples": 2, "interval": 1.0}
#: Faults of one broker.
FAULTS = [
    Fault(
        "a bootstrap address where nothing listens",
        "address-unreachable",
        "risky",
        "127.0.0.1:1",
        nothing,
        {"bootstrap.servers": "{servers},127.0.0.1:1"},
    ),
    Fault("a topic that is not there", "topic-absent", "bad", "{topic}", no_topic),
    Fault(
        "min.insync.replicas above the replicas",
        "topic-min-isr-above-replicas",
        "bad",
        "{topic}",
        topic(min_insync_replicas=2),
        remedied=True,
    ),
    Fault(
        "unclean leader election",
        "topic-unclean-election",
        "risky",
        "{topic}",
        topic(unclean_leader_election_enable="true"),
        remedied=True,
    ),
    Fault(
        "records without keys in a compacted topic",
        "topic-keyless-records",
        "bad",
        "{topic}",
        keyless,
        remedied=True,
    ),
    Fault(
        "batches above the topic's limit",
        "batch-above-topic-limit",
        "bad",
        "{topic}",
        topic(max_message_bytes=1000),
        {"batch.size": 16384},
    ),
    Fault(
        "a client that takes larger records than the topic",
        "message-above-topic-limit",
        "risky",
        "{topic}",
        topic(max_message_bytes=100_000),
        {"message.max.bytes": 2_000_000},
        remedied=True,
    ),
    Fault(
        "records of the last hour only",
        "topic-timestamp-bound",
        "risky",
        "{topic}",
        topic(message_timestamp_before_max_ms=3_600_000),
        remedied=True,
    ),
    Fault(
        "clocks may differ by a second only",
        "topic-timestamp-bound",
        "risky",
        "{topic}",
        topic(message_timestamp_after_max_ms=1000),
        remedied=True,
    ),
    Fault(
        "no dead-letter topic",
        "letters-missing",
        "bad",
        "{topic}.dlq",
        nothing,
        call={
            "policy": {
                "on_reject": "dead_letter",
                "dead_letter": {"topic": "{topic}.dlq"},
            }
        },
        remedied=True,
    ),
    Fault(
        "a compacted dead-letter topic",
        "letters-compacted",
        "bad",
        "{topic}.dlq",
        topic(letters=True, cleanup_policy="compact"),
        call={"topics": None},
        remedied=True,
    ),
    Fault(
        "dead letters for an hour",
        "letters-short-lived",
        "risky",
        "{topic}.dlq",
        topic(letters=True, retention_ms=3_600_000),
        call={"topics": None},
        remedied=True,
    ),
    Fault(
        "a commit beyond the end",
        "group-beyond-end",
        "bad",
        "{topic}",
        committed(100),
        remedied=True,
    ),
    Fault(
        "a commit below the start of the log",
        "group-below-start",
        "bad",
        "{topic}",
        committed(2, delete=6),
        remedied=True,
    ),
    Fault(
        "a group without members that is behind",
        "group-empty-behind",
        "risky",
        "{topic}",
        committed(2),
    ),
    Fault(
        "a group that is not there",
        "group-absent",
        "risky",
        "{topic}",
        nothing,
    ),
    Fault(
        "a member that reads no more",
        "group-stalled",
        "bad",
        "{topic}",
        stalled,
        call=TWO,
    ),
    Fault(
        "whether a group commits, with one look",
        "group-stalled",
        "not judged",
        "{topic}",
        stalled,
    ),
    Fault(
        "members that come and go",
        "group-members-change",
        "risky",
        "{topic}",
        members(None),
        call={"samples": 9, "interval": 1.0},
    ),
    Fault(
        "members with one instance id",
        "group-shared-instance-id",
        "bad",
        "{topic}",
        members("one"),
        call={"samples": 6, "interval": 1.0},
    ),
    Fault(
        "a static member that is gone",
        "group-static-member-gone",
        "risky",
        "{topic}",
        static_member_leaves,
        call={"samples": 4, "interval": 4.0},
    ),
    Fault(
        "a transaction that is open for long",
        "transaction-old",
        "risky",
        "{topic}",
        open_transaction,
        remedied=True,
    ),
    Fault(
        "two producers with one transactional id",
        "transactional-id-shared",
        "risky",
        "{topic}",
        fencing,
        call={"samples": 8, "interval": 0.7},
    ),
    Fault(
        "a longer transaction than the brokers allow",
        "transaction-timeout-refused",
        "bad",
        "transaction.timeout.ms",
        nothing,
        {"transactional.id": "a", "transaction.timeout.ms": 3_600_000},
    ),
    Fault("acks of one", "acks-not-all", "risky", "acks", nothing, {"acks": "1"}),
    Fault(
        "no idempotence",
        "not-idempotent",
        "risky",
        "enable.idempotence",
        nothing,
        {"enable.idempotence": False},
    ),
    Fault(
        "five seconds for a record",
        "delivery-timeout-short",
        "risky",
        "delivery.timeout.ms",
        nothing,
        {"delivery.timeout.ms": 5000},
    ),
    Fault(
        "a policy that the client overrules",
        "policy-clash",
        "risky",
        "",
        nothing,
        {"enable.idempotence": False},
        {"policy": "default"},
    ),
    Fault(
        "a disk that is full",
        "disk-full",
        "bad",
        "broker 0",
        nothing,
        call={"full": 0.001, "topics": None},
    ),
]


@contextmanager
def limited_user(cluster: KafkaCluster, name: str) -> Iterator[dict[str, Any]]:
    """A user that may see a topic, and nothing else."""
    cluster.create_topic(name)
    cluster.grant("bob", "DESCRIBE", "TOPIC", name)
    yield cluster.client_config("SASL_PLAIN", client="confluent", user="bob")


@contextmanager
def other_protocol(cluster: KafkaCluster, name: str) -> Iterator[dict[str, Any]]:
    """One of the addresses wants TLS."""
    cluster.create_topic(name)
    tls = cluster.listener("TLS").bootstrap_servers
    yield {"bootstrap.servers": f"{cluster.bootstrap_servers},{tls}"}


def through_proxy(prepare: Callable[[FaultProxy], Any], **config: Any) -> Any:
    """A topic, looked at through a proxy that lies."""

    @contextmanager
    def inject(cluster: KafkaCluster, name: str) -> Iterator[dict[str, Any]]:
        settings = {key.replace("_", "."): value for key, value in config.items()}
        cluster.create_topic(name, config=settings)
        with FaultProxy(cluster) as proxy:
            prepare(proxy)
            yield {"bootstrap.servers": proxy.bootstrap_servers}

    return inject


def remote_storage_starts(proxy: FaultProxy) -> None:
    """The leader answers as one whose remote storage is not ready (KIP-1007)."""
    proxy.on("ListOffsets").fail(9)


def old_broker(proxy: FaultProxy) -> None:
    """It offers what Kafka 2.1 did, of the requests that the doctor would use."""
    for api in ("ListTransactions", "DescribeTransactions", "DescribeProducers"):
        proxy.on(api).hide()
    for api, highest in (
        ("DescribeLogDirs", 1),
        ("OffsetFetch", 5),
        ("FindCoordinator", 2),
        ("ListOffsets", 4),
        ("Fetch", 10),
        ("Metadata", 7),
        ("ListGroups", 2),
        ("DescribeGroups", 2),
    ):
        proxy.on(api).cap(highest)
    for api in ("DescribeCluster", "ConsumerGroupDescribe", "DescribeTopicPartitions"):
        proxy.on(api).hide()


#: Faults of a cluster with users, TLS and tiered storage.
GUARDED_CLUSTER: dict[str, Any] = {
    "users": {"alice": "a-secret", "bob": "b-secret"},
    "super_users": ["alice"],
    "tls": True,
    "tiered": True,
}
GUARDED = [
    Fault(
        "a user without rights on a topic",
        "topic-rights",
        "not judged",
        "{topic}",
        limited_user,
    ),
    Fault(
        "a user who may not see a topic's settings",
        "topic-settings",
        "not judged",
        "{topic}",
        limited_user,
    ),
    Fault(
        "a user who does not see all groups",
        "groups-hidden",
        "not judged",
        "groups",
        limited_user,
        call={"groups": None, "topics": None},
    ),
    Fault(
        "an address that wants TLS",
        "address-unreachable",
        "risky",
        "127.0.0.1",
        other_protocol,
    ),
    Fault(
        "remote storage that is not ready",
        "remote-storage-not-ready",
        "bad",
        "{topic}",
        through_proxy(remote_storage_starts, remote_storage_enable="true"),
    ),
    Fault(
        "a broker of Kafka 2.1",
        "broker-too-old",
        "not judged",
        "broker 0",
        through_proxy(old_broker),
    ),
]


@contextmanager
def hanging(cluster: KafkaCluster, name: str) -> Iterator[None]:
    """A transaction that its coordinator does not know (KIP-664).

    Its records reached the partition, and AddPartitionsToTxn never reached the
    coordinator; the broker does not verify that.
    """
    cluster.create_topic(name)
    with FaultProxy(cluster) as proxy:
        proxy.on("AddPartitionsToTxn").fail(0, at="partition")
        producer = Producer(
            {"bootstrap.servers": proxy.bootstrap_servers, "transactional.id": name}
        )
        producer.init_transactions(30)
        producer.begin_transaction()
        long_ago = int((time.time() - 2 * HANGING_S) * 1000)
        producer.produce(name, b"x", timestamp=long_ago)
        producer.flush(30)
        yield


@contextmanager
def broken_disk(cluster: KafkaCluster, name: str) -> Iterator[None]:
    """A file where the folder of one of two disks was; not mended."""
    cluster.create_topic(name, 8)
    write(cluster, name, 50)
    disk = disks(cluster)[1]
    disk.rename(disk.with_name("pulled"))
    disk.touch()
    until = time.monotonic() + 60
    while "Stopping serving logs in dir" not in cluster.logs():
        assert time.monotonic() < until, "the broker has not noticed"
        time.sleep(0.2)
    yield


def disks(cluster: KafkaCluster) -> list[Path]:
    """Return the folders of a broker's disks."""
    with guard(factory=AdminClient, config=_config(cluster)) as admin:
        return sorted(map(Path, admin.log_dirs().brokers[0].dirs))


@contextmanager
def two_disks(folder: Path) -> Iterator[KafkaCluster]:
    """A broker with two disks that does not verify transactions."""
    names = ",".join(str(folder / each) for each in ("disk-a", "disk-b"))
    settings = {
        "log.dirs": names,
        "log.flush.offset.checkpoint.interval.ms": 500,
        "transaction.partition.verification.enable": "false",
    }
    with KafkaCluster(settings=settings) as cluster:
        yield cluster


#: Faults of a broker with two disks, which does not verify transactions.
DISKS = [
    Fault(
        "a transaction that hangs",
        "transaction-hanging",
        "bad",
        "transaction of producer",
        hanging,
        remedied=True,
    ),
    Fault(
        "a disk that is broken",
        "disk-offline",
        "bad",
        "disk-b",
        broken_disk,
        call={"topics": None},
    ),
]


@contextmanager
def one_down(cluster: KafkaCluster, name: str) -> Iterator[None]:
    """Two topics, and then a broker that has replicas of both crashes."""
    cluster.create_topic(
        name, 3, replication_factor=3, config={"min.insync.replicas": 3}
    )
    cluster.create_topic(f"{name}-other", 3, replication_factor=3)
    cluster.create_topic(f"{name}-alone", 3, replication_factor=1)
    broker = cluster.brokers[-1]
    broker.kill()
    time.sleep(12)  # the controller misses it
    try:
        yield
    finally:
        broker.start()
        for each in cluster.brokers:
            each.wait_until_ready({0, 1, 2}, 60)


@contextmanager
def one_paused(cluster: KafkaCluster, name: str) -> Iterator[None]:
    """A broker that accepts connections and answers nothing."""
    cluster.create_topic(name, 3, replication_factor=3)
    broker = cluster.brokers[-1]
    broker.pause()
    try:
        yield
    finally:
        broker.resume()


def replicated(factor: int, **config: Any) -> Any:
    """A topic with so many replicas."""

    @contextmanager
    def inject(cluster: KafkaCluster, name: str) -> Iterator[None]:
        settings = {key.replace("_", "."): value for key, value in config.items()}
        cluster.create_topic(name, 3, replication_factor=factor, config=settings)
        yield

    return inject


#: Faults of three brokers.
THREE = [
    Fault("one replica", "topic-one-replica", "risky", "{topic}", replicated(1)),
    Fault(
        "as many replicas as must be in sync",
        "topic-no-spare-replica",
        "risky",
        "{topic}",
        replicated(3, min_insync_replicas=3),
        remedied=True,
    ),
    Fault(
        "one replica in sync is enough",
        "topic-min-isr-one",
        "risky",
        "{topic}",
        replicated(3, min_insync_replicas=1),
        remedied=True,
    ),
    Fault(
        "a broker that answers nothing",
        "broker-unreachable",
        "bad",
        "broker 2",
        one_paused,
        call={"timeout": 4.0},
    ),
    Fault("a broker that is down", "broker-down", "bad", "broker 2", one_down),
    Fault(
        "a partition without enough replicas in sync",
        "topic-under-min-isr",
        "bad",
        "{topic}",
        one_down,
    ),
    Fault(
        "a partition with a replica that is behind",
        "topic-under-replicated",
        "risky",
        "{topic}-other",
        one_down,
        call={"topics": None},
    ),
    Fault(
        "a partition without a leader",
        "topic-no-leader",
        "bad",
        "{topic}-alone",
        one_down,
        call={"topics": None},
    ),
]


def fill(value, **names):
    """Fill in names, in texts inside of settings too."""
    if isinstance(value, str):
        for name, text in names.items():
            value = value.replace("{" + name + "}", text)
        return value
    if isinstance(value, dict):
        return {key: fill(each, **names) for key, each in value.items()}
    return value


def examine(fault, cluster, name, more=None):
    """Return the findings of the fault's check at its place.

    Args:
        fault: The fault.
        cluster: The cluster.
        name: The topic.
        more: Settings of the client that the injection gave.
    """
    names = {"topic": name, "servers": cluster.bootstrap_servers}
    config = {"bootstrap.servers": cluster.bootstrap_servers, **(more or {})}
    call = {"topics": [name], "groups": [name], **fill(fault.call, **names)}
    diagnosis = diagnose(config | fill(fault.settings, **names), **call)
    place = fill(fault.place, **names)
    return [
        each
        for each in diagnosis.findings
        if each.check == fault.check and place in each.place
    ]


def execute(command):
    """Type a command."""
    words = shlex.split(command)
    if words[0] == "kafkaguard":
        words[:1] = [sys.executable, "-m", "kafkaguard"]
    else:
        words[0] = sys.executable
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
