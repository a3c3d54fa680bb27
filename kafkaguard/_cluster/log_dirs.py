"""Reports of log directories (KIP-113, KIP-784, KIP-827)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kafkaguard._cluster.reports import (
    Make,
    TopicPartition,
    make,
    raise_gravest,
    read_number,
)
from kafkaguard._errors import (
    ClientNotConnectedError,
    ClientProtocolError,
    ClientTimeoutError,
    ClusterAuthorizationFailedError,
    KafkaGuardError,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

API = "DescribeLogDirs"
#: From this version on, a broker answers with an error code (KIP-784).
FIRST_WITH_ERROR = 3


@dataclass(frozen=True, slots=True)
class Replica:
    """A replica's log in a directory.

    Attributes:
        topic: The topic.
        partition: The partition.
        size: Bytes of this copy, local segments only (KAFKA-19527); None if unknown.
        offset_lag: Offsets that it is behind; None if unknown.
        is_future: Whether it is being moved here from another directory of the same
            broker.
    """

    topic: str
    partition: int
    size: int | None
    offset_lag: int | None
    is_future: bool = False


@dataclass(frozen=True, slots=True)
class LogDir:
    """A log directory of a broker.

    Attributes:
        path: The path on the broker.
        error: Why the broker could not read it (``KafkaStorageError`` when offline).
        total_bytes: Size of the disk; None below version 4.
        usable_bytes: Free bytes of the disk; None below version 4.
        is_cordoned: Whether no new replica is placed here; None below version 5.
        replicas: The replicas in this directory.
        future_replicas: Copies that are being moved here; their sizes are not counted.
    """

    path: str
    error: KafkaGuardError | None = None
    total_bytes: int | None = None
    usable_bytes: int | None = None
    is_cordoned: bool | None = None
    replicas: tuple[Replica, ...] = ()
    future_replicas: tuple[Replica, ...] = ()

    @property
    def is_remote(self) -> bool:
        """Whether it is storage that the brokers share (``remote://``)."""
        return self.path.startswith("remote://")

    @property
    def size(self) -> int | None:
        """Bytes of the replicas in this directory; None if unknown."""
        return None if self.error else _sum(each.size for each in self.replicas)

    @property
    def used(self) -> float | None:
        """The used share of the disk, 0 to 1; None if unknown."""
        if not self.total_bytes or self.usable_bytes is None:
            return None
        return 1 - self.usable_bytes / self.total_bytes


@dataclass(frozen=True, slots=True)
class BrokerLogDirs:
    """One broker's answer, or its error.

    Attributes:
        broker: The broker's id.
        version: The version of the request; None if none was sent.
        error: Why there are no directories.
        is_concluded: Whether the error was concluded from an empty answer.
        dirs: Directories by path.
    """

    broker: int
    version: int | None = None
    error: KafkaGuardError | None = None
    is_concluded: bool = False
    dirs: Mapping[str, LogDir] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LogDirsReport:
    """Log directories of a cluster: a value or an error for each broker.

    Attributes:
        brokers: Answers by broker id; a broker that is registered but fenced or down
            has an error.
        registry_error: Why it is unknown whether these are all brokers.
    """

    brokers: Mapping[int, BrokerLogDirs]
    registry_error: KafkaGuardError | None = None

    @property
    def errors(self) -> list[KafkaGuardError]:
        """The errors of brokers and of directories."""
        errors = [self.registry_error]
        for broker in self.brokers.values():
            errors += [broker.error, *(each.error for each in broker.dirs.values())]
        return [error for error in errors if error is not None]

    @property
    def complete(self) -> bool:
        """Whether each broker reported all its directories."""
        return not self.errors

    def raise_for_errors(self) -> None:
        """Raise the most severe error, if there is one, with the others as notes.

        Raises:
            KafkaGuardError: The report is not complete.
        """
        raise_gravest(self.errors)

    def replicas(self) -> Iterator[tuple[int, LogDir, Replica]]:
        """Iterate over all replicas but future ones, with broker and directory."""
        for broker in self.brokers.values():
            for log_dir in broker.dirs.values():
                for replica in log_dir.replicas:
                    yield broker.broker, log_dir, replica

    def local_size(self, topic: str, partition: int | None = None) -> int | None:
        """Sum the bytes of all replicas on the brokers' own disks.

        Args:
            topic: The topic.
            partition: Only this partition. Default: all.

        Returns:
            None if the report is not complete, because missing parts may have more.
        """
        if not self.complete:
            return None
        return _sum(
            replica.size
            for _, log_dir, replica in self.replicas()
            if not log_dir.is_remote and _is_selected(replica, topic, partition)
        )

    def remote_size(self, topic: str, partition: int | None = None) -> int | None:
        """Sum the bytes in storage that the brokers share, each partition once.

        Some servers list a ``remote://`` directory once for each broker.

        Returns:
            None if the report is not complete, because missing parts may have more.
        """
        if not self.complete:
            return None
        largest: dict[TopicPartition, int | None] = {}
        for _, log_dir, replica in self.replicas():
            if log_dir.is_remote and _is_selected(replica, topic, partition):
                key = TopicPartition(replica.topic, replica.partition)
                sizes = [each for each in (replica.size, largest.get(key)) if each]
                largest[key] = max(sizes, default=replica.size)
        return _sum(largest.values())


def _sum(sizes: Iterable[int | None]) -> int | None:
    """Sum sizes; None if one of them is unknown."""
    total = 0
    for size in sizes:
        if size is None:
            return None
        total += size
    return total


def _is_selected(replica: Replica, topic: str, partition: int | None) -> bool:
    return replica.topic == topic and partition in (None, replica.partition)


def read_answer(
    broker: int, version: int, answer: Any, make: Make = make
) -> BrokerLogDirs:
    """Make a report from a broker's answer.

    A broker always has a directory, so an answer without one hides an error. Below
    version 3, which has no field for a top-level error, a broker denies the request in
    this way.

    Args:
        broker: The broker's id.
        version: The version that was sent.
        answer: ``DescribeLogDirsResponse`` of kafka-python's protocol engine.
        make: Makes the errors.
    """
    code = answer.error_code if version >= FIRST_WITH_ERROR else 0
    if code:
        error = make(code, _ADVICE.get(code), api=API, broker=broker)
        return BrokerLogDirs(broker, version, error)
    if not answer.results:
        is_old = version < FIRST_WITH_ERROR
        cls = ClusterAuthorizationFailedError if is_old else ClientProtocolError
        text = (_EMPTY_OLD if is_old else _EMPTY).format(version)
        error = make(cls, text, api=API, broker=broker)
        return BrokerLogDirs(broker, version, error, is_concluded=True)
    dirs = (_log_dir(broker, version, each, make) for each in answer.results)
    return BrokerLogDirs(broker, version, dirs={each.path: each for each in dirs})


_GRANT = "Grant the user the operation Describe on the resource Cluster."
_EMPTY_OLD = (
    "the answer to version {} is empty. A broker answers so only if the user may not "
    "Describe the cluster; it names the error itself only from version "
    f"{FIRST_WITH_ERROR} on. {_GRANT}"
)
_EMPTY = (
    "the answer to version {} has no directory and no error, although a broker always "
    "has a directory. Ask again, and check that broker's log and any proxy in front "
    "of it"
)
_ADVICE = {ClusterAuthorizationFailedError.code: _GRANT}


def read_failure(
    broker: int, version: int | None, error: KafkaGuardError
) -> BrokerLogDirs:
    """Make a report from the lack of an answer.

    Args:
        broker: The broker's id.
        version: The version that was sent; None if nothing was sent.
        error: Why there is no answer.
    """
    is_old = version is not None and version < FIRST_WITH_ERROR
    if is_old and isinstance(error, ClientTimeoutError):
        error.add_note(
            "Some 3.2 brokers do not answer a user without Describe on the cluster: "
            "check the user's rights, too (apache/kafka #12017)."
        )
    return BrokerLogDirs(broker, version, error)


def read_absence(broker: int, make: Make = make) -> BrokerLogDirs:
    """Make a report for a broker that belongs to the cluster but cannot be asked.

    Args:
        broker: The broker's id.
        make: Makes the errors.
    """
    text = (
        f"broker {broker} is registered but fenced or down, so its directories are "
        "unknown: check that broker; if it was removed, unregister it"
    )
    error = make(ClientNotConnectedError, text, api=API, broker=broker)
    return BrokerLogDirs(broker, None, error)


def _log_dir(broker: int, version: int, result: Any, make: Make) -> LogDir:
    error = None
    if result.error_code:
        text = f"log directory {result.log_dir}"
        error = make(result.error_code, text, api=API, broker=broker)
    replicas = [_replica(topic.name, each) for topic, each in _partitions(result)]
    return LogDir(
        result.log_dir,
        error,
        read_number(result.total_bytes) if version >= 4 else None,  # noqa: PLR2004 - KIP-827
        read_number(result.usable_bytes) if version >= 4 else None,  # noqa: PLR2004 - likewise
        result.is_cordoned if version >= 5 else None,  # noqa: PLR2004 - KIP-1066
        tuple(replica for replica in replicas if not replica.is_future),
        tuple(replica for replica in replicas if replica.is_future),
    )


def _partitions(result: Any) -> Iterator[tuple[Any, Any]]:
    for topic in result.topics:
        for partition in topic.partitions:
            yield topic, partition


def _replica(topic: str, partition: Any) -> Replica:
    return Replica(
        topic,
        partition.partition_index,
        read_number(partition.partition_size),
        read_number(partition.offset_lag),
        partition.is_future_key,
    )
