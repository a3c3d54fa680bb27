"""Client settings for Spark: from Java's names to librdkafka's.

Spark's options have Java's names (``kafka.sasl.jaas.config``), and the sink uses
librdkafka. Each name is passed on, translated, or refused with what to write instead.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException, Producer

from kafkaguard._common.closest import did_you_mean
from kafkaguard_adapters.spark.setting_errors import setting_error
from kafkaguard_adapters.wire.client_settings import (
    ALIASES,
    SettingError,
    known_names,
    translate,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkaguard._errors import KafkaGuardError

_REFUSED = {
    "transactional.id": "Spark retries tasks and commits them one by one, so a "
    "transaction would not make the job exactly-once; leave it out, and name the write "
    "with exactly_once",
    "key.serializer": "the sink writes the bytes of the column key as they are",
    "value.serializer": "the sink writes the bytes of the column value as they are",
    "partitioner.class": (
        "the sink chooses partitions as Java's default partitioner does; to choose "
        "another, add a column partition"
    ),
    "interceptor.classes": "it names Java classes, and the sink is written in Python",
    "max.block.ms": "the sink waits as long as kafka.delivery.timeout.ms says",
    "delivery.report.only.error": "the sink needs it to count each record",
    "partitioner": (
        "records of a key must be in the partition that Java's clients choose"
    ),
}
#: Where a setting is named in a text without Spark's prefix ``kafka.``.
_PLAIN_NAME = re.compile(r"\b(?=(?:sasl|ssl)\.)")
_NO_LIMIT = re.compile(r"\s*[+-]?(0x)?0+\s*", re.IGNORECASE)
#: A value as long as this may be a password.
_SECRET = 4
#: Values that librdkafka does not list.
_CHOICES = {
    "compression.codec": "none, gzip, snappy, lz4, zstd",
    "compression.type": "none, gzip, snappy, lz4, zstd",
    "sasl.mechanism": "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER",
    "security.protocol": "PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL",
}
_SWITCH = "security.protocol"
#: Settings that librdkafka needs to check another setting alone.
_BESIDE = {
    _SWITCH: {"sasl.mechanism": "OAUTHBEARER"},
    "sasl.mechanism": {
        _SWITCH: "SASL_PLAINTEXT",
        "sasl.username": "any",
        "sasl.password": "any",
    },
    "ssl.keystore.location": {"ssl.keystore.password": "any"},
}
#: Defaults: fast, and idempotent.
_DEFAULTS = {
    "client.id": "kafkaguard-spark",
    "enable.idempotence": "true",
    "linger.ms": "20",
    "queue.buffering.max.kbytes": "131072",
    "queue.buffering.max.messages": "500000",
    "topic.metadata.propagation.max.ms": "10000",
}
_FIXED = {"partitioner": "murmur2_random"}


def client_config(servers: str, given: Mapping[str, str]) -> dict[str, str]:
    """Make librdkafka's settings from the user's.

    Args:
        servers: The brokers' addresses.
        given: Settings by their Kafka names, with or without Spark's prefix ``kafka.``.

    Returns:
        librdkafka's settings, as strings.

    Raises:
        ClientConfigurationError: A setting cannot work here; the text says why.
    """
    settings = _remove_prefixes(given)
    for name, value in settings.items():
        _check(name, ALIASES.get(name, name), value)
    try:
        translated = translate(settings)
    except SettingError as error:
        raise _setting_error(error.name, _PLAIN_NAME.sub("kafka.", error.why)) from None
    if memory := translated.pop("buffer.memory", None):
        if not memory.strip().isdecimal():
            raise _setting_error("buffer.memory", "the value is not a number of bytes")
        translated["queue.buffering.max.kbytes"] = str(int(memory) // 1024)
    idempotent = translated.get("enable.idempotence", "true").lower()
    if idempotent != "true":
        raise _setting_error("enable.idempotence", "without it a retry may write twice")
    merged = {**_DEFAULTS, **translated, **_FIXED, "bootstrap.servers": servers}
    _try_out(merged)
    return merged


def _remove_prefixes(given: Mapping[str, str]) -> dict[str, str]:
    """Return the settings without Spark's prefix."""
    settings: dict[str, str] = {}
    for written, value in given.items():
        if not isinstance(written, str):
            raise setting_error(
                "config: the name of a setting must be a string, not "
                f"{type(written).__name__}",
                setting="config",
            )
        name = written.lower().removeprefix("kafka.")
        if name in settings:
            raise _setting_error(name, "it is given twice: leave one out")
        settings[name] = str(value)
    return settings


