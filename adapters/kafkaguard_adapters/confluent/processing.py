"""The shell of a ``confluent_kafka.Consumer`` that handles records."""

from __future__ import annotations

import time
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    KafkaException,
    Message,
    Producer,
)
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.serialization import MessageField, SerializationContext

from kafkaguard._cluster.reports import TopicPartition, as_partition
from kafkaguard._delivery.facts import Raw
from kafkaguard._errors import (
    ClientConfigurationError,
    ClientStateError,
    ClientTimeoutError,
    KafkaGuardError,
)
from kafkaguard_adapters.confluent.callbacks import Chained
from kafkaguard_adapters.confluent.errors import errors
from kafkaguard_adapters.confluent.listening import ResetLog
from kafkaguard_adapters.guard import guard
from kafkaguard_adapters.processing.settings import check_once, letter_policy
from kafkaguard_policies.model.policy import ways_of_rejecting

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from kafkaguard._delivery.dialects import LetterFacts
    from kafkaguard_adapters.building import Wish
    from kafkaguard_adapters.processing.arguments import Arguments
    from kafkaguard_adapters.processing.shell import Fetched, Listener, Report

_MS: Final = 1000
#: Seconds that a look-up may take.
_LOOK_UP_S: Final = 10.0
#: How often a listener looks whether it may return.
_STEP_S: Final = 0.01
#: librdkafka's default of ``max.poll.interval.ms``.
_POLL_INTERVAL_MS: Final = 300_000
_SERVERS: Final = {"bootstrap.servers", "metadata.broker.list"}
#: Settings of consumers that a producer of the same cluster must not have.
_OF_CONSUMERS: Final = (
    *("group.", "auto.", "enable.", "max.poll", "session.", "heartbeat.", "fetch."),
    *("partition.assignment", "isolation.", "queued.", "check.crcs", "consume."),
    *("offset.", "on_commit", "key.deserializer", "value.deserializer", "error_cb"),
    *("rebalance_cb", "logger", "log_level", "max.partition", "coordinator."),
    *("client.rack", "stats_cb", "statistics.", "interceptor", "exclude.", "plugin."),
)


