"""Types of brokers' answers, as kafka-python's protocol engine decodes them.

The engine makes its classes at run time from Kafka's schemas, so a type checker does
not know them. These protocols declare the fields that this package uses, with the names
in the schemas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class Coded(Protocol):
    """An answer, or a part of one, that has an error code; 0 means no error."""

    error_code: int


# --- Metadata -------------------------------------------------------------------------


class MetadataPartition(Coded, Protocol):
    """A partition and its leader."""

    partition_index: int
    leader_id: int
    replica_nodes: Sequence[int]


class MetadataTopic(Coded, Protocol):
    """A topic."""

    name: str
    partitions: Sequence[MetadataPartition]


class MetadataBroker(Protocol):
    """A broker and its address."""

    node_id: int
    host: str
    port: int


class Metadata(Protocol):
    """MetadataResponse."""

    brokers: Sequence[MetadataBroker]
    topics: Sequence[MetadataTopic]


# --- ListOffsets, Fetch ---------------------------------------------------------------


class ListedOffset(Coded, Protocol):
    """A partition of a ListOffsetsResponse."""

    partition_index: int
    offset: int
    timestamp: int
    leader_epoch: int


class AbortedTransaction(Protocol):
    """The producer and the first offset of an aborted transaction."""

    producer_id: int
    first_offset: int


class FetchedPartition(Coded, Protocol):
    """A partition of a FetchResponse."""

    partition_index: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted_transactions: Sequence[AbortedTransaction] | None
    records: bytes | None


class FetchedTopic(Protocol):
    """A topic of a FetchResponse."""

    topic: str
    partitions: Sequence[FetchedPartition]


class Fetched(Protocol):
    """FetchResponse."""

    responses: Sequence[FetchedTopic]


# --- groups ---------------------------------------------------------------------------


class ListedGroup(Protocol):
    """A group of a ListGroupsResponse."""

    group_id: str
    group_state: str | None
    group_type: str | None
    protocol_type: str


class ListedGroups(Coded, Protocol):
    """ListGroupsResponse."""

    groups: Sequence[ListedGroup]


class CommittedPartition(Coded, Protocol):
    """A partition of an OffsetFetchResponse."""

    partition_index: int
    committed_offset: int


class CommittedTopic(Protocol):
    """A topic of an OffsetFetchResponse."""

    name: str
    partitions: Sequence[CommittedPartition]


class CommittedGroup(Coded, Protocol):
    """OffsetFetchResponse, or one group of a response for many groups."""

    topics: Sequence[CommittedTopic]


class Coordinator(Coded, Protocol):
    """FindCoordinatorResponse, or one coordinator of a response for many groups."""

    error_message: str | None
    node_id: int
    host: str
    port: int


class GroupMember(Protocol):
    """The fields that members of both group protocols have."""

    member_id: str
    client_id: str
    client_host: str


class ClassicMember(GroupMember, Protocol):
    """A member of a DescribeGroupsResponse."""

    group_instance_id: str | None
    member_metadata: bytes
    member_assignment: bytes


class ClassicGroup(Coded, Protocol):
    """A group of a DescribeGroupsResponse."""

    group_id: str
    group_state: str
    members: Sequence[ClassicMember]


class AssignedTopic(Protocol):
    """A topic that is assigned to a member, in the new protocol (KIP-848)."""

    topic_name: str
    partitions: Sequence[int]


class Assignment(Protocol):
    """The assignment of a member, in the new protocol (KIP-848)."""

    topic_partitions: Sequence[AssignedTopic]


class NewMember(GroupMember, Protocol):
    """A member of a ConsumerGroupDescribeResponse (KIP-848)."""

    instance_id: str | None
    subscribed_topic_names: Iterable[str]
    subscribed_topic_regex: str | None
    assignment: Assignment
    target_assignment: Assignment


class NewGroup(Coded, Protocol):
    """A group of a ConsumerGroupDescribeResponse (KIP-848)."""

    group_id: str
    group_state: str
    members: Sequence[NewMember]


# --- settings -------------------------------------------------------------------------


class ConfigEntry(Protocol):
    """A setting of a resource."""

    name: str
    value: str | None


class DescribedConfigs(Coded, Protocol):
    """A resource of a DescribeConfigsResponse."""

    resource_name: str
    error_message: str | None
    configs: Sequence[ConfigEntry]
