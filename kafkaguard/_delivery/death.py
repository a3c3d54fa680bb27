"""The state of the client: alive, dying, replaced, or lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaguard._delivery.table import CLIENTS, ClientEvent, ClientState

if TYPE_CHECKING:
    from kafkaguard._delivery.facts import Batch, Place

#: Seconds that requests on their way have to be answered.
ANSWER_S = 5.0
#: Seconds until building is tried again: at first, and at most.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.25, 10.0


class ClientLife:
    """Where the client in use stands.

    Attributes:
        state: Its state.
        cause: Of what it died.
        where: The place whose answer killed it, if it was one.
        locking_out: The last batch of a dead client that may be written yet. It stays
            when the successor dies as well, which may not have written everywhere.
        error: Why no successor could be built the last time.
        not_before: When building may be tried again, while it is paused.
    """

    def __init__(self) -> None:
        self.state = ClientState.ALIVE
        self.cause: BaseException | None = None
        self.where: Place | None = None
        self.locking_out: Batch | None = None
        self.error: BaseException | None = None
        self.not_before = 0.0
        self._failures = 0
        self._has_doubt = False

    @property
    def is_alive(self) -> bool:
        """Whether records can be handed over."""
        return self.state is ClientState.ALIVE

    @property
    def may_answer(self) -> bool:
        """Whether answers may come yet for what it has given up."""
        return self.state in (ClientState.HEARING, ClientState.STOPPING)

    def happens(self, event: ClientEvent) -> None:
        """Go on to the next state."""
        self.state = CLIENTS.after(self.state, event)

    def die(self, cause: BaseException, where: Place | None) -> None:
        """Take note of its death."""
        self.happens(ClientEvent.DIED)
        self.cause, self.where, self._has_doubt = cause, where, False

    def leaves_in_doubt(self, batch: Batch) -> None:
        """Take note of a batch that may be written yet."""
        if not (self.is_alive or self._has_doubt):
            self.locking_out, self._has_doubt = batch, True

    def revive(self) -> None:
        """Take note of a successor."""
        self.happens(ClientEvent.REPLACED)
        self.error, self._failures = None, 0

    def fail(self, error: BaseException, now: float, *, is_final: bool) -> None:
        """Take note that building failed; the next attempt comes after a pause.

        Args:
            error: Why.
            now: The time.
            is_final: It is not tried again until a send asks for it.
        """
        self.happens(ClientEvent.NEVER if is_final else ClientEvent.NOT_YET)
        self.error = error
        pause = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2**self._failures)
        self._failures += 1
        self.not_before = now + pause

    def epitaph(self) -> str:
        """Say what killed it: the code, and of which partition."""
        code = getattr(self.cause, "errno", None)
        said = type(self.cause).__name__ + ("" if code is None else f" ({code})")
        if self.where is None:
            return said
        topic, partition = self.where
        return f"{said}, topic {topic}, partition {partition}"
