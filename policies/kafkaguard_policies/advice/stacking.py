"""Find conflicts between the policy and the client's own retries.

Adapters read the client's settings and pass them in by Kafka's names.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from kafkaguard._common import arguments
from kafkaguard._common.public import public
from kafkaguard._errors import ClientConfigurationError
from kafkaguard_policies.advice.client_settings import MOST, overruled
from kafkaguard_policies.model.policy import PolicyDocument

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafkaguard_policies.running.rulings import RuledPolicy

Kind = Literal["producer", "consumer", "admin"]

#: The id of findings about a setting that a policy would have another value for.
OVERRULED = "policy-overruled"
#: Defaults of clients and of policies, in seconds.
_USUAL_TRANSACTION_S, _USUAL_DEADLINE_S = 60, 120
#: As long as the clients accept, which is no limit.
_ENDLESS_S = MOST / 1000
#: The share of a group's or coordinator's time limit that a policy's waits may use.
_SHARE = 0.8


@dataclass(frozen=True, slots=True)
class Finding:
    """Two settings that contradict each other.

    Attributes:
        id: A stable name.
        setting: The client's setting, by Kafka's name.
        other: The setting that it contradicts, of the policy or of the client.
        message: What happens with both.
        change: The setting to change, or None if nothing could be compared.
        value: A value for it that works.
    """

    id: str
    setting: str
    other: str
    message: str
    change: str | None = None
    value: Any = None

    def __str__(self) -> str:
        """Return what happens and what to do."""
        if self.change is None:
            return self.message
        return f"{self.message}; {self.change} = {self.value} works"


@public("kafkaguard.errors")
class StackingWarning(UserWarning):
    """The policy and the client's own settings contradict each other."""


@public("kafkaguard.errors")
class StackingError(ClientConfigurationError, ValueError):
    """The policy and the client's settings contradict each other (``strict=True``).

    Attributes:
        findings: All that was found.
    """

    def __init__(self, findings: Sequence[Finding]) -> None:
        listed = "".join(f"\n  {finding}" for finding in findings)
        super().__init__(f"the policy and the client's settings clash:{listed}\n")
        self.findings = tuple(findings)


def check_stacking(
    policy: RuledPolicy,
    settings: Mapping[str, Any] | None,
    *,
    kind: Kind,
    client: str,
) -> tuple[Finding, ...]:
    """Compare a policy with the settings of a client.

    Args:
        policy: The policy.
        settings: The client's settings by Kafka's names (``delivery.timeout.ms``, in
            milliseconds), with the client's defaults; a missing setting is not
            compared. None if the settings cannot be read.
        kind: The kind of client.
        client: The library, for messages.

    Returns:
        The conflicts, each with a value that works.

    Raises:
        ValueError: There is no such kind, or no such client.
    """
    arguments.one_of("kind", kind, _CHECKS)
    arguments.one_of("client", client, _CLIENTS)
    if settings is None:
        return (_unreadable(client),)
    found = [each for check in _CHECKS[kind] for each in check(policy, settings)]
    if kind == "producer":
        found += _overruled(policy, settings, client)
    return tuple(found)


def report_stacking(
    findings: Sequence[Finding], *, strict: bool = False, stacklevel: int = 3
) -> None:
    """Warn about findings, or raise them.

    Args:
        findings: From ``check_stacking``.
        strict: Raise instead of warning.
        stacklevel: The stack level of the warning, as in ``warnings.warn``.

    Raises:
        StackingError: There are findings, and ``strict`` is true.
        TypeError: ``strict`` is not a bool, or ``stacklevel`` not a whole number.
    """
    arguments.flag("report_stacking(): strict", strict)
    arguments.whole_number("report_stacking(): stacklevel", stacklevel, 1)
    if strict and findings:
        raise StackingError(findings)
    for finding in findings:
        warnings.warn(str(finding), StackingWarning, stacklevel=stacklevel)


def _unreadable(client: str) -> Finding:
    return Finding(
        "settings-unreadable",
        "(all)",
        "(all)",
        f"the settings of a bare {client} client cannot be read, so they were not "
        "compared with the policy, and lag(), log_dirs() and look-ups of offsets will "
        "be refused: hand them over with config=, or let the guard build the client "
        "with factory=",
    )


def _read_seconds(settings: Mapping[str, Any], name: str) -> float | None:
    """Return a client setting in seconds, or None if it is unknown or not set."""
    value = settings.get(name)
    return None if value is None or value < 0 else value / 1000


def _retries_without_idempotence(
    _policy: RuledPolicy, settings: Mapping[str, Any]
) -> Iterator[Finding]:
    if settings.get("retries") and settings.get("enable.idempotence") is False:
        yield Finding(
            "retries-without-idempotence",
            "retries",
            "enable.idempotence",
            f"retries = {settings['retries']} without enable.idempotence: the client "
            f"itself may write a record twice, which no policy can prevent",
            "enable.idempotence",
            True,
        )


def _unacknowledged(
    _policy: RuledPolicy, settings: Mapping[str, Any]
) -> Iterator[Finding]:
    if settings.get("acks") == 0:
        yield Finding(
            "acks-none",
            "acks",
            "max_attempts",
            "with acks=0 the broker does not answer, so a record that it refused "
            "counts as delivered, and max_attempts of the policy never fires",
            "acks",
            "all",
        )