def _check(written: str, name: str, value: str) -> None:
    if name in _REFUSED:
        raise _setting_error(written, _REFUSED[name])
    if name == "bootstrap.servers":
        raise _setting_error(written, "it has an argument of its own: use that")
    if name == "acks" and value.strip() not in ("all", "-1"):
        raise _setting_error(
            written, "only acks=all reports the outcome of each record"
        )
    if name == "delivery.timeout.ms" and _NO_LIMIT.fullmatch(value):
        raise _setting_error(written, "0 would mean no limit: give at least 1")


def _try_out(settings: Mapping[str, str]) -> None:
    """Let librdkafka check each setting, then all together.

    Raises:
        ClientConfigurationError: librdkafka refuses a setting, or they do not fit.
    """
    error = _find_error(settings)
    if error is None:
        return
    if unknown := re.search(r'No such configuration property: "([^"]+)"', error):
        name = f"kafka.{unknown[1]}"
        raise setting_error(f"{name!r}: {_describe_unknown(unknown[1])}", setting=name)
    for name, value in settings.items():
        own_error = _find_error({**_BESIDE.get(name, {}), name: value})
        if own_error is not None:
            allowed = f" (one of {_CHOICES[name]})" if name in _CHOICES else ""
            own_error = re.sub(r'(property) "[^"]+"', rf'\1 "{name}"', own_error)
            raise _setting_error(name, f"{_hide(own_error, [value])}{allowed}")
    if "sasl.mechanism" not in settings and "SASL mechanism" in error:
        mechanisms = _CHOICES["sasl.mechanism"]
        raise _setting_error("sasl.mechanism", f"it is missing: one of {mechanisms}")
    names = [name for name in settings if name in error and name != _SWITCH]
    raise setting_error(
        f"the client refuses the settings: {_hide(error, settings.values())}",
        setting=f"kafka.{names[0]}" if names else "config",
    )


def _hide(text: str, values: Iterable[str]) -> str:
    """Return librdkafka's text without values, which may be passwords."""
    for value in sorted(values, key=len, reverse=True):
        if len(value) >= _SECRET:
            text = text.replace(value, "...")
    return text.strip()


def _describe_unknown(name: str) -> str:
    names = known_names("java", "librdkafka")
    if name in names:
        return "the sink does not support this setting of Java's clients: leave it out"
    hint = did_you_mean(f"kafka.{name}", [f"kafka.{each}" for each in names])
    return f"Kafka's client has no such setting{hint}"


def _find_error(settings: Mapping[str, str]) -> str | None:
    """Return librdkafka's error for the settings; no connection is made."""
    try:
        Producer(dict(settings), logger=silent_logger())
    except KafkaException as error:
        text: str = error.args[0].str()
        return text
    return None


def silent_logger() -> object:
    """Return the logger of librdkafka's own lines, ``kafkaguard.spark.librdkafka``.

    It prints nothing unless the application configures logging: a broker that is down
    makes a hundred such lines, and one error of kafkaguard.
    """
    logger = logging.getLogger("kafkaguard.spark.librdkafka")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    return logger


def _setting_error(name: str, why: str) -> KafkaGuardError:
    return setting_error(f"kafka.{name}: {why}", setting=f"kafka.{name}")
