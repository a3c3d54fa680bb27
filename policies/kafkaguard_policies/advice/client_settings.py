"""A policy as settings of a producer: what the client's own retries then obey.

Only the client's own retries keep sequence numbers, so they cannot write a batch twice.
So a policy becomes settings of the client where that is possible, and the guard does
the rest. All settings have Kafka's names, with dots, and are in milliseconds.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafkaguard_policies.model.policy import PolicyDocument

#: The largest number that the clients accept.
MOST: Final = 2_147_483_647
#: The largest wait between two attempts, and the largest request timeout, of
#: librdkafka.
_MOST_BACKOFF: Final = 300_000
_MOST_REQUEST: Final = 900_000
#: Into how many parts a deadline is divided, so that a request without an answer is
#: repeated before the deadline.
_PARTS: Final = 4
#: The most requests on their way with which Kafka allows idempotence.
_MOST_IN_FLIGHT: Final = 5

#: The settings that a policy becomes, with the defaults of each client.
DEFAULTS: Final[dict[str, dict[str, Any]]] = {
    "confluent-kafka": {
        "delivery.timeout.ms": 300_000,
        "request.timeout.ms": 30_000,
        "retry.backoff.ms": 100,
        "retry.backoff.max.ms": 1_000,
        "retries": MOST,
    },
    "kafka-python": {
        "delivery.timeout.ms": 120_000,
        "request.timeout.ms": 30_000,
        "retry.backoff.ms": 100,
        "retries": math.inf,
        "max.block.ms": 60_000,
    },
    "aiokafka": {"request.timeout.ms": 40_000, "retry.backoff.ms": 100},
}
#: The setting that limits the time of a record.
_TIME_OF_RECORD: Final = {"aiokafka": "request.timeout.ms"}
_DELIVERY: Final = "delivery.timeout.ms"


class Translation(NamedTuple):
    """A setting of a policy, as a setting of a client.

    Attributes:
        setting: The policy's setting: ``deadline``.
        wanted: Its value, in seconds or as a count.
        name: The client's setting: ``delivery.timeout.ms``.
        value: The value that the policy gives it.
        usual: The client's default.
        is_bound: Whether a smaller value of the client's contradicts nothing: the guard
            makes further attempts, or waits for less.
    """

    setting: str
    wanted: float
    name: str
    value: Any
    usual: Any
    is_bound: bool = True


def translations(
    policy: PolicyDocument, client: str, settings: Mapping[str, Any]
) -> Iterator[Translation]:
    """Translate a policy.

    Args:
        policy: The policy. Its overrides are for the guard only.
        client: The library.
        settings: What the application has set, or all that the client has. ``linger``,
            idempotence and transactions among them change what is possible.
    """
    usual = DEFAULTS[client]
    of_record = _TIME_OF_RECORD.get(client, _DELIVERY)
    delivery = _delivery_ms(policy, client, settings)

    def row(setting: str, wanted: float, name: str, value: Any, **more: Any) -> Any:
        return Translation(setting, wanted, name, value, usual[name], **more)

    yield row("deadline", policy.deadline, of_record, delivery)
    if of_record == _DELIVERY:
        request = _request_ms(policy, settings, delivery, usual["request.timeout.ms"])
        limit = policy.attempt_timeout
        is_own = limit is not None
        yield row(
            "attempt_timeout" if is_own else "deadline",
            policy.deadline if limit is None else limit,
            "request.timeout.ms",
            request,
        )
    if "max.block.ms" in usual:
        yield row("deadline", policy.deadline, "max.block.ms", _ms(policy.deadline))
    waits = policy.backoff
    base = min(_MOST_BACKOFF, max(1, _ms(waits.base)))
    yield row("backoff.base", waits.base, "retry.backoff.ms", base, is_bound=False)
    if "retry.backoff.max.ms" in usual:
        cap = min(_MOST_BACKOFF, max(1, _ms(waits.cap)))
        yield row("backoff.cap", waits.cap, "retry.backoff.max.ms", cap, is_bound=False)
    if "retries" in usual and not is_idempotent(client, settings):
        retries = min(MOST, policy.max_attempts - 1)
        yield row("max_attempts", policy.max_attempts, "retries", retries)


def is_idempotent(client: str, settings: Mapping[str, Any]) -> bool:
    """Return whether a producer with these settings numbers its records.

    kafka-python's does by default, unless another setting excludes that.
    """
    if settings.get("transactional.id"):
        return True
    wished = settings.get("enable.idempotence")
    if wished is not None or client != "kafka-python":
        return str(wished).lower() in ("true", "1")
    in_flight = _number(settings, "max.in.flight.requests.per.connection", 1)
    return (
        settings.get("acks", -1) in (-1, "all")
        and settings.get("retries") != 0
        and in_flight <= _MOST_IN_FLIGHT
    )


def _number(settings: Mapping[str, Any], name: str, usual: float = 0) -> int:
    """Read a number; a value that is none is left to the client, which refuses it."""
    try:
        return int(float(settings.get(name, usual)))
    except (OverflowError, TypeError, ValueError):
        return int(usual)


def _ms(seconds: float) -> int:
    return MOST if seconds == math.inf else min(MOST, round(seconds * 1000))


def _delivery_ms(
    policy: PolicyDocument, client: str, settings: Mapping[str, Any]
) -> int:
    """Return the time of a record that the client accepts with its other settings."""
    wanted = _ms(policy.deadline)
    linger = _number(settings, "linger.ms")
    if client == "kafka-python":  # refuses a shorter one
        wanted = max(wanted, linger + _number(settings, "request.timeout.ms", 1))
    elif client == "confluent-kafka":
        wanted = max(wanted, linger + 1)
        if settings.get("transactional.id"):
            wanted = min(wanted, _number(settings, "transaction.timeout.ms", 60_000))
    return wanted


def _request_ms(
    policy: PolicyDocument, settings: Mapping[str, Any], delivery: int, usual: int
) -> int:
    """Return the time of a request, of which a record's time should have several."""
    delivery = _number(settings, _DELIVERY, delivery) or MOST
    longest = max(1, delivery - _number(settings, "linger.ms"))
    wanted = min(usual, longest // _PARTS)
    if policy.attempt_timeout is not None:
        wanted = min(_ms(policy.attempt_timeout), longest, _MOST_REQUEST)
    return max(1, wanted)


def added_settings(
    policy: PolicyDocument, client: str, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the settings that a policy adds to those of an application.

    Args:
        policy: The policy.
        client: The library.
        settings: What the application has set; nothing of it changes.
    """
    rows = translations(policy, client, settings)
    return {row.name: row.value for row in rows if row.name not in settings}


def overruled(
    policy: PolicyDocument,
    usual_policy: PolicyDocument,
    client: str,
    settings: Mapping[str, Any],
) -> Iterator[tuple[Translation, Any]]:
    """Find the settings of a client that overrule a policy.

    Two defaults overrule nothing, because the user chose neither.

    Args:
        policy: The policy.
        usual_policy: The policy that applies if the user names none.
        client: The library.
        settings: All settings of the client that are known.

    Yields:
        What the policy wants, and the value of the client's setting.
    """
    usual = {row.name: row for row in translations(usual_policy, client, settings)}
    # A coordinator resolves what is in doubt of a transaction.
    skipped = {_DELIVERY} if settings.get("transactional.id") else set()
    if client != "aiokafka" and policy.attempt_timeout is None:
        skipped.add("request.timeout.ms")
    for row in translations(policy, client, settings):
        own = settings.get(row.name, row.value)
        is_usual = own == row.usual and row.wanted == usual[row.name].wanted
        is_same = own <= row.value if row.is_bound else own == row.value
        if row.name not in skipped and not (is_usual or is_same):
            yield row, own
