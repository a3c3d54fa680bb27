"""What a write needs to know: a plain, picklable value made on the driver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from kafkaguard._common.topic_names import ALLOWED, can_be_a_topic
from kafkaguard._retries.machine import InDoubt
from kafkaguard_adapters.spark.client_config import client_config
from kafkaguard_adapters.spark.driver.addresses import check_servers
from kafkaguard_adapters.spark.refusal import refuse

OnReject = Literal["raise", "dead_letter"]


@dataclass(frozen=True, slots=True)
class SinkSettings:
    """How records get from Spark to Kafka.

    Attributes:
        client: Settings of the producer, by librdkafka's names; never printed.
        topic: Where all records go; None if the column ``topic`` says it.
        dead_letter_topic: Where refused records go.
        on_reject: ``"raise"``, and so fail the job, for a record that can never be
            accepted, or ``"dead_letter"`` it.
        in_doubt: ``"raise"``, and so fail the job, for a record that may or may not
            have been written, ``"report"`` it and go on, or ``"resend"`` it.
        compacted: What the caller declares about the topic; None: look it up.
        max_record_bytes: The largest record, key, value and headers together, in bytes;
            None: as the topic says.
        report: A file that the data source appends its counts to, as JSON lines.
        patience_s: Seconds that a question to the brokers waits for an answer, in a
            stream. None: a batch, which fails soon.
    """

    client: Mapping[str, str] = field(repr=False)
    topic: str | None = None
    dead_letter_topic: str | None = None
    on_reject: OnReject = "raise"
    in_doubt: InDoubt = "raise"
    compacted: bool | None = None
    max_record_bytes: int | None = None
    report: str | None = None
    patience_s: float | None = None

    @property
    def servers(self) -> str:
        """The brokers' addresses."""
        return self.client["bootstrap.servers"]

    @property
    def topics(self) -> list[str]:
        """The topics that must be there before anything starts."""
        return [name for name in (self.topic, self.dead_letter_topic) if name]


def make_settings(  # noqa: PLR0913 - one for each attribute
    bootstrap_servers: str | None,
    *,
    topic: str | None = None,
    dead_letter_topic: str | None = None,
    on_reject: str | None = None,
    in_doubt: str | None = None,
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
    check_topics(topic, dead_letter_topic)
    reject = on_reject or ("dead_letter" if dead_letter_topic else "raise")
    _one_of("on_reject", reject, get_args(OnReject))
    _one_of("in_doubt", in_doubt or "raise", get_args(InDoubt))
    if reject == "dead_letter" and not dead_letter_topic:
        raise refuse(
            "on_reject=dead_letter needs dead_letter_topic", setting="on_reject"
        )
    if reject == "raise" and dead_letter_topic:
        raise refuse(
            "dead_letter_topic is never used with on_reject=raise: drop one",
            setting="on_reject",
        )
    return SinkSettings(
        client=client_config(servers, config or {}),
        topic=topic,
        dead_letter_topic=dead_letter_topic,
        on_reject=reject,  # type: ignore[arg-type]  # checked above
        in_doubt=in_doubt or "raise",  # type: ignore[arg-type]  # checked above
        compacted=compacted,
        max_record_bytes=max_record_bytes,
        report=report,
    )


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
    for name, text in (("topic", topic), ("dead_letter_topic", dead_letter_topic)):
        check_type(name, text, str | None, "the name of a topic")
        if text is not None:
            _check_name(name, text)
    if topic and topic == dead_letter_topic:
        raise refuse(
            "topic and dead_letter_topic are the same",
            topic=topic,
            setting="dead_letter_topic",
        )


def _check_name(name: str, text: str) -> None:
    if text == "":
        raise refuse(f"{name} is empty: name a topic, or leave it out", setting=name)
    if not can_be_a_topic(text):
        raise refuse(
            f"{name}: no topic can be called {text!r:.80}: {ALLOWED}", setting=name
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


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        said = f"{name} is one of {', '.join(allowed)}, not {value!r}"
        raise refuse(said, setting=name)
