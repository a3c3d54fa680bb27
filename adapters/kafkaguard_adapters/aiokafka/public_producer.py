"""A guarded producer for aiokafka versions with unknown private attributes.

It uses public methods only: it refuses a record without a key before anything is sent,
and the client's errors get a verdict.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiokafka.errors import KafkaError, ProducerClosed

from kafkaguard._verdicts.topic_facts import AwaitedFactsLookup
from kafkaguard.errors import KafkaGuardError
from kafkaguard_adapters.aiokafka.errors import complete_table, errors
from kafkaguard_adapters.aiokafka.stand_in import StandIn
from kafkaguard_adapters.aiokafka.view import view_of
from kafkaguard_adapters.asking.cluster_calls import AsyncClusterCalls
from kafkaguard_adapters.producing.null_keys import AwaitedNullKeyCheck

if TYPE_CHECKING:
    from kafkaguard_adapters.building import Wish


class PublicProducer(AsyncClusterCalls, StandIn):
    """An AIOKafkaProducer that is guarded with its public methods only.

    Args:
        producer: The client's producer.
        wish: What ``guard()`` was told.
    """

    _kind = "producer"

    def __init__(self, producer: Any, wish: Wish) -> None:
        super().__init__(producer, view_of(producer, wish.config, wish.cache))
        complete_table()
        self._lookup = AwaitedFactsLookup(self.cluster_view.ask_topic_facts, wish.cache)
        self._null_keys = AwaitedNullKeyCheck(self._lookup, errors, wish.policy)

    async def send(
        self, topic: str, value: Any = None, key: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        """Send a record, as ``AIOKafkaProducer.send`` does.

        Raises:
            InvalidRecordKeyError: The topic is compacted and the record has no key.
            KafkaGuardError: The client raised another error. It also has the client's
                class.
        """
        self._check_open()
        if key is None:
            await self._null_keys.check(topic)
        return await self._pass(self.client.send(topic, value, key, *args, **kwargs))

    async def send_and_wait(self, *args: Any, **kwargs: Any) -> Any:
        """Send a record, and wait for its outcome.

        Raises:
            KafkaGuardError: As for :meth:`send`, and why the record failed.
        """
        return await self._pass(await self.send(*args, **kwargs))

    async def send_batch(self, *args: Any, **kwargs: Any) -> Any:
        """Send a batch, as ``AIOKafkaProducer.send_batch`` does.

        Raises:
            KafkaGuardError: The client raised an error. It also has the client's class.
        """
        self._check_open()
        return await self._pass(self.client.send_batch(*args, **kwargs))

    async def _pass(self, awaitable: Any) -> Any:
        try:
            return await awaitable
        except KafkaGuardError:
            raise
        except KafkaError as error:
            raise errors.translate(error, api="Produce") from error

    def _check_open(self) -> None:
        if self.is_ended:
            raise self._has_ended("nothing was sent", ProducerClosed)
        self._check_loop()

    async def stop(self) -> None:
        """Close the guard's own connections, then the client, within 30 s."""
        self._check_end()
        self._lookup.close()
        await self._end()
