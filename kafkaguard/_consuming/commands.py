"""Commands of the consumer machine, which a driver or a shell executes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkaguard._cluster.reports import TopicPartition
    from kafkaguard._errors import KafkaGuardError
    from kafkaguard._retries.events import Event


@dataclass(frozen=True, slots=True)
class Hold:
    """Do not read this partition until it is freed; a second Hold changes nothing."""

    place: TopicPartition


@dataclass(frozen=True, slots=True)
class Free:
    """Read this partition again."""

    place: TopicPartition


@dataclass(frozen=True, slots=True)
class AskFacts:
    """Look up the topic's settings; then call ``facts_found``."""

    topic: str


@dataclass(frozen=True, slots=True)
class AskRange:
    """Look up the partition's first offset and end; then call ``range_found``."""

    place: TopicPartition


@dataclass(frozen=True, slots=True)
class Probe:
    """Fetch at this position on the guard's own connection; then call ``probed``."""

    place: TopicPartition
    position: int | None


@dataclass(frozen=True, slots=True)
class LetReset:
    """Let the client handle this partition's next answer "out of range"."""

    place: TopicPartition


@dataclass(frozen=True, slots=True)
class Restart:
    """Let the client look up again where to begin with these partitions."""

    places: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class Raise:
    """Let the next poll raise this error."""

    place: TopicPartition
    error: KafkaGuardError


@dataclass(frozen=True, slots=True)
class End:
    """Let each poll from now on raise this error; do not join the group again."""

    error: KafkaGuardError


@dataclass(frozen=True, slots=True)
class Tell:
    """Call ``on_event`` with this event."""

    event: Event


Command = (
    Hold | Free | AskFacts | AskRange | Probe | LetReset | Restart | Raise | End | Tell
)
