"""The settings of a write: a picklable value, made on the driver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from kafkaguard._common.arguments import read_address
from kafkaguard._common.topic_names import ALLOWED, can_be_a_topic
from kafkaguard_adapters.spark.client_config import client_config
from kafkaguard_adapters.spark.policy import (
    DEAD_LETTER,
    on_reject,
    policy_of,
    read_policy,
    warn_of_long_attempts,
)
from kafkaguard_adapters.spark.setting_errors import setting_error
from kafkaguard_policies.model.policy import ways_of_rejecting

if TYPE_CHECKING:
    from kafkaguard._errors import KafkaGuardError
    from kafkaguard._retries.machine import OnReject
    from kafkaguard_policies.retry_policy import RetryPolicy

_ADDRESSES = "host:port, with a comma between several; [::1]:9092 for IPv6"
#: The default of the longest attempt of the client, in seconds.
_DELIVERY_S = 120.0
#: librdkafka's longest wait for an answer, in seconds.
_LONGEST_S = 3600.0
_DELIVERY = ("delivery.timeout.ms", "message.timeout.ms")


@dataclass(frozen=True, slots=True)
class SinkSettings:
    """The settings of a write.

    Attributes:
        client: Settings of the producer, by librdkafka's names; never printed.
        document: The policy as text; a task parses it only after a failure.
        topic: The topic of all records, or None if the column ``topic`` names it.
        dead_letter_topic: The topic of refused records; None without one, or if its
            name depends on the column ``topic``.
        compacted: Whether the caller declares the topic compacted; None to look it up.
        max_record_bytes: The largest record (key, value and headers) in bytes; None for
            the topic's limit.
        report: A file to which the data source appends its reports, as JSON lines.
        refuses_null_keys: Whether records without a key are refused for a compacted
            topic.
        patience_s: In a stream, seconds that a look-up waits for an answer; None in a
            batch, which fails soon.
        deadline_s: The deadline of the caller's policy in seconds, which bounds all
            attempts at a task together; None if no policy was given.
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
    deadline_s: float | None = None

    @property
    def servers(self) -> str:
        """The brokers' addresses."""
        return self.client["bootstrap.servers"]

    @property
    def topics(self) -> list[str]:
        """The topics that must exist before the job starts."""
        return [name for name in (self.topic, self.dead_letter_topic) if name]

    @property
    def policy(self) -> RetryPolicy:
        """The policy, which decides about records that fail."""
        return policy_of(self.document)

    def of_stream(self) -> SinkSettings:
        """Return these settings for a stream, which waits for brokers that are down."""
        return replace(self, patience_s=min(self.policy.deadline, _LONGEST_S))

    def on_reject(self, error: KafkaGuardError) -> OnReject:
        """Return what the policy does with a record that is refused with this error."""
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
    """Check the settings together, and fill in the defaults.

    Raises:
        ClientConfigurationError: Something is missing, unknown or contradictory.
    """
    servers = check_servers(bootstrap_servers)
    check_type("compacted", compacted, bool | None, "True, False or None")
    check_number("max_record_bytes", max_record_bytes, "a number of bytes")
    check_type("config", config, Mapping | None, "a mapping of names to values")
    rules = read_policy(policy)
    dead_letter_topic = dead_letter_topic_of(rules, topic)
    check_topics(topic, dead_letter_topic)
    client = client_config(servers, _add_time_limit(config or {}, rules))
    if policy is not None:
        warn_of_long_attempts(rules, float(client["delivery.timeout.ms"]) / 1000)
    return SinkSettings(
        client=client,
        document=rules.model_dump_json(exclude_unset=True),
        topic=topic,
        dead_letter_topic=dead_letter_topic,
        compacted=compacted,
        max_record_bytes=max_record_bytes,
        report=report,
        refuses_null_keys=rules.null_key == "reject",
        deadline_s=None if policy is None else rules.deadline,
    )


def check_servers(servers: object) -> str:
    """Return the addresses, if all are valid.

    Raises:
        ClientConfigurationError: No address is given, or one cannot be parsed; the text
            names it.
    """
    name = "bootstrap_servers"
    if servers is None or servers == "":
        raise setting_error(
            "bootstrap_servers is missing: name the brokers' addresses "
            f"({_ADDRESSES}); for the data source the option is "
            "kafka.bootstrap.servers",
            setting=name,
        )
    if not isinstance(servers, str):
        text = f"bootstrap_servers is text, {_ADDRESSES}; not {type(servers).__name__}"
        raise setting_error(text, setting=name)
    addresses = [each.strip() for each in servers.split(",") if each.strip()]
    for address in addresses or [servers]:
        if read_address(address) is None:
            # The part before an @ may be a password.
            shown = address.rpartition("@")[2]
            text = f"bootstrap_servers: {shown!r} cannot be parsed: {_ADDRESSES}"
            raise setting_error(text, setting=name)
    return servers


def dead_letter_topic_of(policy: RetryPolicy, topic: str | None) -> str | None:
    """Return the topic of refused records; None if it depends on each record's topic.

    Args:
        policy: The policy.
        topic: The topic of all records, or None if a column names it.
    """
    if "dead_letter" not in ways_of_rejecting(policy):
        return None
    if topic is None and "{topic}" in policy.dead_letter.topic:
        return None
    return policy.dead_letter.topic_for(topic or "")


def _add_time_limit(config: Mapping[str, str], policy: RetryPolicy) -> dict[str, str]:
    """Limit an attempt of the client to the policy's time."""
    names = {str(name).lower().removeprefix("kafka.") for name in config}
    if names & set(_DELIVERY):
        return dict(config)
    seconds = min(_DELIVERY_S, policy.deadline, policy.attempt_timeout or _DELIVERY_S)
    return {**config, _DELIVERY[0]: str(max(1, round(seconds * 1000)))}


def check_number(name: str, number: int | None, wanted: str) -> None:
    """Check a number of bytes or tasks.

    Raises:
        ClientConfigurationError: The value is not an integer of at least 1, or None.
    """
    check_type(name, number, int | None, wanted)
    if number is not None and number < 1:
        raise setting_error(f"{name} must be 1 or more, not {number}", setting=name)


def check_topics(topic: str | None, dead_letter_topic: str | None) -> None:
    """Check the names of the topics.

    Raises:
        ClientConfigurationError: A name is not valid, or both are the same.
    """
    for name, text in (("topic", topic), (DEAD_LETTER, dead_letter_topic)):
        check_type(name, text, str | None, "the name of a topic")
        if text == "":
            advice = "name a topic, or leave it out"
            raise setting_error(f"{name} is empty: {advice}", setting=name)
        if text is not None and not can_be_a_topic(text):
            raise setting_error(
                f"{name}: {text!r:.80} is not a valid topic name: {ALLOWED}",
                setting=name,
            )
    if topic and topic == dead_letter_topic:
        raise setting_error(
            "topic and the policy's dead_letter.topic are the same",
            topic=topic,
            setting=DEAD_LETTER,
        )


def check_type(name: str, value: object, kind: Any, wanted: str) -> None:
    """Check the type of an argument.

    Raises:
        ClientConfigurationError: The value has another type; a bool is not a number.
    """
    is_flag = isinstance(value, bool) and kind == int | None
    if is_flag or not isinstance(value, kind):
        # The value is not shown: it may be a password in the wrong place.
        raise setting_error(
            f"{name} is {wanted}, not {type(value).__name__}", setting=name
        )
