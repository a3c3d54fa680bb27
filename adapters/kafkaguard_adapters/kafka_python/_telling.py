"""Who is told what the guard does: the hooks of ``guard(on_event=...)``."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from kafkaguard._retries.events import (
    DeadLetterEvent,
    Event,
    RecreateEvent,
    RejectEvent,
    RetryEvent,
    emit,
)
from kafkaguard._retries.machine import CallContext
from kafkaguard._verdicts.verdict import Action
from kafkaguard_adapters.kafka_python.errors import errors
from kafkaguard_policies import load_policy

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaguard._retries.machine import OnReject
    from kafkaguard.errors import KafkaGuardError
    from kafkaguard_policies import RetryPolicy


class Teller:
    """Collects events where locks are held, and hands them out where none is.

    Args:
        hook: What receives them; None: nobody.
        policy: The policy in force. Default: the default one.
    """

    def __init__(
        self,
        hook: Callable[[Event], object] | None = None,
        policy: RetryPolicy | None = None,
    ) -> None:
        self._hooks = () if hook is None else (hook,)
        self.policy = policy or load_policy("default")
        self._events: deque[Event] = deque()

    def rejected(self, error: KafkaGuardError, on_reject: OnReject = "raise") -> None:
        """A record failed for good; of those only a refused one is an event."""
        if self._hooks and error.verdict.action is Action.REJECT:
            self._events.append(
                RejectEvent(
                    policy=self.policy.name,
                    policy_id=self.policy.policy_id,
                    context=_context(error.topic),
                    error=error.name,
                    on_reject=on_reject,
                )
            )

    def dead_lettered(self, error: KafkaGuardError, topic: str) -> None:
        """The dead letter of a refused record is in its topic."""
        if self._hooks:
            self._events.append(
                DeadLetterEvent(
                    policy=self.policy.name,
                    policy_id=self.policy.policy_id,
                    context=_context(error.topic),
                    error=error.name,
                    dead_letter_topic=topic,
                )
            )

    def sent_again(self, topic: str) -> None:
        """A record that failed with others is going to be sent on its own."""
        if self._hooks:
            self._events.append(
                RetryEvent(
                    policy=self.policy.name,
                    policy_id=self.policy.policy_id,
                    context=_context(topic),
                    number=2,
                    wait=0.0,
                    action=Action.RETRY,
                )
            )

    def recreated(self, topic: str | None) -> None:
        """A dead producer is about to be replaced."""
        if self._hooks:
            self._events.append(
                RecreateEvent(
                    policy=self.policy.name,
                    policy_id=self.policy.policy_id,
                    context=_context(topic),
                )
            )

    def tell(self) -> None:
        """Hand out what has been collected; what a hook raises is logged."""
        while self._events:
            try:
                event = self._events.popleft()
            except IndexError:  # another thread took the last one
                return
            emit(self._hooks, event)


def _context(topic: str | None) -> CallContext:
    return CallContext(api="Produce", topic=topic, client=errors.client)
