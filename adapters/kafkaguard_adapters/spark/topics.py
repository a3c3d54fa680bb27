"""Look-ups of topics before and after a write."""

from __future__ import annotations

import logging
import os
import time
import warnings
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from kafkaguard import errors as e
from kafkaguard._cluster.topic_settings import read
from kafkaguard_adapters.confluent.errors import errors
from kafkaguard_adapters.spark.client_config import silent_logger
from kafkaguard_adapters.spark.kept import Kept
from kafkaguard_adapters.spark.policy import DEAD_LETTER
from kafkaguard_adapters.spark.setting_errors import setting_error
from kafkaguard_adapters.spark.sink_topic import SinkTopic
from kafkaguard_adapters.spark.verdicts import NO_TOPIC

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from kafkaguard_adapters.spark.settings import SinkSettings

#: Seconds until a cluster that does not answer counts as unreachable.
ANSWER_TIMEOUT_S = 6.0
_GLANCE_S = 0.1
#: librdkafka's words for a connection that ends in the TLS handshake.
_NO_TLS = "connecting to a PLAINTEXT broker listener"
_PAUSE_S = _LEAST_S = 1.0
#: The longest reconnect pause, instead of librdkafka's ten seconds.
_DEFAULTS = {"reconnect.backoff.max.ms": "1000"}
#: The number of clients that a process keeps; each has a connection and threads.
_MOST_CLIENTS = 4
_log = logging.getLogger("kafkaguard.spark")


