"""The shell of an ``AIOKafkaConsumer`` that handles records."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from aiokafka.errors import KafkaError
from aiokafka.structs import OffsetAndMetadata

from aiokafka import AIOKafkaProducer
from aiokafka import TopicPartition as ClientPartition
from kafkaguard._cluster.reports import TopicPartition, as_partition
from kafkaguard._common.logs import Log
from kafkaguard._errors import (
    ClientConfigurationError,
    ClientTimeoutError,
    KafkaGuardError,
)
from kafkaguard_adapters.aiokafka._private.consuming.processing import (
    Deserialisers,
    Rebalances,
    commits_itself,
    revocation_limit,
    switch_off_commits,
)
from kafkaguard_adapters.aiokafka._private.producing import reading
from kafkaguard_adapters.aiokafka._private.producing.transactions import time_limit
from kafkaguard_adapters.aiokafka.errors import errors
from kafkaguard_adapters.aiokafka.settings import config_of, consumer_config_of
from kafkaguard_adapters.consuming.commits import spread_error
from kafkaguard_adapters.guard import guard
from kafkaguard_adapters.processing.assignment import AssignmentShell
from kafkaguard_adapters.processing.driver_base import MARGIN_S
from kafkaguard_adapters.processing.settings import (
    auto_commits,
    check_once,
    letter_policy,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from kafkaguard._delivery.facts import Raw
    from kafkaguard_adapters.aiokafka._private.consuming.committing import Committing
    from kafkaguard_adapters.building import Wish
    from kafkaguard_adapters.processing.arguments import Arguments
    from kafkaguard_adapters.processing.shell import AwaitedListener, Fetched, Refused

_log = Log("consumer")
_MS: Final = 1000
NO_ONCE: Final = (
    "process(producer=...), exactly once, does not work with subscribe() of aiokafka: "
    "it commits offsets in a transaction without the group's generation "
    "(TxnOffsetCommit v0), so no broker can fence a member that has lost its "
    "partitions. Give the consumer a group_id, and assign() partitions, always the "
    "same ones for a transactional_id; or use kafka-python or confluent-kafka"
)


class AIOKafkaProcessShell(AssignmentShell):
    """Executes the commands of a run on an AIOKafkaConsumer.

    Args:
        guarded: The guarded consumer.
        committing: Makes single attempts to commit; None: it has no group.
        known_positions: Returns the positions that the client knows.
        arguments: What ``process()`` was told.
        wish: What ``guard()`` was told.

    Raises:
        ClientConfigurationError: The client commits by itself.
    """

    errors = errors
    _replaced = staticmethod(replace)

    def __init__(
        self,
        guarded: Any,
        committing: Committing | None,
        known_positions: Callable[[], Mapping[TopicPartition, int | None]],
        arguments: Arguments,
        wish: Wish,
    ) -> None:
        client = guarded.client
        if commits_itself(client):
            if wish.factory is None:
                raise auto_commits(errors, "enable_auto_commit=False")
            switch_off_commits(client)
        self._guarded = guarded
        super().__init__(client, ClientPartition)
        self._committing = committing
        self._known_positions = known_positions
        self._policy = wish.policy
        self._producer = arguments.dead_letter_producer
        self._own_producer: asyncio.Task[Any] | None = None
        self._deserialisers = Deserialisers(client)
        self.group: str | None = consumer_config_of(client)["group_id"]

    # --- the client -------------------------------------------------------------------

    def listen(self, listener: AwaitedListener) -> Collection[TopicPartition]:
        """Tell a listener of rebalances from now on."""
        limit, wanted = self.revocation_limit(), self._policy.handler.drain_timeout
        if self.group is not None and limit - MARGIN_S < wanted:
            _log.warning(
                "drain_timeout_too_long",
                "process(): handler.drain_timeout is %g s, and running handlers get "
                "%g s when partitions are revoked: after rebalance_timeout_ms (or "
                "session_timeout_ms, if it is not set), %g s, the member is thrown out "
                "of its group. Set rebalance_timeout_ms",
                wanted,
                max(0.0, limit - MARGIN_S),
                limit,
                group=self.group,
            )
        self._deserialisers.take_out()
        self._rebalances = Rebalances(self._client, listener)
        return self._assignment()

    async def poll(self, most: int, seconds: float) -> Iterable[Fetched]:
        """Return records, or nothing after seconds."""
        records = await self._guarded.getmany(
            timeout_ms=round(seconds * _MS), max_records=most
        )
        return records.items()  # type: ignore[no-any-return]  # of the client

    async def positions(
        self, places: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """Return known positions."""
        known = self._known_positions()
        wanted = ((place, known.get(place)) for place in places)
        return {place: position for place, position in wanted if position is not None}

    async def ends(
        self, places: Iterable[TopicPartition]
    ) -> Mapping[TopicPartition, int]:
        """Look up the ends of logs."""
        ends = await self._guarded.end_offsets(self._partitions(places))
        return {as_partition(place): end for place, end in ends.items()}

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> Refused:
        """Commit once; return the refused partitions."""
        assert self._committing is not None
        assigned = self._assignment()
        request = self.client_offsets(
            {place: at for place, at in offsets.items() if place in assigned}
        )
        if not request:
            return {}
        try:
            return await self._committing.once(request)
        except KafkaError as error:
            return spread_error(errors, offsets, error)

    async def missing_topics(self, topics: Iterable[str]) -> Collection[str]:
        """Return those of some topics that do not exist."""
        wanted = set(topics)
        return wanted - await self._guarded.topics() if wanted else wanted

    def revocation_limit(self) -> float:
        """Return how many seconds a listener may take."""
        return revocation_limit(self._client)

    # --- exactly once -----------------------------------------------------------------

    def check_once(self, producer: Any) -> float:
        """Return how many seconds a round may take at most."""
        client = getattr(producer, "client", None)
        transactional_id = client and reading.transactional_id(client)
        isolation = consumer_config_of(self._client)["isolation_level"]
        check_once(errors, producer, transactional_id, isolation)
        if self._committing is None or self._committing.is_member():
            raise errors.make(ClientConfigurationError, NO_ONCE)
        return time_limit(client) / 2

    def group_metadata(self) -> Any:
        """Return what the producer takes: the group alone."""
        return self.group

    def client_offsets(self, offsets: Mapping[TopicPartition, int]) -> Any:
        """Return offsets as the producer takes them."""
        return {
            ClientPartition(*place): OffsetAndMetadata(offset, "")
            for place, offset in offsets.items()
        }

    async def send_raw(self, send: Callable[..., Any], topic: str, raw: Raw) -> Any:
        """Send bytes by a producer's method; return what it returns."""
        return await send(
            topic,
            value=raw.value,
            key=raw.key,
            headers=list(raw.headers),
            timestamp_ms=raw.timestamp_ms,
        )

    # --- dead letters -----------------------------------------------------------------

    async def send_letters(
        self, letters: Sequence[tuple[str, Raw]], seconds: float
    ) -> Sequence[KafkaGuardError | None]:
        """Send dead letters; return the error of each."""
        if self._producer is None and self._own_producer is None:
            self._own_producer = asyncio.ensure_future(self._build_producer())
        producer = self._producer or await asyncio.shield(self._own_producer)  # type: ignore[arg-type]  # one of them is there
        until = asyncio.get_running_loop().time() + seconds
        futures = [await self.send_raw(producer.send, *letter) for letter in letters]
        return [await self._outcome(each, until, seconds) for each in futures]

    async def _outcome(
        self, future: Any, until: float, seconds: float
    ) -> KafkaGuardError | None:
        try:
            async with asyncio.timeout_at(until):
                await future
        except TimeoutError:
            return ClientTimeoutError(
                f"a dead letter has no answer after {seconds:g} s"
            )
        except KafkaGuardError as error:
            return error
        except KafkaError as error:
            return errors.translate(error, api="Produce")
        return None

    async def _build_producer(self) -> Any:
        """Build a guarded producer with the settings of the consumer."""
        settings = {
            name: value
            for name, value in config_of(self._client).items()
            if value is not None
        }
        settings["enable_idempotence"] = True
        policy = letter_policy(self._policy, errors)
        producer = guard(factory=AIOKafkaProducer, config=settings, policy=policy)
        await producer.start()
        return producer

    async def close_letters(self) -> None:
        """Close the producer of dead letters, if it was built here."""
        if self._own_producer is not None:
            producer = await self._own_producer
            await producer.stop()
