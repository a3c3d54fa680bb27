"""Events of handlers: one frozen class for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from kafkaguard._retries.events import Event

if TYPE_CHECKING:
    from kafkaguard._retries.machine import OnReject


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerEvent(Event):
    """The base class of events about one record that is handled.

    Attributes:
        topic: The record's topic.
        partition: Its partition.
        offset: Its offset.
        attempts: How often it was handled until now.
        error: The class of the handler's exception; empty if there was none.
    """

    topic: str
    partition: int
    offset: int
    attempts: int
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerFailedEvent(HandlerEvent):
    """A handler raised, and its record is tried again.

    Attributes:
        wait: Seconds until the next attempt.
    """

    name: ClassVar[str] = "kafkaguard.handler_failed"
    wait: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSetAsideEvent(HandlerEvent):
    """A record is not tried again.

    Attributes:
        on_reject: What becomes of it.
        dead_letter_topic: Where its dead letter is; None: there is none.
    """

    name: ClassVar[str] = "kafkaguard.record_set_aside"
    on_reject: OnReject
    dead_letter_topic: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerSlowEvent(HandlerEvent):
    """A handler in a thread runs longer than ``handler.timeout``. Sent once.

    Attributes:
        running: Seconds until now.
    """

    name: ClassVar[str] = "kafkaguard.handler_slow"
    running: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DependencyEvent(HandlerEvent):
    """A dependency of the handler is down, or back. Sent at the begin and at the end.

    Attributes:
        state: Which of the two.
        waited: Seconds since it was first down.
    """

    name: ClassVar[str] = "kafkaguard.dependency"
    state: Literal["down", "back"]
    waited: float
