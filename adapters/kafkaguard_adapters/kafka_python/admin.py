"""The guarded ``kafka.KafkaAdminClient``."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

from kafka.errors import KafkaError

from kafkaguard_adapters import admin_calls
from kafkaguard_adapters.asking.cluster_calls import ClusterCalls
from kafkaguard_adapters.kafka_python.errors import errors
from kafkaguard_adapters.kafka_python.view import view_of
from kafkaguard_adapters.stand_in import GuardedClient

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaguard_adapters.building import Wish


class GuardedAdmin(ClusterCalls, GuardedClient):
    """A KafkaAdminClient that can also ask for log directories, lag and offsets.

    Errors of its calls are also a ``KafkaGuardError``.
    """

    def __getattr__(self, name: str) -> Any:
        """Delegate everything else to the client."""
        attribute = super().__getattr__(name)
        api = admin_calls.REQUESTS.get(name)
        return attribute if api is None else self._judged(attribute, api)

    def _judged(self, call: Callable[..., Any], api: str) -> Callable[..., Any]:
        @wraps(call)
        def judged(*args: Any, **kwargs: Any) -> Any:
            try:
                return call(*args, **kwargs)
            except KafkaError as error:
                raise admin_calls.admin_error(errors, error, api) from error

        return judged


def wrap(admin: Any, wish: Wish) -> GuardedAdmin:
    """Guard an admin client, as :func:`kafkaguard.guard` says."""
    return GuardedAdmin(admin, view_of(admin, wish.config, wish.cache))
