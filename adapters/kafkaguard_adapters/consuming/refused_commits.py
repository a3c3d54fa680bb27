"""The errors of a refused commit, for each partition, in the client's classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkaguard._cluster.reports import TopicPartition
from kafkaguard._consuming.commits import OFFSET_COMMIT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkaguard.errors import KafkaGuardError
    from kafkaguard_adapters.client_errors import ClientErrors

Refused = dict[TopicPartition, "KafkaGuardError"]


def refused(errors: ClientErrors, response: Any) -> Refused:
    """Return the errors in the answer to a commit."""
    return {
        TopicPartition(topic, partition): errors.make(
            code, api=OFFSET_COMMIT, topic=topic, partition=partition
        )
        for topic, partitions in response.topics
        for partition, code in partitions
        if code
    }


def everywhere(
    errors: ClientErrors, places: Iterable[Any], error: BaseException
) -> Refused:
    """Return the same error for each partition of a commit without an answer."""
    return {
        TopicPartition(topic, partition): errors.translate(
            error, api=OFFSET_COMMIT, topic=topic, partition=partition
        )
        for topic, partition in places
    }
