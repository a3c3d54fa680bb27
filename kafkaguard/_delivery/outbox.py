"""What the delivery machine gives to its driver: commands, events and warnings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaguard._delivery import commands
from kafkaguard._retries.machine import CallContext

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkaguard._delivery.commands import Command
    from kafkaguard._delivery.shell import Policy
    from kafkaguard._retries.events import Event


class Outbox:
    """Commands in their order, until the driver takes them.

    Args:
        policy: The policy, which events name.
        client: The name of the client library.
    """

    def __init__(self, policy: Policy, client: str) -> None:
        self._policy = policy
        self._client = client
        self._commands: list[Command] = []

    def __bool__(self) -> bool:
        """Return whether there are commands."""
        return bool(self._commands)

    def emit(self, command: Command) -> None:
        """Add a command."""
        self._commands.append(command)

    def warn(self, event: str, text: str, topic: str | None = None) -> None:
        """Add a warning for the log."""
        self.emit(commands.Warn(event, text, topic))

    def tell(self, event: type[Event], topic: str | None, **fields: object) -> None:
        """Add an event for the hooks."""
        occurrence = event(
            policy=self._policy.name,
            policy_id=self._policy.policy_id,
            context=self.context(topic),
            **fields,
        )
        self.emit(commands.Tell(occurrence))

    def context(self, topic: str | None) -> CallContext:
        """Return the context of the sends to a topic, for policies and events."""
        return CallContext(api="Produce", topic=topic, client=self._client)

    def take(self) -> Sequence[Command]:
        """Remove and return the commands."""
        if not self._commands:
            return ()
        taken, self._commands = self._commands, []
        return taken
