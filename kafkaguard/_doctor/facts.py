"""What was looked up about a cluster, and what the client and its policy are."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkaguard._cluster.lag import LagReport
    from kafkaguard._cluster.log_dirs import LogDirsReport
    from kafkaguard._cluster.reports import TopicPartition
    from kafkaguard._cluster.transactions import TransactionsReport
    from kafkaguard._errors import KafkaGuardError

#: Operations in a list of authorized operations (KIP-430).
READ, WRITE = 3, 4

#: From so many brokers on, replication is judged.
_REPLICATED = 3
#: librdkafka's defaults.
_DEFAULTS = {
    "message.max.bytes": 1_000_000,
    "batch.size": 1_000_000,
    "delivery.timeout.ms": 300_000,
    "transaction.timeout.ms": 60_000,
}


@dataclass(frozen=True, slots=True)
class PartitionState:
    """A partition, by Metadata.

    Attributes:
        number: The partition.
        leader: The leading broker; None: no broker leads it.
        replicas: The brokers with a replica.
        in_sync: The brokers whose replica is in sync.
    """

    number: int
    leader: int | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicState:
    """A topic.

    Attributes:
        name: The topic.
        partitions: Its partitions.
        settings: Its settings by Kafka's names; None: this user may not see them.
        allowed: The operations that this user may do; None if unknown.
    """

    name: str
    partitions: tuple[PartitionState, ...] = ()
    settings: Mapping[str, str] | None = None
    allowed: frozenset[int] | None = None

    def number(self, setting: str) -> int | None:
        """Return a setting that is a number; None if it is not known."""
        value = (self.settings or {}).get(setting)
        return None if value is None else int(value)


@dataclass(frozen=True, slots=True)
class BrokerState:
    """A broker.

    Attributes:
        id: The broker's id.
        address: Where it is, as the cluster says.
        error: Why it cannot be used from here; None if it can.
        settings: Its settings by Kafka's names; None: this user may not see them.
        lacks: What cannot be judged without requests that it does not offer: by the
            name of the request, what is missing.
    """

    id: int
    address: str
    error: KafkaGuardError | None = None
    settings: Mapping[str, str] | None = None
    lacks: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Look:
    """One look at what changes.

    Attributes:
        lag: The lag of the groups, with their members.
        transactions: The open transactions; None if they could not be listed.
        members: The ids of the members of each group, by ``group.instance.id``.
    """

    lag: LagReport
    transactions: TransactionsReport | None = None
    members: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)


@dataclass(slots=True)
class Facts:
    """All that the checks look at.

    Attributes:
        bootstrap: Where the cluster is, for commands.
        addresses: Each address of the client, and why it cannot be used.
        brokers: The brokers, by id.
        missing: Brokers that have replicas and are not there.
        topics: The topics, by name.
        absent: Topics that were named and are not there, or may not be seen.
        looks: One look or more, at least ``interval`` apart.
        interval: Seconds between two looks.
        log_dirs: The disks; None if they could not be looked up.
        cold: Tiered partitions whose remote storage is not ready.
        keyless: The records without a key among the last ones of compacted topics.
        settings: The client's settings, by librdkafka's names.
        letters: The dead-letter topic of each topic that the policy names.
        clashes: What contradicts the policy: setting, and text.
        full: The share of a disk above which it counts as full.
        failures: What could not be looked up: the area, and why.
        wanted_groups: Groups that were named.
    """

    bootstrap: str
    addresses: Mapping[str, KafkaGuardError | None] = field(default_factory=dict)
    brokers: dict[int, BrokerState] = field(default_factory=dict)
    missing: frozenset[int] = frozenset()
    topics: dict[str, TopicState] = field(default_factory=dict)
    absent: tuple[str, ...] = ()
    looks: list[Look] = field(default_factory=list)
    interval: float = 5.0
    log_dirs: LogDirsReport | None = None
    cold: Mapping[TopicPartition, KafkaGuardError] = field(default_factory=dict)
    keyless: Mapping[TopicPartition, int] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    letters: Mapping[str, str] = field(default_factory=dict)
    clashes: tuple[tuple[str, str], ...] = ()
    full: float = 0.85
    failures: list[tuple[str, KafkaGuardError]] = field(default_factory=list)
    wanted_groups: tuple[str, ...] = ()

    @property
    def is_replicated(self) -> bool:
        """Whether there are three brokers or more, so that replication is judged."""
        return len(self.brokers) + len(self.missing) >= _REPLICATED

    def broker_setting(self, name: str) -> str | None:
        """Return a setting of a broker, any that has it; None if none is known."""
        for broker in self.brokers.values():
            if broker.settings and name in broker.settings:
                return broker.settings[name]
        return None

    def alter(self, topic: str, setting: str) -> str:
        """Return the command that changes a setting of a topic."""
        return self.admin("configs", "alter", "-r", "topic", "-n", topic, "-c", setting)

    def admin(self, *words: str) -> str:
        """Return a command of kafka-python's admin, with the login but the password.

        Names come from the cluster, so each word is quoted for the shell.
        """
        login = []
        protocol = self.settings.get("security.protocol", "plaintext").upper()
        if protocol != "PLAINTEXT":
            login += ["-S", protocol]
        if protocol.startswith("SASL"):
            mechanism = self.settings.get("sasl.mechanism", "PLAIN").upper()
            login += ["-M", mechanism, "-U", self.settings.get("sasl.username", "USER")]
        secret = ' -P "$KAFKA_PASSWORD"' if protocol.startswith("SASL") else ""
        start = shlex.join(
            ["python", "-m", "kafka.admin", "-b", self.bootstrap, *login]
        )
        return f"{start}{secret} {shlex.join(words)}"


def number_of(facts: Facts, setting: str) -> int:
    """Return a setting of the client that is a number, or librdkafka's default."""
    value = facts.settings.get(setting)
    return _DEFAULTS[setting] if value is None else int(float(value))
