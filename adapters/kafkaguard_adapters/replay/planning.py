"""Looks at the cluster before a replay: what would be refused, and what to know."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka.protocol.metadata import MetadataRequest

from kafkaguard._cluster.topic_settings import TopicSettings
from kafkaguard._delivery.sizes import batch_size
from kafkaguard._errors import KafkaGuardError
from kafkaguard_adapters.asking.topic_settings import ask
from kafkaguard_adapters.replay.reading import LOOK_S
from kafkaguard_adapters.replay.report import CUT, NO_TOPIC, OWN_TOPIC

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from kafkaguard_adapters.asking.cluster_calls import ClusterCalls
    from kafkaguard_adapters.asking.cluster_view import ClusterView
    from kafkaguard_adapters.replay.letters import DeadLetter
    from kafkaguard_adapters.wire.cluster import Cluster

#: The operation Write in a topic's authorized operations (KIP-430).
_WRITE = 4
#: A dead-letter topic that keeps records for less than this is called short-lived.
_SHORT_MS = 7 * 86_400_000
#: How many groups a remark names.
_NAMED = 5


class Target(NamedTuple):
    """What is known of a topic that gets records.

    Attributes:
        error: Why it takes none at all; None if it does, or that is unknown.
        partitions: How many it has; None if unknown.
        settings: Its settings.
    """

    error: str | None = None
    partitions: int | None = None
    settings: TopicSettings = TopicSettings()

    def why_refused(self, letter: DeadLetter, *, is_new: bool) -> str | None:
        """Return why it would refuse a record now; None if nothing is known.

        Args:
            letter: The record.
            is_new: Whether it goes to another topic than before.
        """
        if self.error is not None:
            return self.error
        if letter.key is None and self.settings.compacted:
            return "a null key, and the topic is compacted"
        limit = self.settings.max_message_bytes
        if limit is not None:
            size = batch_size(letter.key, letter.value, letter.headers)
            if size > limit:
                return "larger than max.message.bytes of the topic"
        if (
            not is_new
            and letter.partition is not None
            and self.partitions is not None
            and letter.partition >= self.partitions
        ):
            return f"partition {letter.partition} does not exist"
        return None


def why_left(letter: DeadLetter, topic: str | None, letters: str) -> str | None:
    """Return why a letter cannot be sent, whatever the topic says; None if it can.

    Args:
        letter: The letter.
        topic: The topic to which it would go.
        letters: The dead-letter topic.
    """
    if topic is None:
        return NO_TOPIC
    if topic == letters:
        return OWN_TOPIC
    return CUT if letter.is_cut else None


async def look_at_target(view: ClusterView, topic: str) -> Target:
    """Look up a topic that gets records; what this user may not see is unknown.

    Raises:
        KafkaGuardError: No broker answers.
    """
    cluster = view.cluster()
    deadline = asyncio.get_running_loop().time() + LOOK_S
    make = MetadataRequest.MetadataRequestTopic
    request = MetadataRequest(
        topics=[make(name=topic)],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
    )
    answer = await cluster.ask(request, None, deadline)
    try:
        settings = (await ask(cluster, [topic], deadline)).get(topic)
    except KafkaGuardError:
        settings = None
    return _read_target(cluster, answer.topics[0], settings)


def _read_target(cluster: Cluster, topic: Any, settings: Any) -> Target:
    known = settings if isinstance(settings, TopicSettings) else TopicSettings()
    if topic.error_code:
        error = cluster.make(topic.error_code, None, api="Metadata", topic=topic.name)
        return Target(f"{error.name}: the topic does not take records")
    allowed: set[int] | None = topic.authorized_operations
    if allowed is not None and _WRITE not in allowed:
        return Target("no right to Write to the topic")
    return Target(None, len(topic.partitions), known)


def describe_topic(settings: TopicSettings | KafkaGuardError | None) -> list[str]:
    """Say what is wrong with the settings of a dead-letter topic."""
    if not isinstance(settings, TopicSettings):
        return ["the settings of the dead-letter topic could not be read"]
    remarks = []
    if settings.compacted:
        remarks.append(
            "the dead-letter topic is compacted: of letters with the same key only the "
            "last one is kept, and letters without a key are refused"
        )
    if settings.retention_ms is not None and 0 <= settings.retention_ms < _SHORT_MS:
        days = settings.retention_ms / 86_400_000
        remarks.append(
            f"the dead-letter topic keeps letters for {days:.3g} days: what is older "
            "has been deleted"
        )
    return remarks


def describe_readers(
    calls: ClusterCalls,
    letters: str,
    own: str,
    set_aside_by: Mapping[str, Collection[str]],
    timeout: float,
) -> list[str]:
    """Name the groups that see replayed records again, or read the letters otherwise.

    Args:
        calls: Asks the cluster.
        letters: The dead-letter topic.
        own: The group of the replay.
        set_aside_by: By topic, the groups that set records of it aside.
        timeout: Seconds for the look-up.

    Raises:
        KafkaGuardError: No broker answers.
    """
    report = calls.lag(topics=[letters, *set_aside_by], timeout=timeout)
    readers: dict[str, list[str]] = {letters: [], **{t: [] for t in set_aside_by}}
    for name, group in sorted(report.groups.items()):
        for topic in {each.topic for each in group.partitions.values()}:
            if name not in (own, *set_aside_by.get(topic, ())):
                readers[topic].append(name)
    remarks = [
        f"{_list(names)} read {topic} and see the records again"
        for topic, names in readers.items()
        if names and topic != letters
    ]
    if readers[letters]:
        remarks.append(
            f"{_list(readers[letters])} read the dead-letter topic too: what they "
            "handled is not known to the replay, and is sent again"
        )
    if not report.complete or report.sees_all_groups is False:
        remarks.append("there may be groups that this user may not see")
    return remarks


def _list(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"the groups {', '.join(names[:_NAMED])}{more}"
