"""Base class of guarded aiokafka clients."""

from __future__ import annotations

from asyncio import get_running_loop
from typing import TYPE_CHECKING, Any

from aiokafka.errors import KafkaError

from kafkaguard._errors import ClientClosedError
from kafkaguard_adapters.aiokafka.errors import START_FAILED, errors, wrong_loop
from kafkaguard_adapters.aiokafka.settings import is_open, loop_of
from kafkaguard_adapters.aiokafka.tokens import guard_tokens
from kafkaguard_adapters.stand_in import GuardedAsyncClient

if TYPE_CHECKING:
    from kafkaguard._errors import KafkaGuardError
    from kafkaguard_adapters.asking.cluster_view import ClusterView


class StandIn(GuardedAsyncClient):
    """A client whose errors are both aiokafka's and kafkaguard's."""

    _client_error = KafkaError
    _translate = staticmethod(errors.translate)
    #: What error texts call the client.
    _kind: str

    def __init__(self, client: Any, view: ClusterView) -> None:
        super().__init__(client, view)
        guard_tokens(client)

    def _has_ended(
        self, consequence: str, theirs: type[BaseException]
    ) -> KafkaGuardError:
        """Make the error of a call after the end, or after a start that failed.

        Args:
            consequence: What the call did not do.
            theirs: The class that the client raises after its end.
        """
        return errors.make(
            ClientClosedError,
            f"the {self._kind} {self.how_it_ended}; {consequence}",
            theirs=theirs,
            verdict=None if self.cluster_view.is_closed else START_FAILED,
        )

    def _check_loop(self) -> None:
        """Refuse a call from another event loop than the client's, unless it is closed.

        Raises:
            ClientStateError: Another event loop runs. Nothing was done.
        """
        if self.cluster_view.is_closed:
            return
        loop = loop_of(self.client)
        if loop is not None and get_running_loop() is not loop:
            raise wrong_loop(self._kind)

    def _check_end(self) -> None:
        """Refuse to close an open client in another event loop than its own."""
        if is_open(self.client):
            self._check_loop()

    async def _end(self) -> None:
        """Close the guard's connections, then the client, in the client's own loop.

        Raises:
            KafkaGuardError: The client has not closed within 30 s, or another event
                loop runs: the client would close by half, and leave tasks behind.
        """
        self._check_end()
        await super()._end()
