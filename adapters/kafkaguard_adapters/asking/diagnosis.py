"""``diagnose``: looks up what the checks need, as this user, and changes nothing.

The number of requests does not grow with topics or groups: Metadata and the settings of
all topics are one request each, brokers are asked once for settings and disks, and each
look is a measurement of lag and a list of transactions.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from kafka.protocol.admin import (
    DescribeConfigsRequest,
    DescribeLogDirsRequest,
    DescribeProducersRequest,
    ListTransactionsRequest,
)
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.producer import InitProducerIdRequest

from kafkaguard._cluster.offsets import EARLIEST, LATEST, READ_UNCOMMITTED
from kafkaguard._cluster.reports import TopicPartition, make
from kafkaguard._doctor.checks import CHECKS, run_checks
from kafkaguard._doctor.facts import (
    BrokerState,
    Facts,
    Look,
    PartitionState,
    TopicState,
)
from kafkaguard._doctor.findings import Diagnosis, sort_findings
from kafkaguard._errors import KafkaGuardError, RemoteStorageNotReadyError
from kafkaguard_adapters.asking import log_dirs
from kafkaguard_adapters.asking.fetch_probe import count_keyless
from kafkaguard_adapters.asking.lag import Question, read_lag
from kafkaguard_adapters.asking.list_offsets import Leaders, OffsetLister
from kafkaguard_adapters.asking.topic_settings import FactsOfTopics
from kafkaguard_adapters.asking.transactions import TransactionLister
from kafkaguard_adapters.wire.cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import Awaitable, Collection, Iterable, Mapping

    from kafkaguard._cluster.lag import LagReport
    from kafkaguard_adapters.wire.settings import Settings

_TOPIC: Final = 2
_BROKER: Final = 4
_TOPIC_SETTINGS: Final = (
    "cleanup.policy",
    "max.message.bytes",
    "message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms",
    "min.insync.replicas",
    "remote.storage.enable",
    "retention.ms",
    "unclean.leader.election.enable",
)
_BROKER_SETTINGS: Final = ("offsets.retention.minutes", "transaction.max.timeout.ms")
_LIST: Final = "ListTransactions (Kafka 3.0)"
#: What needs a request from a version on, and what is missing without it.
_NEEDS: Final = (
    (ListTransactionsRequest, 0, _LIST, "open transactions are not listed"),
    (
        DescribeProducersRequest,
        0,
        "DescribeProducers (Kafka 2.8)",
        "a transaction that hangs is not found",
    ),
    (
        DescribeLogDirsRequest,
        4,
        "DescribeLogDirs version 4 (Kafka 3.3)",
        "how full its disks are is not known",
    ),
    (
        InitProducerIdRequest,
        0,
        "InitProducerId (Kafka 0.11)",
        "producers can have neither idempotence nor transactions",
    ),
)
#: The last records of a compacted topic that are read.
_LAST: Final = 20


class Examination:
    """Looks at a cluster.

    Args:
        settings: The connection settings.
        facts: What is known already: the client's settings, the policy, the bounds.
        topics: Only these topics. Default: all.
        groups: Only these groups. Default: all.
        deadline: The deadline, in seconds on the event loop's clock.
    """

    def __init__(
        self,
        settings: Settings,
        facts: Facts,
        topics: tuple[str, ...] | None,
        groups: tuple[str, ...] | None,
        deadline: float,
    ) -> None:
        self._settings = settings
        self._facts = facts
        self._topics = topics
        self._groups = groups
        self._end = deadline
        self._cluster = Cluster(settings, make)
        self._known = FactsOfTopics()
        self._leaders: Leaders | None = None

    @property
    def _deadline(self) -> float:
        """The deadline of a look-up: half of the time that is left.

        So a broker that does not answer leaves time for the others.
        """
        now = asyncio.get_running_loop().time()
        return now + (self._end - now) / 2

    async def run(self, only: tuple[str, ...], samples: int) -> Diagnosis:
        """Look, and run the checks.

        Raises:
            KafkaGuardError: No broker answers.
        """
        taken_at, start = time.time(), time.monotonic()
        try:
            await self._look_up(set(only or CHECKS), samples)
        finally:
            self._cluster.close()
        findings = sort_findings(run_checks(self._facts, only))
        return Diagnosis(findings, taken_at, time.monotonic() - start)

    async def _look_up(self, areas: Collection[str], samples: int) -> None:
        answer = await self._metadata()
        addresses = asyncio.create_task(self._try_addresses())
        try:
            await self._brokers(answer)
            await self._topic_settings(answer)
            if "disks" in areas:
                self._facts.log_dirs = await self._try("disks", self._disks())
            if "topics" in areas:
                await self._try("topics", self._compacted_and_tiered())
            needs_looks = {"groups", "rights", "transactions"} & set(areas)
            for number in range(samples if needs_looks else 0):
                if number:
                    await asyncio.sleep(self._facts.interval)
                look = await self._try("groups", self._look())
                self._facts.looks += [] if look is None else [look]
        finally:
            self._facts.addresses = await addresses
            works = (a for a, error in self._facts.addresses.items() if error is None)
            self._facts.bootstrap = next(works, self._facts.bootstrap)

    async def _try(self, area: str, look_up: Awaitable[Any]) -> Any:
        """Return what is looked up, or None, and keep why it could not be."""
        try:
            return await look_up
        except KafkaGuardError as error:
            self._facts.failures.append((area, error))
            return None

    async def _metadata(self) -> Any:
        """Ask for all topics, with what this user may do with them."""
        await self._cluster.refresh(self._deadline)
        make_topic = MetadataRequest.MetadataRequestTopic
        names = {*(self._topics or ()), *self._facts.letters.values()}
        request = MetadataRequest(
            topics=None
            if self._topics is None
            else [make_topic(name=name) for name in sorted(names)],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=True,
        )
        answer = await self._cluster.ask(request, None, self._deadline)
        self._leaders = Leaders(answer, self._cluster)
        return answer

    async def _try_addresses(self) -> dict[str, KafkaGuardError | None]:
        """Try each address of the client by itself."""

        async def attempt(address: tuple[str, int]) -> KafkaGuardError | None:
            cluster = Cluster(replace(self._settings, bootstrap=(address,)), make)
            try:
                await cluster.refresh(self._deadline)
            except KafkaGuardError as error:
                return error
            finally:
                cluster.close()
            return None

        addresses = list(self._settings.bootstrap)
        errors = await asyncio.gather(*map(attempt, addresses))
        return {
            f"{host}:{port}": error
            for (host, port), error in zip(addresses, errors, strict=True)
        }

    async def _brokers(self, answer: Any) -> None:
        addresses = self._cluster.addresses
        states = await asyncio.gather(*map(self._broker, addresses))
        self._facts.brokers = {each.id: each for each in states}
        replicas = {
            number
            for topic in answer.topics
            for each in topic.partitions
            for number in each.replica_nodes
        }
        self._facts.missing = frozenset(replicas - addresses.keys())

    async def _broker(self, broker: int) -> BrokerState:
        address = "{}:{}".format(*self._cluster.addresses[broker])
        resource: Any = (_BROKER, str(broker), list(_BROKER_SETTINGS))
        request = DescribeConfigsRequest(resources=[resource])
        try:
            answer = await self._cluster.ask(request, broker, self._deadline)
            lacks = {
                name: missing
                for needed, lowest, name, missing in _NEEDS
                if await self._cluster.version(needed, broker, self._deadline) < lowest
            }
        except KafkaGuardError as error:
            return BrokerState(broker, address, error)
        (result,) = answer.results
        settings = None if result.error_code else _values(result)
        return BrokerState(broker, address, None, settings, lacks)

    async def _topic_settings(self, answer: Any) -> None:
        """Ask for the settings of all topics at once."""
        there = [each for each in answer.topics if not each.error_code]
        self._facts.absent = tuple(
            each.name
            for each in answer.topics
            if each.error_code and each.name in (self._topics or ())
        )
        settings: dict[str, Mapping[str, str]] = {}
        if there:
            request = DescribeConfigsRequest(
                resources=[(_TOPIC, e.name, list(_TOPIC_SETTINGS)) for e in there]
            )
            try:
                answers = await self._cluster.ask(request, None, self._deadline)
            except KafkaGuardError:
                answers = None
            settings = {
                each.resource_name: _values(each)
                for each in getattr(answers, "results", ())
                if not each.error_code
            }
        self._facts.topics = {e.name: _topic(e, settings.get(e.name)) for e in there}

    async def _disks(self) -> Any:
        seconds = self._deadline - asyncio.get_running_loop().time()
        return await log_dirs.log_dirs(self._cluster, None, None, seconds, None)

    async def _compacted_and_tiered(self) -> None:
        """Read the last records of compacted topics, and offsets of tiered ones."""
        assert self._leaders is not None
        partitions = self._leaders.partitions
        led = {p: one for p, one in partitions.items() if isinstance(one, int)}
        compacted, tiered = (
            [
                place
                for place in led
                if (topic := self._facts.topics.get(place.topic)) is not None
                and word in (topic.settings or {}).get(setting, "")
                and not place.topic.startswith("__")
            ]
            for setting, word in (
                ("cleanup.policy", "compact"),
                ("remote.storage.enable", "true"),
            )
        )
        if tiered:
            lister = OffsetLister(
                self._cluster, self._known, self._deadline, isolation=READ_UNCOMMITTED
            )
            found = await lister.list(dict.fromkeys(tiered, EARLIEST))
            self._facts.cold = {
                place: each.error
                for place, each in found.items()
                if isinstance(each.error, RemoteStorageNotReadyError)
            }
        if compacted:
            self._facts.keyless = await self._keyless(compacted, led)

    async def _keyless(
        self, places: Iterable[TopicPartition], led: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        lister = OffsetLister(
            self._cluster, self._known, self._deadline, isolation=READ_UNCOMMITTED
        )
        ends = await lister.list(dict.fromkeys(places, LATEST))
        by_leader: defaultdict[int, dict[TopicPartition, int]] = defaultdict(dict)
        for place, each in ends.items():
            if each.offset:
                by_leader[led[place]][place] = max(0, each.offset - _LAST)
        parts = await asyncio.gather(
            *(
                count_keyless(self._cluster, *each, self._deadline)
                for each in by_leader.items()
            )
        )
        return {place: n for part in parts for place, n in part.items() if n}

    async def _look(self) -> Look:
        """Measure the lag, and list members and transactions."""
        question = Question(
            self._groups,
            None if self._topics is None else frozenset(self._topics),
            columns=frozenset({"log_start", "members"}),
        )
        lag = await read_lag(self._cluster, self._known, question, self._deadline, {})
        lister = TransactionLister(self._cluster, self._known, self._deadline)
        can_list = all(_LIST not in e.lacks for e in self._facts.brokers.values())
        transactions = await lister.find() if can_list else None
        if transactions is not None and self._topics is not None:
            transactions = transactions.of_topics(self._topics)
        return Look(lag, transactions, _members(lag))


def _topic(answer: Any, settings: Mapping[str, str] | None) -> TopicState:
    operations: set[int] | None = answer.authorized_operations
    allowed = None if operations is None else frozenset(operations)
    return TopicState(
        answer.name,
        tuple(
            PartitionState(
                each.partition_index,
                each.leader_id if each.leader_id >= 0 else None,
                tuple(each.replica_nodes),
                tuple(each.isr_nodes),
            )
            for each in answer.partitions
        ),
        settings,
        allowed,
    )


def _values(result: Any) -> dict[str, str]:
    return {each.name: each.value for each in result.configs if each.value is not None}


def _members(lag: LagReport) -> dict[str, dict[str, str | None]]:
    """Return the ids of the members of each group, with their static ids."""
    return {
        name: {
            each.member.id: each.member.instance_id
            for each in group.partitions.values()
            if each.member is not None
        }
        for name, group in lag.groups.items()
    }
