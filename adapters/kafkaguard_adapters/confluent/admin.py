"""The guarded ``confluent_kafka.admin.AdminClient``."""

from __future__ import annotations

from concurrent.futures import Future
from functools import wraps
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException

from kafkaguard_adapters import admin_calls
from kafkaguard_adapters.asking.cluster_calls import ClusterCalls
from kafkaguard_adapters.asking.created_topics import AskedTopic, differences
from kafkaguard_adapters.confluent.errors import errors
from kafkaguard_adapters.confluent.stand_in import QueuedStandIn
from kafkaguard_adapters.confluent.view import view_of
from kafkaguard_adapters.stand_in import GuardedClient
from kafkaguard_adapters.wire.io_thread import start

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaguard.errors import KafkaGuardError
    from kafkaguard_adapters.building import Wish


class GuardedAdmin(ClusterCalls, QueuedStandIn, GuardedClient):
    """An AdminClient that can also ask for log directories, lag and offsets.

    For calls that change something, the exceptions of the futures are also a
    ``KafkaGuardError``. ``close()`` closes the guard's own connections; an AdminClient
    closes its connections when Python frees it.
    """

    def __getattr__(self, name: str) -> Any:
        """Delegate everything else to the client."""
        found = super().__getattr__(name)
        api = admin_calls.REQUESTS.get(name)
        return found if api is None else self._judged(found, api)

    def _judged(self, call: Callable[..., Any], api: str) -> Callable[..., Any]:
        @wraps(call)
        def judged(*args: Any, **kwargs: Any) -> Any:
            try:
                futures = call(*args, **kwargs)
            except KafkaException as error:
                raise admin_calls.admin_error(errors, error, api) from error
            asked = _asked(*args, **kwargs) if api == "CreateTopics" else {}
            return {
                item: self._following(future, api, asked.get(item))
                for item, future in futures.items()
            }

        return judged

    def _following(
        self, future: Future[Any], api: str, asked: AskedTopic | None
    ) -> Future[Any]:
        """Return a future that follows the client's, with kafkaguard's errors."""
        ours: Future[Any] = Future()
        ours.set_running_or_notify_cancel()

        def done(theirs: Future[Any]) -> None:
            error = theirs.exception()
            if not isinstance(error, KafkaException):
                _pass_on(ours, theirs)
                return
            known = admin_calls.admin_error(errors, error, api)
            if asked is not None and admin_calls.finds_it_there(known):
                # Not in this thread: it is the client's, which must not block.
                start(self._compared(ours, known, asked))
            else:
                ours.set_exception(known)

        future.add_done_callback(done)
        return ours

    async def _compared(
        self, future: Future[Any], error: KafkaGuardError, asked: AskedTopic
    ) -> None:
        try:
            error.differences = await differences(self.cluster_view, [asked])
        finally:
            future.set_exception(error)


def _pass_on(ours: Future[Any], theirs: Future[Any]) -> None:
    error = theirs.exception()
    if error is None:
        ours.set_result(theirs.result())
    else:
        ours.set_exception(error)


def _asked(new_topics: Any, **_: Any) -> dict[str, AskedTopic]:
    """Return the settings given to ``create_topics``, by topic name."""
    return {
        each.topic: AskedTopic(
            each.topic, each.num_partitions, each.replication_factor, each.config or {}
        )
        for each in new_topics
    }


def wrap(admin: Any, wish: Wish) -> GuardedAdmin:
    """Guard an admin client, as :func:`kafkaguard.guard` says."""
    return GuardedAdmin(admin, view_of(admin, wish.config, wish.cache))
