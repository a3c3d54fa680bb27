"""Client settings for Spark: from Java's names to librdkafka's.

Spark's options have Java's names (``kafka.sasl.jaas.config``), and the sink uses
librdkafka. Each name is passed on, translated, or refused with what to write instead.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kafkaguard._common.closest import did_you_mean
from kafkaguard_adapters.spark.setting_errors import setting_error
from kafkaguard_adapters.wire.client_settings import (
    ALIASES,
    SettingError,
    known_names,
    translate,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkaguard.errors import KafkaGuardError

_REFUSED = {
    "transactional.id": "Spark retries tasks and commits them one by one, so a "
    "transaction would not make the job exactly-once; leave it out",
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
_RANGE = re.compile(r"outside allowed range (\S+)")
_TOO_SMALL = "-2000000000"
#: Values that librdkafka does not list.
_CHOICES = {
    "compression.codec": "none, gzip, snappy, lz4, zstd",
    "compression.type": "none, gzip, snappy, lz4, zstd",
    "sasl.mechanism": "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER",
    "security.protocol": "PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL",
    "ssl.endpoint.identification.algorithm": "none, https",
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
_MISSING = re.compile(r"^(.*) (?:must be set$|is mandatory)")

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
    bare = _bare(given)
    for name, value in bare.items():
        _check(name, ALIASES.get(name, name), value)
    try:
        translated = translate(bare)
    except SettingError as error:
        raise _setting_error(error.name, _PLAIN_NAME.sub("kafka.", error.why)) from None
    if memory := translated.pop("buffer.memory", None):
        translated["queue.buffering.max.kbytes"] = _kilobytes(memory)
    idempotent = translated.get("enable.idempotence", "true").lower()
    if idempotent != "true":
        raise _setting_error("enable.idempotence", "without it a retry may write twice")
    merged = {**_DEFAULTS, **translated, **_FIXED, "bootstrap.servers": servers}
    _try_out(merged, translated)
    return merged


def _bare(given: Mapping[str, str]) -> dict[str, str]:
    """Return the settings without Spark's prefix."""
    bare: dict[str, str] = {}
    for written, value in given.items():
        if not isinstance(written, str):
            raise setting_error(
                "config: the name of a setting must be a string, not "
                f"{type(written).__name__}",
                setting="config",
            )
        name = written.lower().removeprefix("kafka.")
        if name in bare:
            raise _setting_error(name, "it is given twice: leave one out")
        bare[name] = str(value)
    return bare


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


def _kilobytes(value: str) -> str:
    if not value.strip().isdecimal():
        raise _setting_error("buffer.memory", "the value is not a number of bytes")
    return str(int(value) // 1024)


def _try_out(settings: Mapping[str, str], given: Mapping[str, str]) -> None:
    """Let librdkafka check the settings; errors name a given setting, not a default.

    librdkafka's text is not shown: it may contain a value, which may be a password.
    """
    said = _complaint(settings)
    if said is None:
        return
    if unknown := re.search(r'No such configuration property: "([^"]+)"', said):
        name = f"kafka.{unknown[1]}"
        raise setting_error(f"{name!r}: {_unknown(unknown[1])}", setting=name)
    for name, value in settings.items():
        alone = _complaint({**_BESIDE.get(name, {}), name: value})
        if alone is not None:
            raise _setting_error(name, _allowed(name, alone))
    if missing := _missing(said):
        names = " and ".join(f"kafka.{name}" for name in missing)
        text = f"{names}: missing, and the other settings need it"
        raise setting_error(text, setting=f"kafka.{missing[0]}")
    cured = [name for name in settings if _complaint(_without(settings, name)) is None]
    guilty = [name for name in cured if name in given and name != _SWITCH] or cured
    wrong = " or ".join(f"kafka.{name}" for name in guilty) or "the kafka.* settings"
    raise setting_error(
        f"{wrong}: the client refuses this value together with the other settings; see "
        "librdkafka's CONFIGURATION.md",
        setting=f"kafka.{guilty[0]}" if guilty else "config",
    )


def _unknown(name: str) -> str:
    known = known_names("java", "librdkafka")
    if name in known:
        return "the sink does not support this setting of Java's clients: leave it out"
    hint = did_you_mean(f"kafka.{name}", [f"kafka.{each}" for each in known])
    return f"Kafka's client has no such setting{hint}"


def _missing(said: str) -> list[str]:
    """Return the names of settings that librdkafka requires, without values."""
    found = _MISSING.match(said.removeprefix("Failed to create producer: "))
    names = found[1].replace("`", "").split(" and ") if found else []
    if "No provider for SASL mechanism" in said:
        names = ["sasl.mechanism"]
    return [name for name in names if re.fullmatch(r"[a-z.]+", name)]


def _allowed(name: str, said: str) -> str:
    """Describe a wrong value and the allowed ones, without the value."""
    if name in _CHOICES:
        return f"the value is one of {_CHOICES[name]}"
    if found := _RANGE.search(said):
        return f"the value is outside of {found[1]}"
    if "Expected bool" in said:
        return "the value is true or false"
    # For text that is not a number, librdkafka does not say the range; a number that
    # is too small makes it say the range.
    if found := _RANGE.search(_complaint({name: _TOO_SMALL}) or ""):
        return f"the value is not a number; allowed is {found[1]}"
    return "the client refuses the value; see librdkafka's CONFIGURATION.md"


def _complaint(settings: Mapping[str, str]) -> str | None:
    """Return librdkafka's error for the settings; no connection is made."""
    from confluent_kafka import KafkaException, Producer

    try:
        Producer(dict(settings), logger=silent_logger())
    except KafkaException as error:
        text: str = error.args[0].str()
        return text
    return None


def _without(settings: Mapping[str, str], name: str) -> dict[str, str]:
    return {key: value for key, value in settings.items() if key != name}


def silent_logger() -> object:
    """Return the logger of librdkafka's own lines, ``kafkaguard.spark.librdkafka``.

    It prints nothing unless the application configures logging: a broker that is down
    makes a hundred such lines, and one error of kafkaguard.
    """
    import logging

    logger = logging.getLogger("kafkaguard.spark.librdkafka")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    return logger


def _setting_error(name: str, why: str) -> KafkaGuardError:
    return setting_error(f"kafka.{name}: {why}", setting=f"kafka.{name}")
