"""Members of a group and their partitions, for both group protocols."""

from __future__ import annotations

import asyncio
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kafka.protocol.admin import DescribeGroupsRequest
from kafka.protocol.consumer.metadata import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)

from kafkaguard._cluster.lag import Member
from kafkaguard._cluster.reports import TopicPartition
from kafkaguard._errors import KafkaGuardError
from kafkaguard_adapters.wire.schemas import ConsumerGroupDescribeRequest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from kafkaguard_adapters.wire.cluster import Cluster

_NOT_FOUND = 69
_STABLE = "Stable"
_UNKNOWN = "unknown"


@dataclass(slots=True)
class Described:
    """A group, as its coordinator describes it.

    Attributes:
        state: The group's state in Kafka's words; ``unknown`` if it does not exist.
        members: The member that each partition is assigned to.
        topics: The topics that members read or have subscribed to; None if unknown.
    """

    state: str | None = None
    members: dict[TopicPartition, Member] = field(default_factory=dict)
    topics: frozenset[str] | None = None

    def has_left(self, topic: str) -> bool:
        """Return whether the group's members read other topics, but not this one."""
        return bool(self.topics) and topic not in (self.topics or ())


async def describe(
    cluster: Cluster, groups: Mapping[int, Collection[str]], deadline: float
) -> dict[str, Described]:
    """Describe groups. Groups that cannot be described are left out.

    Args:
        cluster: The cluster.
        groups: Names of groups, by the id of their coordinator.
        deadline: The deadline, in seconds on the event loop's clock.
    """
    parts = await asyncio.gather(
        *(_ask_coordinator(cluster, *each, deadline) for each in groups.items())
    )
    return {group: each for part in parts for group, each in part.items()}


async def _ask_coordinator(
    cluster: Cluster, coordinator: int, groups: Collection[str], deadline: float
) -> dict[str, Described]:
    """Describe groups with the new protocol's request, the others with the old one."""
    new_groups: list[Any] = await _ask(
        cluster,
        ConsumerGroupDescribeRequest(group_ids=list(groups)),
        coordinator,
        deadline,
    )
    described = {
        each.group_id: _read_new(each) for each in new_groups if not each.error_code
    }
    others = [group for group in groups if group not in described]
    if others:
        request = DescribeGroupsRequest(groups=others)
        classic_groups: list[Any] = await _ask(cluster, request, coordinator, deadline)
        described.update(
            {each.group_id: _read_classic(each) for each in classic_groups}
        )
    return described


async def _ask(
    cluster: Cluster, request: Any, coordinator: int, deadline: float
) -> list[Any]:
    try:
        groups: list[Any] = (await cluster.ask(request, coordinator, deadline)).groups
    except KafkaGuardError:
        return []
    return groups


def _read_new(group: Any) -> Described:
    """Read a group of the new protocol.

    A member that subscribes by pattern may read any topic. So the topics are unknown
    until the group is stable.
    """
    has_pattern = any(each.subscribed_topic_regex for each in group.members)
    assigned = (
        topic.topic_name
        for each in group.members
        for assignment in (each.assignment, each.target_assignment)
        for topic in assignment.topic_partitions
    )
    subscribed = (
        name for each in group.members for name in each.subscribed_topic_names
    )
    topics = (
        None
        if has_pattern and group.group_state != _STABLE
        else {*assigned, *subscribed}
    )
    return Described(
        group.group_state,
        dict(_assigned(group)),
        None if topics is None else frozenset(topics),
    )


def _assigned(group: Any) -> Iterator[tuple[TopicPartition, Member]]:
    for each in group.members:
        member = Member(
            each.member_id,
            each.client_id,
            each.client_host.lstrip("/"),
            each.instance_id,
        )
        for topic in each.assignment.topic_partitions:
            for partition in topic.partitions:
                yield TopicPartition(topic.topic_name, partition), member


def _read_classic(group: Any) -> Described:
    if group.error_code:
        return Described(_UNKNOWN if group.error_code == _NOT_FOUND else None)
    if (
        group.group_state == "Dead"
    ):  # versions below 6 answer this for a group that does not exist
        return Described(_UNKNOWN)
    members = dict(_assigned_by_leader(group))
    return Described(group.group_state, members, _topics_of(group, members))


def _topics_of(
    group: Any, members: Mapping[TopicPartition, Member]
) -> frozenset[str] | None:
    """Return the topics that members read; None during a rebalance or if unknown."""
    if group.group_state != _STABLE:
        return None
    try:
        subscribed = [
            ConsumerProtocolSubscription.decode(bytes(each.member_metadata)).topics
            for each in group.members
        ]
    except (ValueError, IndexError, struct.error):
        return None
    return frozenset(t for topics in subscribed for t in topics) | {
        place.topic for place in members
    }


def _assigned_by_leader(
    group: Any,
) -> Iterator[tuple[TopicPartition, Member]]:
    for each in group.members:
        member = Member(
            each.member_id,
            each.client_id,
            each.client_host.lstrip("/"),
            each.group_instance_id,
        )
        for topic, partitions in _decode_assignment(each.member_assignment):
            for partition in partitions:
                yield TopicPartition(topic, partition), member


def _decode_assignment(assignment: bytes) -> list[tuple[str, list[int]]]:
    """Decode the assignment by the group's leader; empty if not in Kafka's format."""
    try:
        decoded = ConsumerProtocolAssignment.decode(bytes(assignment))
    except (ValueError, IndexError, struct.error):
        return []
    return [(each.topic, each.partitions) for each in decoded.assigned_partitions]
