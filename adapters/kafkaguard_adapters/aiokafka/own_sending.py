"""Sends through a client with a ``send`` of its own: in a subclass, or set in it.

Such a ``send`` may take any arguments, so they are passed on as they are. That takes
longer than the known arguments of aiokafka's own method.
"""

from __future__ import annotations

from threading import get_ident
from typing import Any

from kafkaguard_adapters.aiokafka.sending import Sending, topic_of


class OwnSending(Sending):
    """Hands records to a client whose ``send`` is not aiokafka's own."""

    __slots__ = ()

    async def send(self, *args: Any, **kwargs: Any) -> Any:
        """Send a record, as the client's ``send`` does.

        Args:
            args: The positional arguments of the client's ``send``.
            kwargs: The keyword arguments of the client's ``send``.

        Returns:
            The result of the client's ``send``. If a record is refused and the policy's
            ``on_reject`` is not "raise", a future that fails with the error.

        Raises:
            InvalidRecordKeyError: As for ``Sending.send``.
            KafkaGuardError: As for ``Sending.send``.
        """
        if not (self.is_usable and get_ident() == self._thread and self._is_running()):
            await self.ready(topic_of(args, kwargs))
        client = self._client
        try:
            # Looked up each time: instrumentation may replace it.
            return await client.send(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - raised again, unless handled
            return await self.handle_exception(error, client, self.send, args, kwargs)
