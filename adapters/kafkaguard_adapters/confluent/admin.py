"""The guarded ``confluent_kafka.admin.AdminClient``."""

from __future__ import annotations

from concurrent.futures import Future
from functools import wraps
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException

from kafkaguard_adapters import admin_calls
from kafkaguard_adapters.asking.cluster_calls import ClusterCalls
from kafkaguard_adapters.confluent.errors import errors
from kafkaguard_adapters.confluent.stand_in import QueuedStandIn
from kafkaguard_adapters.confluent.view import view_of
from kafkaguard_adapters.stand_in import GuardedClient

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaguard_adapters.building import Wish


class GuardedAdmin(ClusterCalls, QueuedStandIn, GuardedClient):
    """An AdminClient that can also ask for log directories, lag and offsets.

    Errors of its calls, and the exceptions of their futures, are also a
    ``KafkaGuardError``. ``close()`` closes the guard's own connections; an AdminClient
    closes its connections when Python frees it.
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
                answer = call(*args, **kwargs)
            except KafkaException as error:
                raise admin_calls.admin_error(errors, error, api) from error
            if isinstance(answer, Future):
                return _following(answer, api)
            if not isinstance(answer, dict):
                return answer
            return {item: _following(each, api) for item, each in answer.items()}

        return judged


def _following(future: Future[Any], api: str) -> Future[Any]:
    """Return a future that follows the client's, with kafkaguard's errors."""
    ours: Future[Any] = Future()
    ours.set_running_or_notify_cancel()

    def done(theirs: Future[Any]) -> None:
        error = theirs.exception()
        if error is None:
            ours.set_result(theirs.result())
        elif isinstance(error, KafkaException):
            ours.set_exception(admin_calls.admin_error(errors, error, api))
        else:
            ours.set_exception(error)

    future.add_done_callback(done)
    return ours


def wrap(admin: Any, wish: Wish) -> GuardedAdmin:
    """Guard an admin client, as :func:`kafkaguard.guard` says."""
    return GuardedAdmin(admin, view_of(admin, wish.config, wish.cache))
