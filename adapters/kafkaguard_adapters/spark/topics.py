"""Facts about the topics of a write: look-ups in a cluster, and a cache of them.

A stream's micro-batches follow each other within milliseconds, and brokers may be down
between two of them. So topics are not looked up for each batch. While no broker
answers, the cached facts stay valid, and the records wait in the producers.
"""

from __future__ import annotations

import os
import time
import warnings
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from confluent_kafka import (
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AclOperation, AdminClient, ConfigResource, OffsetSpec

from kafkaguard import _errors as e
from kafkaguard._cluster.topic_settings import read
from kafkaguard._common.logs import Log
from kafkaguard._verdicts.context import TopicFacts
from kafkaguard._verdicts.signals import is_refused_login
from kafkaguard_adapters.confluent.errors import errors
from kafkaguard_adapters.spark.client_config import silent_logger
from kafkaguard_adapters.spark.policy import DEAD_LETTER
from kafkaguard_adapters.spark.setting_errors import setting_error
from kafkaguard_adapters.spark.verdicts import NO_TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from kafkaguard_adapters.spark.settings import SinkSettings

T = TypeVar("T")

#: Seconds until a cluster that does not answer counts as unreachable.
ANSWER_TIMEOUT_S = 6.0
#: Seconds that a stream caches facts of a topic, unless a broker contradicts them.
KEEP_S = 60.0
_GLANCE_S = 0.1
#: librdkafka's words for a connection that ends in the TLS handshake.
_NO_TLS = "connecting to a PLAINTEXT broker listener"
_PAUSE_S = _LEAST_S = 1.0
#: The longest reconnect pause, instead of librdkafka's ten seconds.
_DEFAULTS = {"reconnect.backoff.max.ms": "1000"}
#: The number of clients that a process keeps; each has a connection and threads.
_MOST_CLIENTS = 4
_NO_ANSWER = (KafkaError._TIMED_OUT, KafkaError._TRANSPORT)  # noqa: SLF001 - documented constants
_log = Log("spark")


@dataclass(frozen=True, slots=True)
class SinkTopic:
    """A topic of a write.

    Attributes:
        name: The topic's name.
        partitions: The number of partitions.
        compacted: Whether ``cleanup.policy`` contains ``compact``; None if unknown.
        max_message_bytes: The largest batch in bytes, or None if unknown.
    """

    name: str
    partitions: int
    compacted: bool | None = None
    max_message_bytes: int | None = None

    @property
    def facts(self) -> TopicFacts:
        """The facts for verdicts."""
        return TopicFacts(compacted=self.compacted)


class Brokers:
    """Look-ups in a cluster, each within a time limit."""

    def __init__(self, client: Mapping[str, str]) -> None:
        self._servers = client["bootstrap.servers"]
        self._errors: list[Any] = []
        config = {**_DEFAULTS, **client, "error_cb": self._errors.append}
        self._admin = AdminClient(config, logger=silent_logger())

    def describe(
        self, names: Collection[str], timeout: float = ANSWER_TIMEOUT_S
    ) -> dict[str, SinkTopic]:
        """Look topics up.

        Args:
            names: The topics.
            timeout: Seconds to wait for an answer. Each request has at least 1 s.

        Raises:
            KafkaGuardError: A topic does not exist, may not be described or written to,
                or no broker answers.
        """
        end = time.monotonic() + timeout
        while True:
            try:
                topics = self._count_partitions(names, _seconds_until(end))
                return {
                    name: self._read_settings(name, count, _seconds_until(end))
                    for name, count in topics.items()
                }
            except e.ClientNotConnectedError:
                # A broken connection ends a request long before its timeout.
                if end - time.monotonic() <= _PAUSE_S:
                    raise self._without_tls() or self._unreachable(timeout) from None
            time.sleep(_PAUSE_S)

    def _count_partitions(
        self, names: Collection[str], timeout: float
    ) -> dict[str, int]:
        """Return each topic's number of partitions, if the user may write to it."""
        if not names:
            return {}
        self._errors.clear()
        futures = self._admin.describe_topics(
            TopicCollection(list(names)),
            include_authorized_operations=True,
            request_timeout=timeout,
        )
        counts = {}
        for name in names:
            try:
                topic = self._wait(futures[name], timeout)
            except KafkaException as error:
                raise self._translate(error, name, timeout) from None
            # Old brokers do not return the operations.
            allowed = topic.authorized_operations
            if allowed and AclOperation.WRITE not in allowed:
                raise errors.make(
                    e.TopicAuthorizationFailedError,
                    "this user may describe the topic but not write to it: grant the "
                    "ACL Write",
                    topic=name,
                    api="Metadata",
                )
            counts[name] = len(topic.partitions)
        return counts

    def has_answer(self, timeout: float) -> bool:
        """Return whether any broker answers within so many seconds."""
        self._errors.clear()
        future = self._admin.describe_cluster(request_timeout=timeout)
        try:
            self._wait(future, timeout)
        except e.ClientNotConnectedError:
            return False
        except KafkaException as error:
            return error.args[0].code() not in _NO_ANSWER
        return True

    def end_offsets(self, names: Collection[str]) -> int | None:
        """Return the sum of the topics' end offsets, or None if unknown.

        Raises:
            KafkaGuardError: A topic is missing, or no broker answers.
        """
        requests = {
            TopicPartition(name, partition): OffsetSpec.latest()
            for name, count in self._count_partitions(names, ANSWER_TIMEOUT_S).items()
            for partition in range(count)
        }
        futures = self._admin.list_offsets(
            requests,
            isolation_level=IsolationLevel.READ_UNCOMMITTED,
            request_timeout=ANSWER_TIMEOUT_S,
        )
        try:
            return sum(int(self._wait(each).offset) for each in futures.values())
        except KafkaException as error:
            _log.warning(
                "end_offsets_unknown",
                "end offsets are not known: %s",
                error.args[0].name(),
                error=error.args[0].name(),
            )
            return None

    def _read_settings(self, name: str, partitions: int, timeout: float) -> SinkTopic:
        """Look up a topic's settings; if the user may not, they stay unknown."""
        resource = ConfigResource(ConfigResource.Type.TOPIC, name)
        futures = self._admin.describe_configs([resource], request_timeout=timeout)
        try:
            settings = self._wait(futures[resource], timeout)
        except KafkaException as error:
            if error.args[0].code() in _NO_ANSWER:
                raise self._unreachable(timeout) from None
            warnings.warn(
                f"topic {name}: its settings cannot be read ({error.args[0].name()}), "
                "so a record without a key or too large a one is left to the broker. "
                "Grant DescribeConfigs on the topic, or declare compacted.",
                stacklevel=2,
            )
            return SinkTopic(name, partitions)
        facts = read({each: entry.value for each, entry in settings.items()})
        return SinkTopic(name, partitions, facts.compacted, facts.max_message_bytes)

    def _translate(self, error: Any, topic: str, timeout: float) -> e.KafkaGuardError:
        if isinstance(error, e.KafkaGuardError):
            return error
        code = error.args[0].code()
        if code == e.UnknownTopicOrPartitionError.code:
            text = "the topic does not exist"
            return errors.make(
                code, text, topic=topic, api="Metadata", verdict=NO_TOPIC
            )
        if code in _NO_ANSWER:
            return self._unreachable(timeout)
        return errors.translate(error, topic=topic, api="Metadata")

    def _wait(self, future: Any, timeout: float = ANSWER_TIMEOUT_S) -> Any:
        """Wait for an answer, unless the client reports that there will be none.

        Raises:
            KafkaGuardError: No broker answers, or the brokers refuse the client, which
                librdkafka would show as a timeout.
        """
        started = time.monotonic()
        has_warned = False
        while (waited := time.monotonic() - started) < timeout + 1:
            with suppress(TimeoutError):
                return future.result(_GLANCE_S)
            if waited > ANSWER_TIMEOUT_S and not has_warned:
                has_warned = True
                text = "no broker at %s answers; waiting up to %g s"
                _log.warning(
                    "no_broker_answers", text, self._servers, timeout, timeout=timeout
                )
            self._admin.poll(0)
            for error in self._errors:
                if is_refused_login(error):
                    raise errors.translate(error, api="Metadata")
        raise self._unreachable(timeout)

    def _without_tls(self) -> e.KafkaGuardError | None:
        """Return the error for a listener that has ended each TLS handshake, if so."""
        if not any(_NO_TLS in error.str() for error in self._errors):
            return None
        return errors.make(
            e.ClientConfigurationError,
            f"{self._servers} ends each TLS handshake, as a listener without TLS does: "
            "set kafka.security.protocol to PLAINTEXT or SASL_PLAINTEXT, or use the "
            "port of a TLS listener",
        )

    def _unreachable(self, timeout: float) -> e.KafkaGuardError:
        return errors.make(
            e.ClientNotConnectedError,
            f"no broker at {self._servers} answered within {timeout:g} s: "
            "check the address, and whether security.protocol is that of the listener: "
            "with TLS or without, with a login or without",
        )


def _seconds_until(end: float) -> float:
    """Return the seconds that a request may take, at least ``_LEAST_S``."""
    return max(end - time.monotonic(), _LEAST_S)


class TopicCache:
    """A client of one cluster, and the cached facts of topics.

    Args:
        connect: Makes the client. A client that failed is not kept.
        now: The time in seconds.
    """

    def __init__(
        self, connect: Callable[[], Brokers], now: Callable[[], float] = time.monotonic
    ) -> None:
        self._connect = connect
        self._now = now
        self._client: Brokers | None = None
        self._topics: dict[str, tuple[float, SinkTopic]] = {}

    def find(
        self,
        names: Collection[str],
        *,
        timeout: float,
        keep_s: float = 0.0,
        old_timeout: float | None = None,
    ) -> dict[str, SinkTopic]:
        """Look topics up, if the cached facts are too old.

        Args:
            names: The topics.
            timeout: Seconds to wait for an answer.
            keep_s: The largest age of cached facts in seconds.
            old_timeout: Seconds to wait if all topics are cached, before the cached
                facts are used for another batch. Default: they are not used.

        Raises:
            KafkaGuardError: A topic does not exist or may not be written to, or no
                broker answers.
        """
        due = [name for name in names if self._age(name) >= keep_s]
        has_old = old_timeout is not None and all(
            name in self._topics for name in names
        )
        if old_timeout is not None and has_old:
            timeout = min(timeout, old_timeout)
        try:
            if due:
                topics = self._ask(lambda client: client.describe(due, timeout))
                now = self._now()
                self._topics |= {name: (now, topic) for name, topic in topics.items()}
        except e.ClientNotConnectedError as error:
            if not has_old:
                raise
            _log.warning(
                "cached_topics_used",
                "topic settings cannot be looked up again, so the cached "
                "ones are used: %s",
                error,
                error=error,
            )
        return {name: self._topics[name][1] for name in names}

    def forget(self, names: Iterable[str]) -> None:
        """Drop the cached facts of topics: a broker has contradicted them."""
        for name in names:
            self._topics.pop(name, None)

    def end_offsets(self, names: Collection[str]) -> int | None:
        """Return the sum of the topics' end offsets, or None if unknown.

        Raises:
            KafkaGuardError: No broker answers.
        """
        return self._ask(lambda client: client.end_offsets(names))

    def _age(self, name: str) -> float:
        if name not in self._topics:
            return float("inf")
        return self._now() - self._topics[name][0]

    def _ask(self, question: Callable[[Brokers], T]) -> T:
        client, self._client = self._client or self._connect(), None
        answer = question(client)
        self._client = client
        return answer


_Key = tuple[int, tuple[tuple[str, str], ...]]
#: By process: a forked process does not use its parent's.
_caches: dict[_Key, TopicCache] = {}


def cache_for(client: Mapping[str, str]) -> TopicCache:
    """Return the client and the cached facts that this process keeps for a cluster.

    Args:
        client: Settings of the client; with others, other topics may be visible.
    """
    key = (os.getpid(), tuple(sorted(client.items())))
    cache = _caches.pop(key, None) or TopicCache(lambda: Brokers(client))
    for other in list(_caches)[: max(0, len(_caches) + 1 - _MOST_CLIENTS)]:
        _caches.pop(other, None)
    _caches[key] = cache
    return cache


def look_up(settings: SinkSettings, keep_s: float = 0.0) -> dict[str, SinkTopic]:
    """Look up the topics of a write, before the write starts.

    Args:
        settings: The settings of the write. In a stream, cached facts stay valid if no
            broker answers, and without cached facts the call waits.
        keep_s: The largest age of cached facts in seconds.

    Raises:
        KafkaGuardError: A topic is missing, no broker answers, or a topic is not as
            declared.
    """
    try:
        topics = cache_for(settings.client).find(
            settings.topics,
            timeout=settings.patience_s or ANSWER_TIMEOUT_S,
            keep_s=keep_s,
            old_timeout=ANSWER_TIMEOUT_S if settings.patience_s else None,
        )
    except _OF_A_TOPIC as error:
        if error.topic is None or error.topic != settings.dead_letter_topic:
            raise
        raise explain_letters(error) from None
    if settings.topic:
        topics[settings.topic] = apply_declared(
            topics[settings.topic], settings.compacted
        )
    if settings.dead_letter_topic and topics[settings.dead_letter_topic].compacted:
        raise setting_error(
            "a compacted dead-letter topic refuses records without a key: set its "
            "cleanup.policy to delete",
            topic=settings.dead_letter_topic,
            setting=DEAD_LETTER,
        )
    return topics


_OF_A_TOPIC = (e.UnknownTopicOrPartitionError, e.TopicAuthorizationFailedError)


def explain_letters(error: e.KafkaGuardError) -> e.KafkaGuardError:
    """Add why the write needs a topic that the caller may not have named."""
    need = "it is the dead-letter topic that the policy needs (dead_letter.topic)"
    return errors.make(
        error.code or type(error),
        "; ".join(filter(None, (error.summary or error.broker_message, need))),
        topic=error.topic,
        api=error.api,
        verdict=error.verdict,
    )


def apply_declared(topic: SinkTopic, compacted: bool | None) -> SinkTopic:
    """Return the facts about a topic, completed by what the caller declares.

    Raises:
        KafkaGuardError: The caller declares something else than the cluster says.
    """
    if compacted is None or topic.compacted == compacted:
        return topic
    if topic.compacted is None:
        return replace(topic, compacted=compacted)
    kind = "compacted" if topic.compacted else "not compacted"
    raise setting_error(
        f"declared compacted={str(compacted).lower()}, and the topic is {kind}",
        topic=topic.name,
        setting="compacted",
    )
