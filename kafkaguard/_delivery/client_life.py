"""The state of the client: alive, dying, replaced, or lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaguard._delivery.table import CLIENTS, ClientEvent, ClientState
from kafkaguard._retries.backoff import doubled

if TYPE_CHECKING:
    from kafkaguard._delivery.facts import Batch, Place

#: Seconds to wait for answers to sent requests.
ANSWER_S = 5.0
#: Seconds until building is tried again: the first and the longest wait.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.25, 10.0
#: How many clients in a row may die before they have worked, before there is no
#: successor until a send requests one.
MOST_DEATHS = 4


class KeepsDyingError(Exception):
    """Each client has died before it delivered anything."""


class ClientLife:
    """The state of the client in use.

    Attributes:
        state: Its state.
        cause: The error that killed it.
        where: The partition whose answer killed it, if there was one.
        locking_out: The last batch of a dead client that can still be written. It is
            also kept when the successor dies, because the successor may not have
            written to all partitions.
        error: Why the last attempt to build a successor failed.
        not_before: The time of the next attempt to build, while it is paused.
    """

    def __init__(self) -> None:
        self.state = ClientState.ALIVE
        self.cause: BaseException | None = None
        self.where: Place | None = None
        self.locking_out: Batch | None = None
        self.error: BaseException | None = None
        self.not_before = 0.0
        self._failures = 0
        #: How many clients in a row have ended without having worked; and how many of
        #: them have died by themselves.
        self._deaths = self._own_deaths = 0
        self._has_doubt = False

    @property
    def is_alive(self) -> bool:
        """Whether the client accepts records."""
        return self.state is ClientState.ALIVE

    @property
    def may_answer(self) -> bool:
        """Whether answers to batches that the client gave up may still arrive."""
        return self.state in (ClientState.HEARING, ClientState.STOPPING)

    def happens(self, event: ClientEvent) -> None:
        """Change to the next state."""
        self.state = CLIENTS.after(self.state, event)

    def die(
        self, cause: BaseException, where: Place | None, *, is_late: bool = False
    ) -> None:
        """Start to replace the client, which is dead.

        Args:
            cause: The error that killed it.
            where: The partition whose answer killed it, if there was one.
            is_late: It has not died by itself: a batch of it was overdue, perhaps
                because no broker can be reached.
        """
        self.happens(ClientEvent.DIED)
        self.cause, self.where, self._has_doubt = cause, where, False
        self._deaths += 1
        self._own_deaths += not is_late

    def mark_working(self) -> None:
        """Record that the client works: its brokers have answered about records."""
        self._deaths = self._own_deaths = 0

    def replaces_at_once(self, now: float, *, is_closing: bool) -> bool:
        """Return whether a successor is built at once; else after a pause, or never.

        Called when the dead client was stopped. The first death is followed by a
        successor at once. If the successor dies too before it has worked, a pause
        comes before the next, then a longer one for each that died by itself. After
        ``MOST_DEATHS`` of these there is none until a send requests one.

        Args:
            now: The time.
            is_closing: No pause: the producer is being closed.
        """
        if self._deaths == 1 or is_closing:
            return True
        self._failures = max(0, self._own_deaths - 2)
        error = KeepsDyingError(
            f"{self._deaths} producers in a row died before they delivered a record; "
            f"the last one: {self.cause}"
        )
        self.fail(error, now, is_final=self._own_deaths > MOST_DEATHS)
        return False

    def keep_in_doubt(self, batch: Batch) -> None:
        """Keep a batch that can still be written."""
        if not (self.is_alive or self._has_doubt):
            self.locking_out, self._has_doubt = batch, True

    def revive(self) -> None:
        """Continue with a successor."""
        self.happens(ClientEvent.REPLACED)
        self.error, self._failures = None, 0

    def fail(self, error: BaseException, now: float, *, is_final: bool) -> None:
        """Record that building failed; the next attempt follows after a pause.

        Args:
            error: Why building failed.
            now: The time.
            is_final: No further attempt until a send requests one.
        """
        self.happens(ClientEvent.NEVER if is_final else ClientEvent.NOT_YET)
        self.error = error
        self.not_before = now + doubled(FIRST_PAUSE_S, self._failures, LONGEST_PAUSE_S)
        self._failures += 1

    def describe_death(self) -> str:
        """Return what killed the client: code and partition."""
        code = getattr(self.cause, "errno", None)
        text = type(self.cause).__name__ + ("" if code is None else f" ({code})")
        if self.where is None:
            return text
        topic, partition = self.where
        return f"{text}, topic {topic}, partition {partition}"
