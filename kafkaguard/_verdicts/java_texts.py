"""Texts of Java's client and of Spark's Kafka source that tell more than the class.

Java's ``TimeoutException`` stands for much. While metadata is waited for nothing has
been sent, so that delivery is not in doubt (``KafkaProducer.waitOnMetadata``).
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from kafkaguard import _errors as e


class JavaText(NamedTuple):
    """What a text stands for.

    Attributes:
        error: The class of the error.
        place: What else the text tells: ``topic``, ``partition``, ``setting``.
    """

    error: type[e.KafkaGuardError]
    place: dict[str, Any]


_NO_PARTITION = (
    r"Partition (?P<partition>\d+) of topic (?P<topic>[\w.-]+) with partition count "
    r"\d+ is not present in metadata"
)
_NO_TOPIC = r"Topic (?P<topic>[\w.-]+) not present in metadata after"
_NO_ROOM = (
    r"\bBufferExhaustedException\b|Failed to allocate \d+ bytes within the configured "
    r"max blocking time"
)
_CONFIG = r"\bconfig\.ConfigException\b(?:.* for configuration (?P<setting>[\w.]+))?"
_LOST = (
    r"\bKAFKA_DATA_LOSS\b|Some data may have been lost because they are not available "
    r"in Kafka any more|[Ss]ome data may have been missed"
)
#: What to do where Java's client does not say which record of a batch was refused.
FIND_REFUSED: Final = (
    "look for rows without a key if the topic is compacted, or write with "
    "kafkaguard.spark.write() or guard_sink()"
)
_MATE = r"was part of a batch which had one more more invalid records"
_TEXTS: Final[dict[str, type[e.KafkaGuardError]]] = {
    _MATE: e.BatchMateRefusedError,
    _NO_PARTITION: e.UnknownTopicOrPartitionError,
    _NO_TOPIC: e.ClientMetadataError,
    _NO_ROOM: e.ClientQueueFullError,
    r"\berrors\.DisconnectException\b": e.ClientConnectionError,
    _CONFIG: e.ClientConfigurationError,
    _LOST: e.OffsetOutOfRangeError,
}
_PATTERNS: Final = tuple((re.compile(text), error) for text, error in _TEXTS.items())


def java_text(text: str) -> JavaText | None:
    """Find what a text of Java's client or of Spark's source says.

    Args:
        text: An exception's text, with or without the name of its class.

    Returns:
        The error and its place; None: its class says all, or it is none of theirs.
    """
    for pattern, error in _PATTERNS:
        if match := pattern.search(text):
            place: dict[str, Any] = {
                name: value for name, value in match.groupdict().items() if value
            }
            if "partition" in place:
                place["partition"] = int(place["partition"])
            return JavaText(error, place)
    return None
