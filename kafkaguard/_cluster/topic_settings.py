"""Settings of topics, read in one place from what a broker tells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kafkaguard._verdicts.verdict import TopicFacts

if TYPE_CHECKING:
    from collections.abc import Mapping

_CLEANUP: Final = "cleanup.policy"
_REMOTE: Final = "remote.storage.enable"
#: The setting that bounds a batch of a topic.
_LARGEST: Final = "max.message.bytes"
#: All that is asked for.
NAMES: Final = (_CLEANUP, _REMOTE, _LARGEST)


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """What a topic is set to, as far as anything here depends on it.

    Attributes:
        compacted: ``cleanup.policy`` contains ``compact``; None: not known.
        tiered: ``remote.storage.enable`` is true; None: not known.
        max_message_bytes: The largest batch that it takes; None: not known.
    """

    compacted: bool | None = None
    tiered: bool | None = None
    max_message_bytes: int | None = None

    @property
    def facts(self) -> TopicFacts:
        """What a verdict may rest on."""
        return TopicFacts(compacted=self.compacted, tiered=self.tiered)


def read(values: Mapping[str, str | None]) -> TopicSettings:
    """Read the values that a broker told of a topic.

    Args:
        values: The value of each setting by Kafka's name; brokers before 3.6 have no
            ``remote.storage.enable``.
    """
    policy, largest = values.get(_CLEANUP), values.get(_LARGEST)
    return TopicSettings(
        None if policy is None else "compact" in policy.replace(" ", "").split(","),
        values.get(_REMOTE) == "true",
        None if largest is None else int(largest),
    )
