"""The guarded ``AIOProducer``: null keys are refused, failures have verdicts.

An ``AIOProducer`` has its own buffer, sends records in its own order, and completes the
futures itself. So a wrapper cannot send a failed record again before later records. The
guard does what is possible: it refuses a record without a key before the record is
buffered, and each failure has a verdict.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.aio import AsyncSerializingProducer

from kafkaguard._common.logs import Log
from kafkaguard_adapters.asking.cluster_calls import AsyncClusterCalls
from kafkaguard_adapters.asking.topic_facts import TopicFactsLookup
from kafkaguard_adapters.confluent.errors import errors
from kafkaguard_adapters.confluent.stand_in import QueuedStandIn
from kafkaguard_adapters.confluent.view import view_of
from kafkaguard_adapters.producing.null_keys import NullKeyCheck
from kafkaguard_adapters.producing.policies import check_checks_only
from kafkaguard_adapters.stand_in import GuardedAsyncClient

if TYPE_CHECKING:
    from kafkaguard_adapters.asking.cluster_view import ClusterView
    from kafkaguard_adapters.building import Wish

_log = Log("producer")


class GuardedAIOProducer(AsyncClusterCalls, QueuedStandIn, GuardedAsyncClient):
    """An AIOProducer whose null keys are refused and whose failures have verdicts.

    Args:
        producer: The client's producer.
        view: The cluster view for the guard's own calls.
        null_keys: Refuses records without a key; None: no topic can be looked up.
        null_keys_allowed: Topics for which records without a key need no check.
    """

    _ends_with = "close"

    def __init__(
        self,
        producer: Any,
        view: ClusterView,
        null_keys: NullKeyCheck | None,
        null_keys_allowed: set[str],
    ) -> None:
        super().__init__(producer, view)
        self._null_keys = null_keys
        self._null_keys_allowed = null_keys_allowed
        self._key_at = 1 if isinstance(producer, AsyncSerializingProducer) else 2

    async def __aenter__(self) -> Any:
        """Return the producer; the end of the ``with`` block closes it."""
        return self

    async def produce(
        self, topic: str, *args: Any, **kwargs: Any
    ) -> asyncio.Future[Any]:
        """Produce a record, as the client's ``produce`` does, with its argument order.

        Returns:
            A future of the message, as the client's ``produce`` does.

        Raises:
            ClientClosedError: The producer was closed.
            InvalidRecordKeyError: The topic is compacted and the record has no key.
            TypeError: ``on_delivery`` is given, which the client would ignore.
        """
        if self.cluster_view.is_closed:
            raise self.cluster_view.closed("nothing was sent")
        for name in ("on_delivery", "callback"):
            if kwargs.get(name) is not None:
                raise TypeError(
                    f"produce({name}): an AIOProducer does not call it; await the "
                    "future that produce() returns"
                )
        key = kwargs.get("key")
        if key is None and len(args) >= self._key_at:
            key = args[self._key_at - 1]
        if (
            key is None
            and self._null_keys is not None
            and topic not in self._null_keys_allowed
        ):
            await asyncio.to_thread(self._null_keys.check, topic, None)
        try:
            theirs = await self.client.produce(topic, *args, **kwargs)
        except KafkaException as error:
            raise errors.translate(error, api="Produce", topic=topic) from error
        ours = asyncio.get_running_loop().create_future()
        theirs.add_done_callback(lambda done: _pass_on(ours, done, topic))
        return ours

    async def close(self) -> None:
        """Close the guard's own connections, then the client, within 30 s.

        Raises:
            KafkaGuardError: The client was not closed within 30 s; it is not waited
                for any longer.
        """
        if not self.cluster_view.is_closed:
            await self._end()


def _pass_on(
    ours: asyncio.Future[Any], theirs: asyncio.Future[Any], topic: str
) -> None:
    """Complete a future with the outcome of the client's future."""
    if ours.done():
        return
    if theirs.cancelled():
        ours.cancel()
    elif (error := theirs.exception()) is None:
        ours.set_result(theirs.result())
    elif isinstance(error, (KafkaException, KafkaError)):
        ours.set_exception(errors.translate(error, api="Produce", topic=topic))
    else:
        ours.set_exception(error)


def wrap(producer: Any, wish: Wish) -> GuardedAIOProducer:
    """Guard a producer, as :func:`kafkaguard.guard` says."""
    name = type(producer).__name__
    check_checks_only(wish.policy, errors, f"an {name} settles records by itself")
    _log.warning(
        "aio_producer_limits",
        "guard(): an %s has its own batches and futures: null keys are refused and "
        "failures have verdicts, but records are not sent again, a dead producer is "
        "not replaced, and there is no report. For these, use a Producer in a thread",
        name,
        client=name,
    )
    cache = wish.cache
    view = view_of(producer, wish.config, cache)
    null_keys = None
    if wish.config is not None or cache.declared:
        null_keys = NullKeyCheck(
            TopicFactsLookup(view.topic_facts, cache),
            errors,
            wish.policy,
        )
    return GuardedAIOProducer(producer, view, null_keys, cache.null_keys_allowed)
