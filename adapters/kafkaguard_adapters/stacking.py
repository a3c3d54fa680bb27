"""A policy beside a client's settings: what it adds, and what contradicts it."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from kafkaguard._common.logs import Log
from kafkaguard._errors.made import module_of
from kafkaguard_adapters.wire.client_settings import ALIASES
from kafkaguard_policies.advice.client_settings import DEFAULTS, added_settings
from kafkaguard_policies.advice.stacking import (
    OVERRULED,
    check_stacking,
    report_stacking,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkaguard_policies.advice.stacking import Finding
    from kafkaguard_policies.retry_policy import RetryPolicy

_log = Log("guard")

#: The settings to compare. kafka-python and aiokafka use underscores instead of dots.
_NAMES = (
    "acks",
    "retries",
    "enable.idempotence",
    "delivery.timeout.ms",
    "request.timeout.ms",
    "retry.backoff.ms",
    "retry.backoff.max.ms",
    "max.block.ms",
    "linger.ms",
    "max.in.flight.requests.per.connection",
    "max.poll.interval.ms",
    "session.timeout.ms",
    "transactional.id",
    "transaction.timeout.ms",
)
#: librdkafka's defaults.
_LIBRDKAFKA = {
    "producer": {
        **DEFAULTS["confluent-kafka"],
        "acks": -1,
        "enable.idempotence": False,
        "transaction.timeout.ms": 60_000,
    },
    "consumer": {"max.poll.interval.ms": 300_000, "session.timeout.ms": 45_000},
    "admin": {},
}
_WORDS = {"true": True, "false": False, "all": -1}


def with_policy(
    kind: type, home: str, config: Mapping[str, Any], policy: RetryPolicy
) -> dict[str, Any]:
    """Add a policy to the settings with which the guard builds a producer.

    Args:
        kind: The producer's class. One with an ``__init__`` of its own may not take
            the settings, so it gets none.
        home: The module that guards it.
        config: The application's settings; nothing of them changes.
        policy: The policy.
    """
    _, folder, role = home.split(".")
    is_dotted = folder == "confluent"
    maker = next(each for each in kind.__mro__ if "__init__" in vars(each))
    takes = (
        any("." in name for name in config)
        if is_dotted
        else module_of(maker).startswith(("kafka.", "aiokafka."))
    )
    if role != "producer" or not takes:
        return dict(config)
    own = {
        ALIASES.get(name, name) if is_dotted else name.replace("_", "."): value
        for name, value in config.items()
    }
    added = added_settings(policy, _READERS[folder][0], own)
    return {
        **config,
        **{n if is_dotted else _to_argument(n): v for n, v in added.items()},
    }


def compare(
    client: Any,
    home: str,
    config: Mapping[str, Any] | None,
    policy: RetryPolicy,
    *,
    strict: bool,
) -> Mapping[str, Any] | None:
    """Warn about settings that contradict the policy, or refuse them.

    If the settings cannot be read, a line is logged and no warning is issued, because
    the settings may be correct.

    Args:
        client: The client.
        home: The module that guards it: ``kafkaguard_adapters.<client>.<kind>``.
        config: The client's settings, if the user gave them.
        policy: The policy.
        strict: Raise an error, also if the settings cannot be read.

    Returns:
        The settings that were compared, by Kafka's names; None: they cannot be read.

    Raises:
        StackingError: ``strict`` is set, and a setting is not safe or cannot be read.
    """
    _, folder, kind = home.split(".")
    is_producer = kind == "producer"
    kind = kind.removeprefix("aio_")
    library, read = _READERS[folder]
    settings: Mapping[str, Any] | None = read(client, kind, config)
    findings = check_stacking(policy, settings, kind=kind, client=library)  # type: ignore[arg-type]  # a home's last part is a kind
    if settings is None and not strict:
        for finding in findings:
            _log.warning("settings_not_safe", "%s", finding, setting=finding.setting)
        return None
    if folder != "confluent":
        findings = tuple(map(_with_underscores, findings))
    overruled = tuple(each for each in findings if each.id == OVERRULED)
    others = tuple(each for each in findings if each.id != OVERRULED)
    report_stacking(
        findings if strict and is_producer else others, strict=strict, stacklevel=4
    )
    if overruled and is_producer:
        _warn_once(
            f"guard(): {'; '.join(map(str, overruled))}. Or let the policy set them: "
            "guard(factory=..., config={...}) without these settings"
        )
    return settings


@lru_cache(maxsize=256)
def _warn_once(text: str) -> None:
    """Log once in a process what settings overrule."""
    _log.warning("policy_overruled", "%s", text)


def _with_underscores(finding: Finding) -> Finding:
    """Spell settings as keyword arguments, so that users can copy them."""
    message = finding.message
    for name in _NAMES:
        message = message.replace(name, _to_argument(name))
    change = finding.change
    return replace(
        finding,
        setting=_to_argument(finding.setting),
        message=message,
        change=_to_argument(change) if change in _NAMES else change,
    )


def _to_argument(name: str) -> str:
    return name.replace(".", "_")


def _read_kafka_python(
    client: Any, _kind: str, _config: Mapping[str, Any] | None
) -> dict[str, Any]:
    config = client.config
    return {n: config[_to_argument(n)] for n in _NAMES if _to_argument(n) in config}


def _read_aiokafka(
    client: Any, kind: str, _config: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Read the settings from attributes of the client and of its parts."""
    values = {n: getattr(client, f"_{_to_argument(n)}", None) for n in _NAMES}
    settings = {name: value for name, value in values.items() if value is not None}
    if kind == "producer":
        transactions = client._txn_manager  # noqa: SLF001 - not public in aiokafka
        settings["retries"] = float("inf")  # no such setting; aiokafka always retries
        settings["enable.idempotence"] = transactions is not None
        settings["acks"] = client._sender._acks  # noqa: SLF001 - not public in aiokafka
        settings["retry.backoff.ms"] = client._sender._retry_backoff * 1000  # noqa: SLF001 - not public in aiokafka
        if transactions is not None and transactions.transactional_id:
            settings["transactional.id"] = transactions.transactional_id
            settings["transaction.timeout.ms"] = transactions.transaction_timeout_ms
    return settings


def read_confluent(
    _client: Any, kind: str, config: Mapping[str, Any] | None
) -> dict[str, Any] | None:
    """Read the settings that the user gave; the client does not expose its settings."""
    if config is None:
        return None
    settings: dict[str, Any] = dict(_LIBRDKAFKA[kind])
    for name, value in config.items():
        name = ALIASES.get(name, name)  # noqa: PLW2901 - one name for each setting
        if name in _NAMES:
            settings[name] = value if name == "transactional.id" else _parse(value)
    if settings.get("transactional.id"):  # librdkafka then enables idempotence itself
        settings["enable.idempotence"] = True
    if settings.get("delivery.timeout.ms") == 0:
        settings["delivery.timeout.ms"] = float("inf")
    return settings


def _parse(value: Any) -> Any:
    """Convert a value that is text, as librdkafka does."""
    if not isinstance(value, str):
        return value
    return _WORDS[value.lower()] if value.lower() in _WORDS else float(value)


_READERS: dict[str, tuple[str, Any]] = {
    "aiokafka": ("aiokafka", _read_aiokafka),
    "confluent": ("confluent-kafka", read_confluent),
    "kafka_python": ("kafka-python", _read_kafka_python),
}