class ConfluentProcessShell:
    """Executes the commands of a run on a Consumer.

    Args:
        guarded: The guarded consumer.
        arguments: What ``process()`` was told.
        wish: What ``guard()`` was told.

    Raises:
        ClientConfigurationError: The producer of dead letters cannot be built.
        ClientStateError: The guarded consumer was not subscribed.
    """

    errors = errors

    def __init__(self, guarded: Any, arguments: Arguments, wish: Wish) -> None:
        self._guarded = guarded
        self._client: Consumer = guarded.client
        self._config: Mapping[str, Any] = wish.config or {}
        self._policy = wish.policy
        self._producer = arguments.dead_letter_producer
        self._own_producer: Any = None
        #: The partitions that the run has paused, whatever the application has.
        self.paused: set[TopicPartition] = set()
        self._starts: dict[TopicPartition, int] = {}
        #: The topic that all messages are of; None: there may be several.
        self._only_topic: str | None = None
        self._key_deserialiser = getattr(self._client, "_key_deserializer", None)
        self._value_deserialiser = getattr(self._client, "_value_deserializer", None)
        self.group: str | None = self._config.get("group.id")
        #: KIP-848, where kept partitions stay in their round.
        self.is_new_protocol = self._config.get("group.protocol") == "consumer"
        if (
            "dead_letter" in ways_of_rejecting(wish.policy)
            and self._producer is None
            and not _SERVERS & self._config.keys()
        ):
            raise errors.make(
                ClientConfigurationError,
                "process(): on_reject is dead_letter, and the addresses of the brokers "
                "are not known: give dead_letter_producer=, or let the guard build the "
                "consumer: guard(factory=..., config={...})",
            )

    # --- records ----------------------------------------------------------------------

    offset_of = staticmethod(Message.offset)
    key_of = staticmethod(Message.key)

    @property
    def decode(self) -> Callable[[Any], Any] | None:
        """Calls the application's deserialisers; None: there are none."""
        has_any = self._key_deserialiser or self._value_deserialiser
        return self._decode if has_any else None

    def _decode(self, message: Any) -> Any:
        """Return a copy of a message with key and value as the application's."""
        headers = message.headers()
        context = SerializationContext(message.topic(), MessageField.KEY, headers)
        key, value = message.key(), message.value()
        part: Any = "key"
        try:
            if self._key_deserialiser is not None:
                key = self._key_deserialiser(key, context)
            part, context.field = "value", MessageField.VALUE
            if self._value_deserialiser is not None:
                value = self._value_deserialiser(value, context)
        except Exception as error:
            raise errors.undecoded(
                error,
                part,
                topic=message.topic(),
                partition=message.partition(),
                offset=message.offset(),
                key=message.key(),
                value=message.value(),
                headers=headers,
            ) from error
        return _copy(message, key=key, value=value)

    def raw(self, record: Any) -> Raw:
        """Return a message's bytes."""
        _, timestamp = record.timestamp()
        headers = record.headers() or []
        at = timestamp if timestamp >= 0 else None
        return Raw(record.key(), record.value(), headers, at)

    def restore(self, record: Any, facts: LetterFacts, raw: Raw) -> Any:
        """Return a dead letter as the record that was first read."""
        kind, at = record.timestamp()
        return _copy(
            record,
            topic=facts.topic,
            partition=facts.partition,
            offset=facts.offset,
            timestamp=(kind, at if raw.timestamp_ms is None else raw.timestamp_ms),
            value=raw.value,
            headers=list(raw.headers),
        )

    # --- the client -------------------------------------------------------------------

    def listen(self, listener: Listener) -> Collection[TopicPartition]:
        """Tell a listener of rebalances from now on."""
        names = self._guarded.subscribed
        is_one = len(names) == 1 and not names[0].startswith("^")
        self._only_topic = names[0] if is_one else None
        self._guarded.rebalances = _Rebalances(self, listener)
        return self._assignment()

    def unlisten(self) -> None:
        """Leave the client to the application again."""
        self._guarded.rebalances = None
        self.resume(list(self.paused))

    def _assignment(self) -> set[TopicPartition]:
        return set(map(as_partition, self._client.assignment()))

    def poll(self, most: int, seconds: float) -> Iterable[Fetched]:
        """Return records, or nothing after seconds."""
        messages = self._guarded.read_raw(most, seconds)
        if not messages:
            return ()
        partitions = list(map(Message.partition, messages))
        topics: Iterable[str] = map(Message.topic, messages)
        if self._only_topic is not None:
            if partitions.count(partitions[0]) == len(partitions):
                return (((self._only_topic, partitions[0]), messages),)  # type: ignore[return-value]  # the pair equals a TopicPartition
            topics = repeat(self._only_topic)
        groups: dict[Any, list[Any]] = {}
        for place, message in zip(
            zip(topics, partitions, strict=False), messages, strict=True
        ):
            group = groups.get(place)
            if group is None:
                groups[place] = [message]
            else:
                group.append(message)
        return groups.items()

    def positions(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return known positions."""
        assigned = self._assignment()
        wanted = [ClientPartition(*each) for each in places if each in assigned]
        return {
            place: offset
            for each in self._client.position(wanted)
            if (offset := self._position(place := as_partition(each), each.offset)) >= 0
        }

    def _position(self, place: TopicPartition, position: int) -> int:
        """Return a position; before the first record, where reading has begun."""
        return position if position >= 0 else self._starts.get(place, OFFSET_INVALID)

    def ends(self, places: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Look up the ends of logs, and which partitions have nothing to read."""
        partitions = [ClientPartition(*each) for each in places]
        reset = str(self._config.get("auto.offset.reset", "latest"))
        is_earliest = reset in ("earliest", "beginning", "smallest")
        ends = {}
        try:
            committed = self._client.committed(partitions, timeout=_LOOK_UP_S)
            for each in committed:
                place = as_partition(each)
                low, high = self._client.get_watermark_offsets(each, timeout=_LOOK_UP_S)
                ends[place] = high
                first = low if is_earliest else high
                start = each.offset if each.offset >= 0 else first
                if start >= high:
                    self._starts[place] = start
        except KafkaException as error:
            raise errors.translate(error) from error
        return ends

    def commit(self, offsets: Mapping[TopicPartition, int], report: Report) -> None:
        """Commit without waiting, if the guard hears the answers."""
        self._guarded.commit_quietly(self.client_offsets(offsets), report)

    def pause(self, places: Iterable[TopicPartition]) -> None:
        """Pause partitions."""
        mine = self._assignment() & set(places)
        self.paused |= mine
        self._client.pause([ClientPartition(*each) for each in mine])

    def resume(self, places: Iterable[TopicPartition]) -> None:
        """Resume the partitions that ``pause`` has paused, and not the application."""
        mine = self.paused & set(places)
        self.paused -= mine
        free = [  # new ones are not assigned yet, but the client still has their pauses
            ClientPartition(*each)
            for each in mine
            if not self._guarded.is_paused_by_user(each)
        ]
        self._client.resume(free)

    def seek(self, place: TopicPartition, offset: int) -> None:
        """Set the position of a partition, if it is still assigned."""
        if place in self._assignment():
            self._guarded.seek(ClientPartition(*place, offset))

    def topics(self) -> Collection[str]:
        """Return the topics that are read, as far as they are known."""
        names = {*self._guarded.subscribed, *(p.topic for p in self._assignment())}
        return {each for each in names if not each.startswith("^")}

    def missing_topics(self, topics: Iterable[str]) -> Collection[str]:
        """Return those of some topics that do not exist."""
        try:
            return {
                name
                for name in topics
                if self._client.list_topics(name, timeout=_LOOK_UP_S).topics[name].error
                is not None
            }
        except KafkaException as error:
            raise errors.translate(error, api="Metadata") from error

    def revocation_limit(self) -> float:
        """Return how many seconds a listener may take."""
        return float(self._config.get("max.poll.interval.ms", _POLL_INTERVAL_MS)) / _MS

    # --- exactly once -----------------------------------------------------------------

    send_name = "produce"

    def check_once(self, producer: Any) -> float:
        """Return how many seconds a round may take at most."""
        isolation = str(self._config.get("isolation.level", "read_committed"))
        settings = getattr(producer, "producer_settings", None)
        transactional_id = settings and settings.transactional_id
        check_once(errors, producer, transactional_id, isolation)
        assert settings is not None
        return float(settings.transaction_timeout) / 2

    def group_metadata(self) -> Any:
        """Return the group's metadata now; None: it is no member."""
        if not self._client.memberid() and not self._guarded.is_assigned_by_user:
            return None
        return self._client.consumer_group_metadata()

    def client_offsets(self, offsets: Mapping[TopicPartition, int]) -> Any:
        """Return offsets as the producer takes them."""
        return [ClientPartition(*each, at) for each, at in offsets.items()]

    def send_raw(self, send: Callable[..., Any], topic: str, raw: Raw) -> Any:
        """Send bytes by a producer's method; return what it returns."""
        options = {} if raw.timestamp_ms is None else {"timestamp": raw.timestamp_ms}
        headers = list(raw.headers)
        return send(topic, value=raw.value, key=raw.key, headers=headers, **options)

    # --- dead letters -----------------------------------------------------------------

    def send_letters(
        self, letters: Sequence[tuple[str, Raw]], seconds: float
    ) -> Sequence[KafkaGuardError | None]:
        """Send dead letters, in the thread of letters; return the error of each."""
        producer = self._producer or self._build_producer()
        missing = ClientTimeoutError(f"a dead letter has no answer after {seconds:g} s")
        results: list[KafkaGuardError | None] = [missing] * len(letters)

        def settle(index: int) -> Callable[[Any, Any], None]:
            def settled(error: Any, _: Any) -> None:
                results[index] = None if error is None else _error_of(error)

            return settled

        until = time.monotonic() + seconds
        for index, (topic, raw) in enumerate(letters):
            try:
                send = partial(producer.produce, on_delivery=settle(index))
                self.send_raw(send, topic, raw)
            except (KafkaException, BufferError) as error:
                results[index] = _error_of(error)
        producer.flush(max(0.0, until - time.monotonic()))
        return results

    def _build_producer(self) -> Any:
        """Build a guarded producer with the settings of the consumer."""
        if self._own_producer is None:
            settings = {
                name: value
                for name, value in self._config.items()
                if not name.startswith(_OF_CONSUMERS)
            }
            settings["enable.idempotence"] = True
            policy = letter_policy(self._policy, errors)
            self._own_producer = guard(factory=Producer, config=settings, policy=policy)
        return self._own_producer

    def close_letters(self) -> None:
        """Close the producer of dead letters, if it was built here."""
        if self._own_producer is not None:
            self._own_producer.close(1.0)

    def forget_pauses(self, places: Collection[TopicPartition]) -> None:
        """Resume new partitions: librdkafka keeps pauses of those that came back."""
        self.resume(self.paused.intersection(places))


class _Rebalances:
    """Tells a listener what the client calls in the thread that polls."""

    def __init__(self, shell: ConfluentProcessShell, listener: Listener) -> None:
        self._shell = shell
        self._listener = listener
        self.paused = shell.paused

    def on_assign(self, partitions: Any) -> None:
        """Read new partitions."""
        places = list(map(as_partition, partitions))
        self._shell.forget_pauses(places)
        self._listener.assigned(places, keeps_round=self._shell.is_new_protocol)

    def on_revoke(self, partitions: Any) -> None:
        """Wait for what runs; commits are made meanwhile."""
        listener = self._listener
        revocation = listener.begin_revocation(map(as_partition, partitions))
        while not listener.is_given_up(revocation):
            time.sleep(_STEP_S)

    def on_lost(self, partitions: Any) -> None:
        """Commit nothing of partitions that are lost."""
        self._listener.lost(map(as_partition, partitions))


def _copy(message: Any, **changes: Any) -> Message:
    """Return a copy of a message, with changes."""
    epoch = message.leader_epoch()  # None: the broker wrote none
    parts = {
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "key": message.key(),
        "value": message.value(),
        "headers": message.headers() or [],
        "timestamp": message.timestamp(),
        "leader_epoch": -1 if epoch is None else epoch,
    }
    return Message(**parts | changes)


def unprepared(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings as the application gave them, without the guard's callbacks."""
    given = {
        name: value.own if isinstance(value, (Chained, ResetLog)) else value
        for name, value in config.items()
    }
    return {name: value for name, value in given.items() if value is not None}


def check_subscribed(guarded: Any) -> None:
    """Refuse a consumer whose rebalances the guard does not hear.

    Raises:
        ClientStateError: It was subscribed before it was guarded, or not at all.
    """
    if not guarded.subscribed and not guarded.is_assigned_by_user:
        raise errors.make(
            ClientStateError,
            "process() needs to hear of rebalances, and this consumer was subscribed "
            "before guard(), or not at all: call guard() first, and then subscribe() "
            "or assign() of the object that it returns",
        )


def _error_of(error: Any) -> KafkaGuardError:
    if isinstance(error, KafkaGuardError):
        return error
    inner: KafkaGuardError | None = getattr(error, "error", None)
    return (
        inner
        if isinstance(inner, KafkaGuardError)
        else errors.translate(error, api="Produce")
    )
