"""The settings of a write: a picklable value, made on the driver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from kafkaguard._common.topic_names import ALLOWED, can_be_a_topic
from kafkaguard_adapters.spark.client_config import client_config
from kafkaguard_adapters.spark.driver.addresses import check_servers
from kafkaguard_adapters.spark.policy import (
    DEAD_LETTER,
    may,
    on_reject,
    policy_of,
    read_policy,
    tell_long_attempts,
)
from kafkaguard_adapters.spark.refusal import refuse

if TYPE_CHECKING:
    from kafkaguard._retries.machine import OnReject
    from kafkaguard.errors import KafkaGuardError
    from kafkaguard_policies import RetryPolicy

#: The most that an attempt of the client may take by default, in seconds.
_DELIVERY_S = 120.0
#: librdkafka waits no longer for an answer.
_LONGEST_S = 3600.0
_DELIVERY = ("delivery.timeout.ms", "message.timeout.ms")


@dataclass(frozen=True, slots=True)
class SinkSettings:
    """How records get from Spark to Kafka.

    Attributes:
        client: Settings of the producer, by librdkafka's names; never printed.
        document: The policy, as text: tasks read it only when something fails.
        topic: Where all records go; None if the column ``topic`` says it.
        dead_letter_topic: Where refused records go; None: nowhere, or the policy makes
            its name of the record's topic, which a column says.
        compacted: What the caller declares about the topic; None: look it up.
        max_record_bytes: The largest record, key, value and headers together, in bytes;
            None: as the topic says.
        report: A file that the data source appends its counts to, as JSON lines.
        refuses_null_keys: Whether a compacted topic is to get no record without a key.
        patience_s: Seconds that a question to the brokers waits for an answer, in a
            stream. None: a batch, which fails soon.
    """

    client: Mapping[str, str] = field(repr=False)
    document: str
    topic: str | None = None
    dead_letter_topic: str | None = None
    compacted: bool | None = None
    max_record_bytes: int | None = None
    report: str | None = None
    refuses_null_keys: bool = True
    patience_s: float | None = None

    @property
    def servers(self) -> str:
        """The brokers' addresses."""
        return self.client["bootstrap.servers"]

    @property
    def topics(self) -> list[str]:
        """The topics that must be there before anything starts."""
        return [name for name in (self.topic, self.dead_letter_topic) if name]

    @property
    def policy(self) -> RetryPolicy:
        """What happens to records that fail."""
        return policy_of(self.document)

    def of_stream(self) -> SinkSettings:
        """Return these for a stream: it waits for brokers that are away."""
        return replace(self, patience_s=min(self.policy.deadline, _LONGEST_S))

    def on_reject(self, error: KafkaGuardError) -> OnReject:
        """Return what the policy does with a record that is refused so."""
        return on_reject(self.policy, error)


def make_settings(
    bootstrap_servers: str | None,
    *,
    policy: Any = None,
    topic: str | None = None,
    compacted: bool | None = None,
    max_record_bytes: int | None = None,
    report: str | None = None,
    config: Mapping[str, str] | None = None,
) -> SinkSettings:
    """Check what belongs together, and fill in the defaults.

    Raises:
        ClientConfigurationError: Something is missing, unknown or contradictory.
    """
    servers = check_servers(bootstrap_servers)
    check_type("compacted", compacted, bool | None, "True, False or None")
    check_record_bytes(max_record_bytes)
    check_type("config", config, Mapping | None, "a mapping of names to values")
    rules = read_policy(policy)
    dead_letter_topic = dead_letter_topic_of(rules, topic)
    check_topics(topic, dead_letter_topic)
    client = client_config(servers, _with_time_limit(config or {}, rules))
    if policy is not None:
        tell_long_attempts(rules, float(client["delivery.timeout.ms"]) / 1000)
    return SinkSettings(
        client=client,
        document=rules.model_dump_json(exclude_unset=True),
        topic=topic,
        dead_letter_topic=dead_letter_topic,
        compacted=compacted,
        max_record_bytes=max_record_bytes,
        report=report,
        refuses_null_keys=rules.null_key == "reject",
    )


def dead_letter_topic_of(policy: RetryPolicy, topic: str | None) -> str | None:
    """Return where refused records go; None: nowhere, or each record's topic says it.

    Args:
        policy: The policy.
        topic: Where all records go; None if a column says it.
    """
    if not may(policy, "dead_letter"):
        return None
    if topic is None and "{topic}" in policy.dead_letter.topic:
        return None
    return policy.dead_letter.topic_for(topic or "")


def _with_time_limit(given: Mapping[str, str], policy: RetryPolicy) -> dict[str, str]:
    """Give the client no more time for an attempt than the policy does."""
    names = {str(name).lower().removeprefix("kafka.") for name in given}
    if names & set(_DELIVERY):
        return dict(given)
    seconds = min(_DELIVERY_S, policy.deadline, policy.attempt_timeout or _DELIVERY_S)
    return {**given, _DELIVERY[0]: str(max(1, round(seconds * 1000)))}


def check_record_bytes(most: int | None) -> None:
    """Check the largest record that the caller wants.

    Raises:
        ClientConfigurationError: It is no number, or less than 1.
    """
    check_type("max_record_bytes", most, int | None, "a number of bytes")
    if most is not None and most < 1:
        said = f"max_record_bytes is at least 1, not {most}"
        raise refuse(said, setting="max_record_bytes")


def check_topics(topic: str | None, dead_letter_topic: str | None) -> None:
    """Check the names of the topics that are written to.

    Raises:
        ClientConfigurationError: One is no name that a topic can have, or both are the
            same.
    """
    for name, text in (("topic", topic), (DEAD_LETTER, dead_letter_topic)):
        check_type(name, text, str | None, "the name of a topic")
        if text is not None:
            _check_name(name, text)
    if topic and topic == dead_letter_topic:
        raise refuse(
            "topic and the policy's dead_letter.topic are the same",
            topic=topic,
            setting=DEAD_LETTER,
        )


def _check_name(name: str, text: str) -> None:
    if text == "":
        raise refuse(f"{name} is empty: name a topic, or leave it out", setting=name)
    if not can_be_a_topic(text):
        raise refuse(
            f"{name}: {text!r:.80} is not a valid topic name: {ALLOWED}", setting=name
        )


def check_type(name: str, value: object, kind: Any, wanted: str) -> None:
    """Check what a caller without a type checker may have given.

    Raises:
        ClientConfigurationError: It is of another type; a bool is no number.
    """
    is_flag = isinstance(value, bool) and kind == int | None
    if is_flag or not isinstance(value, kind):
        # Not the value itself: it may be a password in the wrong place.
        raise refuse(f"{name} is {wanted}, not {type(value).__name__}", setting=name)
