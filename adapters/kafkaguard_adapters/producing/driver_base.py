"""Base class of the thread driver and the asyncio driver of the delivery machine."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from kafkaguard._common.observing import observer_of
from kafkaguard._delivery.facts import HandOverStoppedError
from kafkaguard._delivery.machine import DeliveryMachine
from kafkaguard._errors import ClientTimeoutError
from kafkaguard_adapters.producing import send_errors
from kafkaguard_adapters.producing.letter_topics import LetterTopics
from kafkaguard_adapters.producing.policies import shared_by

if TYPE_CHECKING:
    from collections.abc import Generator, Hashable, Sequence

    from kafkaguard._delivery.commands import Command
    from kafkaguard._delivery.facts import Batch
    from kafkaguard._delivery.records import Record
    from kafkaguard._delivery.shell import Shell
    from kafkaguard._delivery.time_limit import TimeLimit
    from kafkaguard_adapters.asking.cluster_view import ClusterView
    from kafkaguard_adapters.building import Wish

#: What a log line says of an exception in the guard's own code.
BUG = "(a bug in kafkaguard: report it)"


class DriverBase:
    """Makes the machine of a client, and knows which sends must wait.

    Args:
        shell: The client.
        wish: What ``guard()`` was told.
        view: Looks up the dead-letter topics, and names the cluster with which the
            policy's attempts share their limits. Default: no look-up, no attempts.

    Attributes:
        machine: The state machine.
        shell: The client.
    """

    def __init__(
        self, shell: Shell, wish: Wish, view: ClusterView | None = None
    ) -> None:
        self.shell: Any = shell
        self._cache = wish.cache
        self._letter_topics = shared = None
        if view is not None:
            self._letter_topics = LetterTopics(
                wish.policy, view.settings, shell.errors.make, wish.cache.declared
            )
            shared = shared_by(wish.policy, shell.traits, view.settings)
        self.machine = DeliveryMachine(
            shell.traits,
            wish.policy,
            shell.errors,
            size_alone=shell.size_alone,
            facts=wish.cache.get,
            shared=shared,
        )
        self._observer = observer_of(wish.on_event)
        if self._observer is not None:
            self._observer.watch("producer", self, self.machine.totals)
        self._waiting_sends = 0
        self._why_not_replaced: BaseException | None = None

    def take(self, commands: Sequence[Command]) -> None:
        """Execute commands, or queue them for execution, in their order."""
        raise NotImplementedError

    def is_held(self, topic: str) -> bool:
        """Return whether the sends of a topic are held."""
        holds = self.machine.holds
        return None in holds or topic in holds

    def _wait_until_free(
        self, topic: str, limit: TimeLimit
    ) -> Generator[float, bool, float]:
        """Wait with a send until its topic is no longer held; return the seconds left.

        It yields until when to wait for a change of the machine, and gets whether there
        was one.

        Raises:
            KafkaGuardError: The wait has exceeded the limit, or the client is dead and
                could not be replaced.
        """
        deadline = time.monotonic() + limit.seconds
        has_asked = False
        self._waiting_sends += 1
        try:
            while self.is_held(topic):
                lost = self.machine.lost
                if lost is None:
                    if not (yield deadline):
                        is_client_held = None in self.machine.holds
                        raise send_errors.make_still_held(
                            self.shell.errors,
                            None if is_client_held else topic,
                            limit,
                            self._why_not_replaced,
                        )
                elif has_asked:
                    raise send_errors.make_without_successor(self.shell.errors, lost)
                else:
                    has_asked = True
                    self.take(self.machine.wanted(time.monotonic()))
        finally:
            self._waiting_sends -= 1
            waited = time.monotonic() - deadline + limit.seconds
            self.machine.totals[topic, "held"] += waited
        return max(0.0, deadline - time.monotonic())

    def pending(self) -> int:
        """Count the records that have no outcome yet."""
        raise NotImplementedError

    def gauges(self) -> dict[tuple[str, str], float]:
        """Return how it stands, for telemetry."""
        return {("", "pending"): self.pending()}

    # --- parts of commands that are the same for both drivers ---------------------

    def forget_facts(self, topic: str) -> None:
        """Look up the facts about a topic again before its next record."""
        self._cache.drop(topic)

    def fail_batches(self, batches: Sequence[Batch]) -> None:
        """Let the client fail batches."""
        for batch in batches:
            self.shell.fail_batch(batch)

    def _hand_over_each(
        self, records: Sequence[Record]
    ) -> Generator[Record, Hashable, list[Hashable | BaseException]]:
        """Give records to the client, one after the other; return tokens or errors.

        If the client timed out on a record, the next dead letters do not wait for the
        same timeout again: they fail with the same error.
        """
        tokens: list[Hashable | BaseException] = []
        late: BaseException | None = None
        for record in records:
            if self.machine.stops_hand_over(record.place.topic):
                tokens += (HandOverStoppedError() for _ in records[len(tokens) :])
                break
            if late is not None and record.is_letter:
                tokens.append(late)
                continue
            if self._observer and record.is_letter and record.raw is not None:
                self._observer.letter(record.place.topic, record.raw.headers)
            try:
                tokens.append((yield record))
            except BaseException as error:  # noqa: BLE001 - the machine decides about it
                tokens.append(error)
                late = error if isinstance(error, ClientTimeoutError) else None
        return tokens

    def replaced(self, error: BaseException | None, now: float) -> Sequence[Command]:
        """Report to the machine whether the client was replaced."""
        self._why_not_replaced = error
        if error is None:
            return self.machine.replaced(now)
        return self.machine.not_replaced(
            error,
            now,
            may_build_later=self.shell.may_build_later(error),
            awaited=self._waiting_sends > 0,
        )
