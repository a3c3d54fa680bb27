"""The shell of a ``KafkaConsumer`` that handles records."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from kafka import KafkaProducer
from kafka.consumer.fetcher import ConsumerRecord
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata
from kafka.structs import TopicPartition as ClientPartition

from kafkaguard._cluster.reports import TopicPartition, as_partition
from kafkaguard._errors import KafkaGuardError
from kafkaguard_adapters.guard import guard
from kafkaguard_adapters.kafka_python._private.consuming.processing import (
    Deserialisers,
    Rebalances,
    switch_off_commits,
)
from kafkaguard_adapters.kafka_python.errors import errors
from kafkaguard_adapters.processing.assignment import AssignmentShell
from kafkaguard_adapters.processing.settings import (
    auto_commits,
    check_once,
    letter_policy,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from kafkaguard._delivery.facts import Raw
    from kafkaguard_adapters.building import Wish
    from kafkaguard_adapters.kafka_python._private.consuming.committing import (
        Committing,
    )
    from kafkaguard_adapters.processing.arguments import Arguments
    from kafkaguard_adapters.processing.shell import Fetched, Listener, Report

_MS: Final = 1000


class KafkaPythonProcessShell(AssignmentShell):
    """Executes the commands of a run on a KafkaConsumer.

    Args:
        guarded: The guarded consumer, whose ``poll`` holds partitions that cannot be
            read.
        committing: Makes commits without waiting.
        arguments: What ``process()`` was told.
        wish: What ``guard()`` was told.

    Raises:
        ClientConfigurationError: The client commits by itself.
    """

    errors = errors
    _replaced = staticmethod(ConsumerRecord._replace)

    def __init__(
        self, guarded: Any, committing: Committing, arguments: Arguments, wish: Wish
    ) -> None:
        client = guarded.client
        if client.config["group_id"] and client.config["enable_auto_commit"]:
            if wish.factory is None:
                raise auto_commits(errors, "enable_auto_commit=False")
            switch_off_commits(client)
        self._guarded = guarded
        super().__init__(client, ClientPartition)
        self._committing = committing
        self._policy = wish.policy
        self._producer = arguments.dead_letter_producer
        self._own_producer: Any = None
        self._deserialisers = Deserialisers(client)
        self.group: str | None = client.config["group_id"]

    # --- the client -------------------------------------------------------------------

    def listen(self, listener: Listener) -> Collection[TopicPartition]:
        """Tell a listener of rebalances from now on."""
        self._deserialisers.take_out()
        self._rebalances = Rebalances(self._client, listener)
        return self._assignment()

    def poll(self, most: int, seconds: float) -> Iterable[Fetched]:
        """Return records, or nothing after seconds."""
        records = self._guarded.poll(timeout_ms=seconds * _MS, max_records=most)
        return records.items()  # type: ignore[no-any-return]  # of the client

    def positions(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return known positions."""
        return {
            place: position
            for place in self._assignment().intersection(places)
            if (position := self._position(place)) is not None
        }

    def _position(self, place: TopicPartition) -> int | None:
        with suppress(KafkaError):
            return self._client.position(ClientPartition(*place), timeout_ms=0)  # type: ignore[no-any-return]  # of the client
        return None

    def ends(self, places: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Look up the ends of logs."""
        ends = self._guarded.end_offsets(self._partitions(places))
        return {as_partition(place): end for place, end in ends.items()}

    def commit(self, offsets: Mapping[TopicPartition, int], report: Report) -> None:
        """Commit without waiting."""
        self._committing.commit_quietly(self.client_offsets(offsets), report)

    def missing_topics(self, topics: Iterable[str]) -> Collection[str]:
        """Return those of some topics that do not exist."""
        wanted = set(topics)
        return wanted - self._client.topics() if wanted else wanted

    def revocation_limit(self) -> float:
        """Return how many seconds a listener may take."""
        return float(self._client.config["max_poll_interval_ms"]) / _MS

    # --- exactly once -----------------------------------------------------------------

    send_name = "send"

    def check_once(self, producer: Any) -> float:
        """Return how many seconds a round may take at most."""
        config = getattr(producer, "config", {})
        isolation = self._client.config["isolation_level"]
        check_once(errors, producer, config.get("transactional_id"), isolation)
        return float(config["transaction_timeout_ms"]) / _MS / 2

    def group_metadata(self) -> Any:
        """Return the group's metadata now; None: it is no member."""
        metadata = self._client.group_metadata()
        is_member = metadata.generation_id >= 0 or self._is_assigned_by_hand()
        return metadata if is_member else None

    def _is_assigned_by_hand(self) -> bool:
        return self._committing.owned() is None

    def client_offsets(self, offsets: Mapping[TopicPartition, int]) -> Any:
        """Return offsets as the producer takes them."""
        return {
            ClientPartition(*place): OffsetAndMetadata(offset, "", -1)
            for place, offset in offsets.items()
        }

    def send_raw(self, send: Callable[..., Any], topic: str, raw: Raw) -> Any:
        """Send bytes by a producer's method; return what it returns.

        A header without a value becomes empty, because the client takes no other.
        """
        return send(
            topic,
            value=raw.value,
            key=raw.key,
            headers=[(name, value or b"") for name, value in raw.headers],
            timestamp_ms=raw.timestamp_ms,
        )

    # --- dead letters -----------------------------------------------------------------

    def send_letters(
        self, letters: Sequence[tuple[str, Raw]], seconds: float
    ) -> Sequence[KafkaGuardError | None]:
        """Send dead letters, in the thread of letters; return the error of each."""
        producer = self._producer or self._build_producer()
        until = time.monotonic() + seconds
        futures = [self.send_raw(producer.send, topic, raw) for topic, raw in letters]
        return [self._outcome(each, until - time.monotonic()) for each in futures]

    def _outcome(self, future: Any, seconds: float) -> KafkaGuardError | None:
        try:
            future.get(timeout=max(0.0, seconds))
        except KafkaGuardError as error:
            return error
        except KafkaError as error:
            return errors.translate(error, api="Produce")
        return None

    def _build_producer(self) -> Any:
        """Build a guarded producer with the settings of the consumer."""
        if self._own_producer is None:
            names = KafkaProducer.DEFAULT_CONFIG.keys() - {"api_version"}
            config = self._client.config
            settings = {name: config[name] for name in names & config.keys()}
            policy = letter_policy(self._policy, errors)
            self._own_producer = guard(
                factory=KafkaProducer, config=settings, policy=policy
            )
        return self._own_producer

    def close_letters(self) -> None:
        """Close the producer of dead letters, if it was built here."""
        if self._own_producer is not None:
            self._own_producer.close(timeout=1)
