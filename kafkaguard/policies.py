"""The parts of a retry policy, and what calls under a policy tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaguard._common.public import exports

if TYPE_CHECKING:
    from kafkaguard._retries.breaker import BreakerState as BreakerState
    from kafkaguard._retries.machine import (
        CallContext as CallContext,
        Ruling as Ruling,
        StopReason as StopReason,
    )
    from kafkaguard_adapters.policy_in_effect import (
        PolicyInEffect as PolicyInEffect,
        SettingInEffect as SettingInEffect,
    )
    from kafkaguard_policies.advice.preview import (
        Preview as Preview,
        PreviewRow as PreviewRow,
    )
    from kafkaguard_policies.advice.stacking import (
        Finding as Finding,
        check_stacking as check_stacking,
    )
    from kafkaguard_policies.model.handler import Handler as Handler
    from kafkaguard_policies.model.policy import (
        Backoff as Backoff,
        Breaker as Breaker,
        Budget as Budget,
        DeadLetter as DeadLetter,
        LetterLimit as LetterLimit,
        Override as Override,
        OverrideCondition as OverrideCondition,
    )
    from kafkaguard_policies.model.problems import Problem as Problem
    from kafkaguard_policies.reading.reload import PolicyWatcher as PolicyWatcher
    from kafkaguard_policies.running.outcome import (
        Attempt as Attempt,
        Outcome as Outcome,
        outcome_of as outcome_of,
    )
    from kafkaguard_policies.running.testing import (
        RetryTesting as RetryTesting,
        retry_testing as retry_testing,
    )

exports(
    __name__,
    {
        "kafkaguard._retries.breaker": "BreakerState",
        "kafkaguard._retries.machine": "CallContext Ruling StopReason",
        "kafkaguard_adapters.policy_in_effect": "PolicyInEffect SettingInEffect",
        "kafkaguard_policies.advice.preview": "Preview PreviewRow",
        "kafkaguard_policies.advice.stacking": "Finding check_stacking",
        "kafkaguard_policies.model.handler": "Handler",
        "kafkaguard_policies.model.policy": (
            "Backoff Breaker Budget DeadLetter LetterLimit Override OverrideCondition"
        ),
        "kafkaguard_policies.model.problems": "Problem",
        "kafkaguard_policies.reading.reload": "PolicyWatcher",
        "kafkaguard_policies.running.outcome": "Attempt Outcome outcome_of",
        "kafkaguard_policies.running.testing": "RetryTesting retry_testing",
    },
)
