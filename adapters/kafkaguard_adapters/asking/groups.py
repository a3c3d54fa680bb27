"""Consumer groups: their coordinators and committed offsets."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from kafka.protocol.admin import DescribeClusterRequest, ListGroupsRequest
from kafka.protocol.consumer import OffsetFetchRequest
from kafka.protocol.metadata import FindCoordinatorRequest

from kafkaguard._cluster.reports import TopicPartition, read_number
from kafkaguard._errors import ClientProtocolError, KafkaGuardError
from kafkaguard_adapters.asking.retrying import ask_until_answered

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from kafkaguard_adapters.wire.cluster import Cluster

_GROUP: Final = 0
#: The code of the operation Describe in a list of authorized operations (KIP-430).
_DESCRIBE: Final = 8
#: From these versions on, one request can name many groups (KIP-699, KIP-709).
_MANY_COORDINATORS: Final = 4
_MANY_GROUPS: Final = 8
#: From version 10 on, requests name topics by id only.
_LAST_WITH_NAMES: Final = 9
#: The lowest versions that can ask for all topics, and for stable commits only.
_FIRST_WITH_ALL: Final = 2
_FIRST_WITH_STABLE: Final = 7
#: The offset that means "no commit"; other negative offsets were really committed.
_NO_COMMIT: Final = -1


@dataclass(slots=True)
class Committed:
    """The offsets that a group has committed.

    Attributes:
        offsets: Committed offsets by partition, without partitions that have no commit.
        metadata: The text that was committed with each offset.
        markers: Negative numbers that were committed instead of an offset.
        errors: Errors that the coordinator returned instead of an offset.
        coordinator: The id of the broker that answered.
    """

    coordinator: int
    offsets: dict[TopicPartition, int] = field(default_factory=dict)
    metadata: dict[TopicPartition, str] = field(default_factory=dict)
    markers: dict[TopicPartition, int] = field(default_factory=dict)
    errors: dict[TopicPartition, KafkaGuardError] = field(default_factory=dict)

    @property
    def places(self) -> set[TopicPartition]:
        """The partitions that have an offset, a marker or an error."""
        return {*self.offsets, *self.markers, *self.errors}


async def list_groups(
    cluster: Cluster, deadline: float, brokers: Iterable[int] | None = None
) -> tuple[dict[str, str], dict[int, KafkaGuardError]]:
    """List the groups that brokers coordinate.

    Groups of other protocols (Connect, share groups) have no lag and are left out.

    Args:
        cluster: The cluster.
        deadline: The deadline, in seconds on the event loop's clock.
        brokers: Ids of the brokers to ask. Default: all.

    Returns:
        States by group, and errors by broker.
    """
    broker_ids = list(cluster.addresses if brokers is None else brokers)
    answers = await ask_until_answered(
        broker_ids, lambda some, _: _list_groups(cluster, some, deadline), deadline
    )
    errors = {b: a for b, a in answers.items() if isinstance(a, KafkaGuardError)}
    states = {
        each.group_id: each.group_state or ""
        for broker, answer in answers.items()
        if broker not in errors
        for each in answer.groups
        if each.protocol_type in ("", "consumer") and each.group_type != "share"
    }
    return states, errors


async def sees_all_groups(cluster: Cluster, deadline: float) -> bool | None:
    """Return whether ListGroups shows this user all groups; None if not known.

    Without Describe on the cluster, ListGroups leaves out the groups that the user may
    not see.
    """
    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    try:
        answer = await cluster.ask(request, None, deadline)
    except KafkaGuardError:
        return None
    allowed: set[int] | None = answer.authorized_operations
    if answer.error_code or allowed is None:
        return None
    return _DESCRIBE in allowed


async def _list_groups(
    cluster: Cluster, brokers: Collection[int], deadline: float
) -> dict[int, Any | KafkaGuardError]:
    async def ask(broker: int) -> Any | KafkaGuardError:
        try:
            answer: Any = await cluster.ask(ListGroupsRequest(), broker, deadline)
        except KafkaGuardError as error:
            return error
        if answer.error_code:
            return cluster.make(answer.error_code, api="ListGroups", broker=broker)
        return answer

    answers = await asyncio.gather(*map(ask, brokers))
    return dict(zip(brokers, answers, strict=True))


class CommittedReader:
    """Reads the committed offsets of many groups, one request for each coordinator.

    Args:
        cluster: The cluster.
        deadline: The deadline, in seconds on the event loop's clock.
        stable: Wait until pending transactional commits have ended, instead of reading
            the offsets that were committed before them (KIP-447).
        places: The partitions to read of groups that are named here; of others, all
            that have an offset. A stable read waits for the first commit of a partition
            only if the partition is named.
    """

    def __init__(
        self,
        cluster: Cluster,
        deadline: float,
        *,
        stable: bool,
        places: Mapping[str, Collection[TopicPartition]] | None = None,
    ) -> None:
        self._cluster = cluster
        self._deadline = deadline
        self._stable = stable
        self._places = places or {}

    async def read(
        self, groups: Iterable[str]
    ) -> dict[str, Committed | KafkaGuardError]:
        """Return the committed offsets of each group, or the error."""
        return await ask_until_answered(
            dict.fromkeys(groups), self._ask, self._deadline, error_of=_find_open_error
        )

    async def _ask(
        self, groups: Collection[str], _: int
    ) -> dict[str, Committed | KafkaGuardError]:
        answers: dict[str, Committed | KafkaGuardError] = {}
        by_coordinator: dict[int, list[str]] = defaultdict(list)
        nodes = await find_coordinators(self._cluster, groups, self._deadline)
        for group, coordinator in nodes.items():
            if isinstance(coordinator, KafkaGuardError):
                answers[group] = coordinator
            else:
                by_coordinator[coordinator].append(group)
        for part in await asyncio.gather(
            *(self._ask_coordinator(*each) for each in by_coordinator.items())
        ):
            answers.update(part)
        return {
            group: answers.get(group) or self._make_omission_error(group)
            for group in groups
        }

    def _make_omission_error(self, group: str) -> KafkaGuardError:
        text = f"the answer leaves group {group} out"
        return self._cluster.make(ClientProtocolError, text, api="OffsetFetch")

    async def _ask_coordinator(
        self, coordinator: int, groups: Collection[str]
    ) -> dict[str, Committed | KafkaGuardError]:
        try:
            version = await self._cluster.version(
                OffsetFetchRequest, coordinator, self._deadline
            )
            if version >= _MANY_GROUPS:
                return await self._ask_for_many(coordinator, groups)
            return {each: await self._ask_for_one(coordinator, each) for each in groups}
        except KafkaGuardError as error:
            return dict.fromkeys(groups, error)

    async def _ask_for_many(
        self, coordinator: int, groups: Collection[str]
    ) -> dict[str, Committed | KafkaGuardError]:
        group_class = OffsetFetchRequest.OffsetFetchRequestGroup
        topic_class = group_class.OffsetFetchRequestTopics
        request = OffsetFetchRequest(
            groups=[
                group_class(group_id=group, topics=self._topics_of(group, topic_class))
                for group in groups
            ],
            require_stable=self._stable,
        )
        answer = await self._fetch(request, coordinator)
        return {
            each.group_id: self._judge(each.group_id, coordinator, each)
            for each in answer.groups
        }

    async def _ask_for_one(
        self, coordinator: int, group: str
    ) -> Committed | KafkaGuardError:
        topics = self._topics_of(group, OffsetFetchRequest.OffsetFetchRequestTopic)
        request = OffsetFetchRequest(
            group_id=group, topics=topics, require_stable=self._stable
        )
        return self._judge(group, coordinator, await self._fetch(request, coordinator))

    def _topics_of(self, group: str, topic_class: Any) -> list[Any] | None:
        """Return the partitions to read, as a request names them; None: all."""
        if group not in self._places:
            return None
        return [
            topic_class(name=place.topic, partition_indexes=[place.partition])
            for place in self._places[group]
        ]

    async def _fetch(self, request: Any, coordinator: int) -> Any:
        return await self._cluster.ask(
            request,
            coordinator,
            self._deadline,
            max_version=_LAST_WITH_NAMES,
            min_version=_FIRST_WITH_STABLE if self._stable else _FIRST_WITH_ALL,
        )

    def _judge(
        self, group: str, coordinator: int, answer: Any
    ) -> Committed | KafkaGuardError:
        if answer.error_code:
            text = f"group {group}"
            return self._make_error(answer.error_code, text, broker=coordinator)
        committed = Committed(coordinator)
        for topic in answer.topics:
            for each in topic.partitions:
                place = TopicPartition(topic.name, each.partition_index)
                if each.error_code:
                    committed.errors[place] = self._make_error(
                        each.error_code,
                        f"group {group}",
                        topic=place.topic,
                        partition=place.partition,
                        broker=coordinator,
                    )
                elif read_number(each.committed_offset) is not None:
                    committed.offsets[place] = each.committed_offset
                    committed.metadata[place] = each.metadata or ""
                elif each.committed_offset != _NO_COMMIT:
                    committed.markers[place] = each.committed_offset
        return committed

    def _make_error(self, code: int, text: str, **place: Any) -> KafkaGuardError:
        return self._cluster.make(code, text, api="OffsetFetch", **place)


def _find_open_error(answer: Committed | KafkaGuardError) -> KafkaGuardError | None:
    if isinstance(answer, KafkaGuardError):
        return answer
    temporary = (e for e in answer.errors.values() if e.verdict.retriable)
    return next(temporary, None)


async def find_coordinators(
    cluster: Cluster, groups: Collection[str], deadline: float
) -> dict[str, int | KafkaGuardError]:
    """Find the coordinators of groups, with one request if the broker supports it."""
    try:
        version = await cluster.version(FindCoordinatorRequest, None, deadline)
        if version >= _MANY_COORDINATORS:
            return await _find_many(cluster, groups, deadline)
        return {each: await _find_one(cluster, each, deadline) for each in groups}
    except KafkaGuardError as error:
        return dict.fromkeys(groups, error)


async def _find_many(
    cluster: Cluster, groups: Collection[str], deadline: float
) -> dict[str, int | KafkaGuardError]:
    request = FindCoordinatorRequest(key_type=_GROUP, coordinator_keys=list(groups))
    answer = await cluster.ask(request, None, deadline)
    return {
        each.key: _read_node(cluster, each.key, each) for each in answer.coordinators
    }


async def _find_one(
    cluster: Cluster, group: str, deadline: float
) -> int | KafkaGuardError:
    request = FindCoordinatorRequest(key_type=_GROUP, key=group)
    return _read_node(cluster, group, await cluster.ask(request, None, deadline))


def _read_node(cluster: Cluster, group: str, answer: Any) -> int | KafkaGuardError:
    if answer.error_code:
        text = answer.error_message or f"group {group}"
        return cluster.make(answer.error_code, text, api="FindCoordinator")
    node = read_number(answer.node_id)
    if node is None:
        text = f"the answer names no broker for group {group}"
        return cluster.make(ClientProtocolError, text, api="FindCoordinator")
    cluster.addresses.setdefault(node, (answer.host, answer.port))
    return node


def sort_by_coordinator(
    committed: Mapping[str, Committed | KafkaGuardError],
) -> dict[int, list[str]]:
    """Group the names of groups by the broker that answered for them."""
    groups: dict[int, list[str]] = defaultdict(list)
    for group, answer in committed.items():
        if isinstance(answer, Committed):
            groups[answer.coordinator].append(group)
    return groups
