"""Settings of topics, read from a broker's answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kafkaguard._verdicts.context import TopicFacts

if TYPE_CHECKING:
    from collections.abc import Mapping

_CLEANUP: Final = "cleanup.policy"
_REMOTE: Final = "remote.storage.enable"
#: The setting that limits the size of a batch.
_LARGEST: Final = "max.message.bytes"
_RETENTION: Final = "retention.ms"
#: All requested settings.
NAMES: Final = (_CLEANUP, _REMOTE, _LARGEST, _RETENTION)


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """The settings of a topic that kafkaguard uses.

    Attributes:
        compacted: ``cleanup.policy`` contains ``compact``; None if unknown.
        tiered: ``remote.storage.enable`` is true; None if unknown.
        max_message_bytes: The largest batch that it accepts; None if unknown.
        retention_ms: How long it keeps records, in milliseconds; -1: without end; None
            if unknown.
    """

    compacted: bool | None = None
    tiered: bool | None = None
    max_message_bytes: int | None = None
    retention_ms: int | None = None

    @property
    def facts(self) -> TopicFacts:
        """The facts that a verdict may depend on."""
        return TopicFacts(compacted=self.compacted, tiered=self.tiered)


def read(values: Mapping[str, str | None]) -> TopicSettings:
    """Read the settings of a topic that a broker returned.

    Args:
        values: The values by Kafka's names of the settings; brokers before 3.6 have no
            ``remote.storage.enable``.
    """
    policy, largest = values.get(_CLEANUP), values.get(_LARGEST)
    retention = values.get(_RETENTION)
    return TopicSettings(
        None if policy is None else "compact" in policy.replace(" ", "").split(","),
        values.get(_REMOTE) == "true",
        None if largest is None else int(largest),
        None if retention is None else int(retention),
    )
