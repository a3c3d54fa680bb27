"""What each setting of a policy became for a producer, and who obeys it."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from kafkaguard._common.public import public
from kafkaguard_adapters.policy_uses import PRODUCER, given_settings
from kafkaguard_policies.advice.client_settings import (
    DEFAULTS,
    added_settings,
    translations,
)
from kafkaguard_policies.model.fields import UNBOUNDED, UNBOUNDED_COUNT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafkaguard_adapters.building import Wish
    from kafkaguard_policies.advice.client_settings import Translation
    from kafkaguard_policies.retry_policy import RetryPolicy

_HEADINGS: Final = ("Setting", "Value", "Became", "Obeyed by")
#: Settings that the client's settings are not the whole of.
_RESENDS: Final = "the guard, for what it sends again"
#: What nothing of the client limits.
_BY_GUARD: Final = {
    "max_attempts": f"{_RESENDS}; the client tries until the deadline",
    "attempt_timeout": "nobody: the client has no such setting",
    "backoff.cap": f"{_RESENDS}; the client's waits do not grow",
}


@public("kafkaguard.policies")
@dataclass(frozen=True, slots=True)
class SettingInEffect:
    """One setting of a policy.

    Attributes:
        setting: Its name, such as ``backoff.base``.
        value: Its value in the policy, as text.
        became: The client's setting that it became, with its value in effect, as the
            client spells it; empty: none.
        obeyed_by: Who obeys it, in words.
    """

    setting: str
    value: str
    became: str
    obeyed_by: str


@public("kafkaguard.policies")
@dataclass(frozen=True, slots=True)
class PolicyInEffect:
    """What a policy became for a producer; a table when printed.

    Attributes:
        policy: The policy's name.
        client: The client library.
        settings: One for each setting.
    """

    policy: str
    client: str
    settings: tuple[SettingInEffect, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        """Return a table."""
        rows = [_HEADINGS, *(tuple(asdict(each).values()) for each in self.settings)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        padded = (
            "  ".join(
                cell.ljust(width) for cell, width in zip(row, widths, strict=True)
            )
            for row in rows
        )
        head = f"policy {self.policy}, producer of {self.client}"
        return "\n".join((head, *(line.rstrip() for line in padded)))


class GovernedProducer:
    """A guarded producer, which shows what its policy became."""

    _wish: Wish
    _library: str

    def policy_in_effect(self) -> PolicyInEffect:
        """Return what each setting of the policy became, and who obeys it.

        Returns:
            A table when printed.
        """
        return in_effect(self._wish.policy, self._library, self._wish.settings)


def in_effect(
    policy: RetryPolicy, client: str, settings: Mapping[str, Any] | None
) -> PolicyInEffect:
    """Return what a policy became for a producer.

    Args:
        policy: The policy.
        client: The library.
        settings: The producer's settings by Kafka's names; None: they are not known.
    """
    rows = (*_of_client(policy, client, settings), *_of_guard(policy))
    return PolicyInEffect(policy.name, client, rows)


def policy_for(policy: RetryPolicy, client: str) -> PolicyInEffect:
    """Return what a policy becomes for a producer that the guard builds.

    Args:
        policy: The policy.
        client: The library. Nothing else is set.
    """
    return in_effect(policy, client, added_settings(policy, client, {}))


def _of_client(
    policy: RetryPolicy, client: str, settings: Mapping[str, Any] | None
) -> Iterator[SettingInEffect]:
    values = {
        "deadline": _seconds(policy.deadline),
        "attempt_timeout": _seconds(policy.attempt_timeout),
        "max_attempts": _count(policy.max_attempts),
        "backoff.base": _seconds(policy.backoff.base),
        "backoff.cap": _seconds(policy.backoff.cap),
    }
    rows = list(translations(policy, client, settings or {}))
    for name, value in values.items():
        own = [row for row in rows if row.setting == name]
        for row in own:
            yield _translated(row, value, client, settings)
        if not own:
            is_default = name == "attempt_timeout" and policy.attempt_timeout is None
            by = "" if is_default else _BY_GUARD[name]
            yield SettingInEffect(name, value, "", by)


def _translated(
    row: Translation, value: str, client: str, settings: Mapping[str, Any] | None
) -> SettingInEffect:
    name = row.name if client == "confluent-kafka" else row.name.replace(".", "_")
    if settings is None:
        return SettingInEffect(
            row.setting, value, f"{name} = ?", "not known: give config= or factory="
        )
    own = settings.get(row.name, DEFAULTS[client][row.name])
    became = f"{name} = {_number(own)}"
    if own == row.value:
        by = "the client"
    elif row.name == "delivery.timeout.ms" and own < row.value:
        by = "the client for less, then the guard"
    elif row.is_bound and own < row.value:
        by = "the client, with less"
    else:
        by = f"nobody: overruled; {name} = {_number(row.value)} would do it"
    return SettingInEffect(row.setting, value, became, by)


def _of_guard(policy: RetryPolicy) -> Iterator[SettingInEffect]:
    """List what has no place in the client's settings."""
    done = {"name", "description", "deadline", "attempt_timeout", "max_attempts"}
    values = policy.model_dump(mode="json", exclude={*done, "overrides"})
    values["backoff"] = {
        k: v for k, v in values["backoff"].items() if k not in ("base", "cap")
    }
    given = given_settings(policy)
    for name, value in values.items():
        if name in PRODUCER or name in given:
            by = _RESENDS if name == "backoff" else _guard_or_nobody(name)
            yield SettingInEffect(name, _text(value), "", by)
    for name in sorted(each for each in given if each.startswith("overrides.")):
        field = name.partition(".")[2]
        count = sum(field in override.model_fields_set for override in policy.overrides)
        text = f"in {count} of {len(policy.overrides)}"
        yield SettingInEffect(name, text, "", _guard_or_nobody(name))


def _guard_or_nobody(name: str) -> str:
    return "the guard" if name in PRODUCER else "nobody: it is not for producers"


def _text(value: Any) -> str:
    if isinstance(value, dict):
        parts = (f"{name} {_text(each)}" for name, each in value.items() if each)
        return ", ".join(parts)
    if value is None:
        return "none"
    return value if isinstance(value, str) else json.dumps(value)


def _seconds(value: float | None) -> str:
    if value is None:
        return "none"
    return UNBOUNDED if value == math.inf else f"{value:g} s"


def _count(value: int) -> str:
    return UNBOUNDED if value == UNBOUNDED_COUNT else str(value)


def _number(value: Any) -> str:
    return f"{value:.12g}" if isinstance(value, (int, float)) else str(value)
