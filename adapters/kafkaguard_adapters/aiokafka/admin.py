"""The guarded ``aiokafka.admin.AIOKafkaAdminClient``."""

from __future__ import annotations

from functools import wraps
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any

from aiokafka.errors import IllegalStateError, KafkaError

from kafkaguard._errors import ClientStateError
from kafkaguard_adapters import admin_calls
from kafkaguard_adapters.aiokafka.errors import NOT_STARTED, errors
from kafkaguard_adapters.aiokafka.stand_in import StandIn
from kafkaguard_adapters.aiokafka.view import view_of
from kafkaguard_adapters.asking.cluster_calls import AsyncClusterCalls

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaguard_adapters.building import Wish


class GuardedAdmin(AsyncClusterCalls, StandIn):
    """An AIOKafkaAdminClient that can also ask for log directories, lag and offsets.

    Errors of its calls are also a ``KafkaGuardError``. A call before ``start`` raises
    an error that says so.
    """

    _ends_with = "close"
    _kind = "admin client"

    def __getattr__(self, name: str) -> Any:
        """Delegate everything else to the client."""
        attribute = super().__getattr__(name)
        is_call = iscoroutinefunction(attribute) and not name.startswith("_")
        return (
            self._judged(attribute, admin_calls.REQUESTS.get(name))
            if is_call
            else attribute
        )

    def _judged(self, call: Callable[..., Any], api: str | None) -> Callable[..., Any]:
        @wraps(call)
        async def judged(*args: Any, **kwargs: Any) -> Any:
            self._check_started()
            try:
                return await call(*args, **kwargs)
            except KafkaError as error:
                raise admin_calls.admin_error(errors, error, api) from error

        return judged

    def _check_started(self) -> None:
        """Refuse a call that would fail in the client with an unclear error.

        Raises:
            ClientClosedError: The client was closed, or its start failed.
            ClientStateError: The client was not started, or belongs to another event
                loop.
        """
        if self.is_ended:
            raise self._has_ended("nothing was asked", IllegalStateError)
        self._check_loop()
        if not getattr(self.client, "_started", True):
            text = "the admin client was not started: await admin.start() first"
            raise errors.make(
                ClientStateError, text, theirs=IllegalStateError, verdict=NOT_STARTED
            )

    async def close(self) -> None:
        """Close the guard's own connections, then the client, within 30 s."""
        await self._end()


def wrap(admin: Any, wish: Wish) -> GuardedAdmin:
    """Guard an admin client, as :func:`kafkaguard.guard` says."""
    return GuardedAdmin(admin, view_of(admin, wish.config, wish.cache))