class Brokers:
    """Look-ups in a cluster, each within a time limit."""

    def __init__(self, client: Mapping[str, str]) -> None:
        from confluent_kafka.admin import AdminClient

        self._servers = client["bootstrap.servers"]
        self._said: list[Any] = []
        config = {**_DEFAULTS, **client, "error_cb": self._said.append}
        self._admin = AdminClient(config, logger=silent_logger())

    def describe(
        self, names: Iterable[str], timeout: float = ANSWER_TIMEOUT_S
    ) -> dict[str, SinkTopic]:
        """Look topics up.

        Args:
            names: The topics.
            timeout: Seconds to wait for an answer.

        Raises:
            KafkaGuardError: A topic does not exist, may not be described or written to,
                or no broker answers.
        """
        wanted = list(names)
        end = time.monotonic() + timeout
        while True:
            try:
                return self._described(wanted, end)
            except e.ClientNotConnectedError:
                # A broken connection ends a request long before its timeout.
                if end - time.monotonic() <= _PAUSE_S:
                    raise self._without_tls() or self._unreachable(timeout) from None
            time.sleep(_PAUSE_S)

    def _described(self, names: list[str], end: float) -> dict[str, SinkTopic]:
        """Look topics up until monotonic seconds; each request has at least 1 s."""
        found = {}
        for name, count in self._partitions(names, _left(end)).items():
            found[name] = self._with_settings(name, count, _left(end))
        return found

    def _partitions(self, names: Iterable[str], timeout: float) -> dict[str, int]:
        from confluent_kafka import TopicCollection

        wanted = list(names)
        if not wanted:
            return {}
        self._said.clear()
        futures = self._admin.describe_topics(
            TopicCollection(wanted),
            include_authorized_operations=True,
            request_timeout=timeout,
        )
        found = {}
        for name in wanted:
            with self._explained(name, timeout):
                topic = self._answer(futures[name], timeout)
                _check_may_write(topic)
                found[name] = len(topic.partitions)
        return found

    def answer(self, timeout: float) -> bool:
        """Return whether any broker answers within so many seconds.

        Raises:
            KafkaGuardError: The brokers refuse the client.
        """
        from confluent_kafka import KafkaException

        self._said.clear()
        future = self._admin.describe_cluster(request_timeout=timeout)
        try:
            self._answer(future, timeout)
        except e.ClientNotConnectedError:
            return False
        except KafkaException as error:
            return error.args[0].code() not in _no_answer()
        return True

    def end_offsets(self, names: Iterable[str]) -> int | None:
        """Return the sum of the topics' end offsets, or None if unknown.

        Raises:
            KafkaGuardError: A topic is missing, or no broker answers.
        """
        from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
        from confluent_kafka.admin import OffsetSpec

        asked = {
            TopicPartition(name, partition): OffsetSpec.latest()
            for name, count in self._partitions(names, ANSWER_TIMEOUT_S).items()
            for partition in range(count)
        }
        futures = self._admin.list_offsets(
            asked,
            isolation_level=IsolationLevel.READ_UNCOMMITTED,
            request_timeout=ANSWER_TIMEOUT_S,
        )
        try:
            offsets = [int(self._answer(each).offset) for each in futures.values()]
        except KafkaException as error:
            _log.warning("end offsets are not known: %s", error.args[0].name())
            return None
        return sum(offsets)

    def _with_settings(self, name: str, partitions: int, timeout: float) -> SinkTopic:
        """Look up a topic's settings; if the user may not, they stay unknown."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import ConfigResource

        resource = ConfigResource(ConfigResource.Type.TOPIC, name)
        futures = self._admin.describe_configs([resource], request_timeout=timeout)
        try:
            settings = self._answer(futures[resource], timeout)
        except KafkaException as error:
            if error.args[0].code() in _no_answer():
                raise self._unreachable(timeout) from None
            warnings.warn(
                f"topic {name}: its settings cannot be read ({error.args[0].name()}), "
                "so a record without a key or too large a one is left to the broker. "
                "Grant DescribeConfigs on the topic, or declare compacted.",
                stacklevel=2,
            )
            return SinkTopic(name, partitions)
        known = read({each: entry.value for each, entry in settings.items()})
        return SinkTopic(name, partitions, known.compacted, known.max_message_bytes)

    @contextmanager
    def _explained(self, topic: str, timeout: float) -> Iterator[None]:
        from confluent_kafka import KafkaException

        try:
            yield
        except e.KafkaGuardError:
            raise
        except KafkaException as error:
            code = error.args[0].code()
            if code == e.UnknownTopicOrPartitionError.code:
                text = "the topic does not exist"
                raise errors.make(
                    code, text, topic=topic, api="Metadata", verdict=NO_TOPIC
                ) from None
            if code in _no_answer():
                raise self._unreachable(timeout) from None
            raise errors.translate(error, topic=topic, api="Metadata") from None

    def _answer(self, future: Any, timeout: float = ANSWER_TIMEOUT_S) -> Any:
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
                _log.warning(text, self._servers, timeout)
            self._admin.poll(0)
            if refused := [
                error for error in self._said if error.code() in _refusals()
            ]:
                raise errors.translate(refused[0], api="Metadata")
        raise self._unreachable(timeout)

    def _without_tls(self) -> e.KafkaGuardError | None:
        """Return the error for a listener that has ended each TLS handshake, if so."""
        if not any(_NO_TLS in error.str() for error in self._said):
            return None
        return errors.make(
            e.ClientConfigurationError,
            f"{self._servers} ends each TLS handshake, as a listener without TLS does: "
            "set security.protocol to that of this listener, or use the port of one "
            "with TLS",
        )

    def _unreachable(self, timeout: float) -> e.KafkaGuardError:
        return errors.make(
            e.ClientNotConnectedError,
            f"no broker at {self._servers} answered within {timeout:g} s: "
            "check the address, and whether security.protocol is that of the listener: "
            "with TLS or without, with a login or without",
        )


def _left(end: float) -> float:
    """Return the seconds that a request may take, at least ``_LEAST_S``."""
    return max(end - time.monotonic(), _LEAST_S)


def _check_may_write(topic: Any) -> None:
    from confluent_kafka.admin import AclOperation

    allowed = topic.authorized_operations
    # Old brokers do not return the operations.
    if allowed and AclOperation.WRITE not in allowed:
        raise errors.make(
            e.TopicAuthorizationFailedError,
            "this user may describe the topic but not write to it: grant the ACL Write",
            topic=topic.name,
            api="Metadata",
        )


def _refusals() -> tuple[int, ...]:
    from confluent_kafka import KafkaError

    return KafkaError._AUTHENTICATION, KafkaError._SSL  # noqa: SLF001 - documented constants


def _no_answer() -> tuple[int, ...]:
    from confluent_kafka import KafkaError

    return KafkaError._TIMED_OUT, KafkaError._TRANSPORT  # noqa: SLF001 - documented constants


_Key = tuple[int, tuple[tuple[str, str], ...]]
#: By process: a forked process does not use its parent's.
_kept: dict[_Key, Kept] = {}


def kept_for(client: Mapping[str, str]) -> Kept:
    """Return the client and the cached facts that this process keeps for a cluster.

    Args:
        client: Settings of the client; with others, other topics may be visible.
    """
    key = (os.getpid(), tuple(sorted(client.items())))
    found = _kept.pop(key, None) or Kept(lambda: Brokers(client))
    for other in list(_kept)[: max(0, len(_kept) + 1 - _MOST_CLIENTS)]:
        _kept.pop(other, None)
    _kept[key] = found
    return found


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
        topics = kept_for(settings.client).find(
            settings.topics,
            timeout=settings.patience_s or ANSWER_TIMEOUT_S,
            keep_s=keep_s,
            old_timeout=ANSWER_TIMEOUT_S if settings.patience_s else None,
        )
    except _OF_A_TOPIC as error:
        if error.topic is None or error.topic != settings.dead_letter_topic:
            raise
        raise about_letters(error) from None
    if settings.topic:
        topics[settings.topic] = as_declared(topics[settings.topic], settings.compacted)
    if settings.dead_letter_topic and topics[settings.dead_letter_topic].compacted:
        raise setting_error(
            "a compacted dead-letter topic refuses records without a key: set its "
            "cleanup.policy to delete",
            topic=settings.dead_letter_topic,
            setting=DEAD_LETTER,
        )
    return topics


_OF_A_TOPIC = (e.UnknownTopicOrPartitionError, e.TopicAuthorizationFailedError)


def about_letters(error: e.KafkaGuardError) -> e.KafkaGuardError:
    """Add why the write needs a topic that the caller may not have named."""
    need = "it is the dead-letter topic that the policy needs (dead_letter.topic)"
    return errors.make(
        error.code or type(error),
        "; ".join(filter(None, (error.summary or error.broker_message, need))),
        topic=error.topic,
        api=error.api,
        verdict=error.verdict,
    )


def as_declared(topic: SinkTopic, compacted: bool | None) -> SinkTopic:
    """Return the facts about a topic, completed by what the caller declares.

    Raises:
        KafkaGuardError: The caller declares something else than the cluster says.
    """
    if compacted is None or topic.compacted == compacted:
        return topic
    if topic.compacted is None:
        return SinkTopic(
            topic.name, topic.partitions, compacted, topic.max_message_bytes
        )
    found = "compacted" if topic.compacted else "not compacted"
    raise setting_error(
        f"declared compacted={str(compacted).lower()}, and the topic is {found}",
        topic=topic.name,
        setting="compacted",
    )