def _overruled(
    policy: RuledPolicy, settings: Mapping[str, Any], client: str
) -> Iterator[Finding]:
    for row, own in overruled(policy, PolicyDocument(), client, settings):
        yield Finding(
            OVERRULED,
            row.name,
            row.setting,
            f"{row.name} = {own:g} overrules {row.setting} = {row.wanted:g} of policy "
            f"{policy.name}",
            row.name,
            row.value,
        )


def _multiplied_waits(
    policy: RuledPolicy, settings: Mapping[str, Any]
) -> Iterator[Finding]:
    """Without a deadline each attempt may take as long as the client's limit."""
    if policy.deadline != float("inf") or policy.max_attempts == 1:
        return
    names = ("max.block.ms", "delivery.timeout.ms", "request.timeout.ms")
    seconds = {name: _read_seconds(settings, name) for name in names}
    limits = {n: s for n, s in seconds.items() if s is not None and s < _ENDLESS_S}
    if limits:
        name = max(limits, key=limits.__getitem__)
        yield Finding(
            "multiplied-waits",
            name,
            "max_attempts",
            f"{name} ({limits[name]:g} s) is waited for in each attempt, and with "
            f"deadline = unbounded max_attempts multiplies it",
            "deadline",
            2 * limits[name],
        )


def _request_outlasts_delivery(
    _policy: RuledPolicy, settings: Mapping[str, Any]
) -> Iterator[Finding]:
    request = _read_seconds(settings, "request.timeout.ms")
    delivery = _read_seconds(settings, "delivery.timeout.ms")
    if request is not None and delivery is not None and request >= delivery:
        yield Finding(
            "client-never-retries",
            "request.timeout.ms",
            "delivery.timeout.ms",
            f"request.timeout.ms ({request:g} s) uses up delivery.timeout.ms "
            f"({delivery:g} s), so the client's own retries never fire",
            "request.timeout.ms",
            int(delivery * 1000 / 4),
        )


def _request_outlasts_attempt(
    policy: RuledPolicy, settings: Mapping[str, Any]
) -> Iterator[Finding]:
    request, limit = (
        _read_seconds(settings, "request.timeout.ms"),
        policy.attempt_timeout,
    )
    if request is not None and limit is not None and request > limit:
        yield Finding(
            "attempt-ends-in-doubt",
            "request.timeout.ms",
            "attempt_timeout",
            f"request.timeout.ms ({request:g} s) is longer than attempt_timeout "
            f"({limit:g} s): attempts end in doubt before the client knows more",
            "request.timeout.ms",
            int(limit * 1000 * _SHARE),
        )


def _outlasts_transaction(
    policy: RuledPolicy, settings: Mapping[str, Any]
) -> Iterator[Finding]:
    limit = _read_seconds(settings, "transaction.timeout.ms")
    if limit == _USUAL_TRANSACTION_S and policy.deadline == _USUAL_DEADLINE_S:
        return  # the user chose neither
    if settings.get("transactional.id") and limit and policy.deadline >= limit:
        yield Finding(
            "coordinator-aborts-first",
            "transaction.timeout.ms",
            "deadline",
            f"the coordinator aborts the transaction after transaction.timeout.ms "
            f"({limit:g} s), while the policy tries for {policy.deadline:g} s",
            "deadline",
            _stay_below(limit),
        )


def _stay_below(limit: float) -> float:
    """Return seconds well below a limit, to the millisecond as clients count."""
    return round(limit * _SHARE, 3)


def _outlasts_poll(
    policy: RuledPolicy, settings: Mapping[str, Any]
) -> Iterator[Finding]:
    limit = _read_seconds(settings, "max.poll.interval.ms")
    if limit and policy.deadline >= limit:
        yield Finding(
            "rebalance-while-retrying",
            "max.poll.interval.ms",
            "deadline",
            f"the group takes the partitions away after max.poll.interval.ms "
            f"({limit:g} s) without a poll, while the policy tries for "
            f"{policy.deadline:g} s",
            "deadline",
            _stay_below(limit),
        )


def _outlasts_session(
    policy: RuledPolicy, settings: Mapping[str, Any]
) -> Iterator[Finding]:
    limit = _read_seconds(settings, "session.timeout.ms")
    if limit and policy.backoff.cap >= limit:
        yield Finding(
            "session-ends-while-waiting",
            "session.timeout.ms",
            "backoff.cap",
            f"one wait of backoff.cap ({policy.backoff.cap:g} s) may be longer than "
            f"session.timeout.ms ({limit:g} s): where the wait blocks the heartbeat, "
            f"the group rebalances",
            "backoff.cap",
            limit / 3,
        )


_COMMON = (_multiplied_waits, _request_outlasts_attempt)
_PRODUCER = (
    _retries_without_idempotence,
    _unacknowledged,
    _request_outlasts_delivery,
    _outlasts_transaction,
    _multiplied_waits,
)
_CONSUMER = (_outlasts_poll, _outlasts_session, *_COMMON)
_CHECKS = {"producer": _PRODUCER, "consumer": _CONSUMER, "admin": _COMMON}
_CLIENTS = ("kafka-python", "confluent-kafka", "aiokafka")
