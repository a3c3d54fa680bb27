"""The ruling of a policy for a verdict: the last override that matches."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property
from typing import TYPE_CHECKING, Any

from kafkaguard._errors.base import Action, Verdict
from kafkaguard._retries.machine import CallContext, Ruling
from kafkaguard_policies.model.policy import PolicyDocument, find_error_class

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaguard_policies.model.policy import Override, OverrideCondition

_MEMO_LIMIT = 10_000
_OVERRIDABLE = (
    *("max_attempts", "deadline", "backoff", "in_doubt", "on_reject", "cost"),
)
_Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Failure:
    """The facts that overrides select by."""

    verdict: Verdict
    code: int | None
    api: str | None
    topic: str | None
    client: str | None


class Rulings:
    """The rulings of one policy, made once for each kind of failure."""

    def __init__(self, policy: PolicyDocument) -> None:
        self._policy = policy
        self._overrides = [
            (index, override, _matcher(override.when))
            for index, override in enumerate(policy.overrides)
        ]
        self._memo: dict[_Key, Ruling] = {}
        self._plain = {action: self._make_plain(action) for action in Action}

    def ruling(self, failure: Failure) -> Ruling:
        """Return the policy's ruling for a failure."""
        verdict = failure.verdict
        where = (failure.code, failure.api, failure.topic, failure.client)
        key: _Key = (verdict.rule.id, verdict.error_class, *where)
        ruling = self._memo.get(key)
        if ruling is None:
            ruling = self._make(failure)
            if len(self._memo) < _MEMO_LIMIT:
                self._memo[key] = ruling
        return ruling

    def _make(self, failure: Failure) -> Ruling:
        for index, override, matches in reversed(self._overrides):
            if matches(failure):
                return self._override(failure.verdict.action, index, override)
        return self.plain(failure.verdict.action)

    def plain(self, action: Action) -> Ruling:
        """Return the policy's ruling without overrides."""
        return self._plain[action]

    def _make_plain(self, action: Action) -> Ruling:
        policy = self._policy
        return Ruling(
            action=action,
            max_attempts=policy.max_attempts,
            max_waits=policy.max_waits,
            deadline=policy.deadline,
            backoff=policy.backoff,
            in_doubt=policy.in_doubt,
            on_reject=policy.on_reject,
            cost=_cost(policy, action),
        )

    def _override(self, action: Action, index: int, override: Override) -> Ruling:
        """Apply an override to the policy's ruling; FENCED is never changed."""
        if override.action is not None and action is not Action.FENCED:
            action = Action(override.action)
        settings = {name: getattr(override, name) for name in _OVERRIDABLE}
        changes = {name: value for name, value in settings.items() if value is not None}
        return replace(self.plain(action), override=index, **changes)


def _cost(policy: PolicyDocument, action: Action) -> float:
    default = 0.0 if action is Action.WAIT else 1.0
    return default if policy.budget is None else policy.budget.cost.get(action, default)


def _matcher(when: OverrideCondition) -> Callable[[Failure], bool]:
    classes = tuple(find_error_class(name) for name in when.error)

    def matches(failure: Failure) -> bool:
        verdict = failure.verdict
        return (
            _is_listed(failure.code, when.code)
            and _is_listed(verdict.action, when.action)
            and _is_listed(verdict.rule.id, when.rule)
            and _is_listed(failure.api, when.api)
            and _is_listed(failure.client, when.client)
            and (not classes or issubclass(verdict.error_class, classes))
            and _matches_topic(failure.topic, when.topic)
        )

    return matches


def _is_listed(value: Any, allowed: tuple[Any, ...]) -> bool:
    return not allowed or value in allowed


def _matches_topic(topic: str | None, patterns: tuple[str, ...]) -> bool:
    if not patterns:
        return True
    return topic is not None and any(fnmatchcase(topic, p) for p in patterns)


def failure_of(verdict: Verdict, context: CallContext, error: Any) -> Failure:
    """Collect the facts that overrides select by."""
    from kafkaguard._verdicts.signals import signal_of

    signal = None if isinstance(error, int) else signal_of(error)
    code = error if isinstance(error, int) else verdict.error_class.code
    client = context.client
    if signal is not None:
        code = signal.key if isinstance(signal.key, int) else code
        client = client or signal.client
    return Failure(verdict, code, context.api, context.topic, client)


class RuledPolicy(PolicyDocument):
    """A policy with rulings for failures."""

    @cached_property
    def _rulings(self) -> Rulings:
        return Rulings(self)

    @cached_property
    def first_ruling(self) -> Ruling:
        """The ruling before the first failure."""
        return self._rulings.plain(Action.RETRY)

    def ruling(
        self, verdict: Verdict, context: CallContext, error: Any = None
    ) -> Ruling:
        """Return this policy's ruling for a failure.

        Args:
            verdict: What the failure means.
            context: Facts about the call.
            error: The exception or code, for overrides by code and client.
        """
        if not self.overrides:
            return self._rulings.plain(verdict.action)
        return self._rulings.ruling(failure_of(verdict, context, error))
