"""What a write's settings say, as the delivery machine asks for it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from kafkaguard._retries.machine import Ruling

if TYPE_CHECKING:
    from kafkaguard._delivery.dialects import Dialect
    from kafkaguard._delivery.shell import LetterLimit, Rescue
    from kafkaguard._retries.machine import CallContext
    from kafkaguard._verdicts.verdict import Verdict
    from kafkaguard_adapters.spark.settings import SinkSettings


@dataclass(frozen=True)
class OneDeadLetterTopic:
    """All dead letters of a write go into one topic.

    Attributes:
        topic: Its name.
        headers: Whose headers say why.
        limit: There is none: a task's failure repeats what it wrote.
    """

    topic: str
    headers: Dialect = "own"
    limit: LetterLimit | None = None

    def topic_for(self, topic: str) -> str:  # noqa: ARG002 - the same for each topic
        """Return it."""
        return self.topic


@dataclass(frozen=True)
class TaskPolicy:
    """The policy of one task."""

    settings: SinkSettings
    name: str = "spark-sink"
    policy_id: str = ""
    rescue: Rescue = "ordered"

    @cached_property
    def dead_letter(self) -> OneDeadLetterTopic:
        """Where rejected records go, if they do not fail the job."""
        return OneDeadLetterTopic(self.settings.dead_letter_topic or "")

    def ruling(
        self,
        verdict: Verdict,
        context: CallContext,  # noqa: ARG002 - the same everywhere
        error: Any = None,  # noqa: ARG002 - for overrides, which a write has not
    ) -> Ruling:
        """Return what it says about a failure."""
        backoff: Any = None  # the client itself waits
        return Ruling(
            verdict.action,
            max_attempts=1,
            max_waits=0,
            deadline=float("inf"),
            backoff=backoff,
            in_doubt=self.settings.in_doubt,
            on_reject=self.settings.on_reject,
            cost=0.0,
        )
