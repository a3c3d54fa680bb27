"""What the processing machine needs from a policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

from kafkaguard._consuming.machine import Policy as ConsumerPolicy

if TYPE_CHECKING:
    from kafkaguard._delivery.shell import DeadLetters
    from kafkaguard._retries.machine import Ruling

Order = Literal["partition", "key", "none"]


class HandlerSettings(Protocol):
    """The block ``handler`` of a policy; all durations are in seconds."""

    @property
    def max_attempts(self) -> int:
        """How often a record is handled, the first time included."""

    @property
    def max_age(self) -> float | None:
        """How long after its first failure a record is tried again."""

    @property
    def retry_on(self) -> tuple[str, ...]:
        """Classes of exceptions after which a record is tried again."""

    @property
    def reject_on(self) -> tuple[str, ...]:
        """Classes of exceptions after which a record is rejected at once."""

    @property
    def wait_on(self) -> tuple[str, ...]:
        """Classes of exceptions that say that a dependency is down."""

    @property
    def timeout(self) -> float | None:
        """How long a handler may run."""

    @property
    def commit_interval(self) -> float:
        """How often what is done is committed."""

    @property
    def max_in_flight(self) -> int:
        """How many records are in memory at most, those that wait apart."""

    @property
    def drain_timeout(self) -> float:
        """How long running handlers get when partitions are revoked, and at the end."""


class Policy(ConsumerPolicy, Protocol):
    """What the machine needs from a policy."""

    @property
    def handler(self) -> HandlerSettings:
        """The settings of handlers."""

    @property
    def dead_letter(self) -> DeadLetters:
        """Where rejected records go."""

    @property
    def first_ruling(self) -> Ruling:
        """The ruling without overrides."""
