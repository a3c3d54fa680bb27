"""Retry policies, their sources, and presets."""

from kafkaguard._consuming.events import (
    CommitFailedEvent,
    OffsetResetEvent,
    PartitionResumesEvent,
    PartitionWaitsEvent,
    ReadFailedEvent,
)
from kafkaguard._retries.breaker import BreakerOpenError, BreakerState
from kafkaguard._retries.events import (
    AttemptEvent,
    BreakerEvent,
    BudgetEvent,
    DeadLetterEvent,
    Event,
    EventHook,
    GiveUpEvent,
    RecreateEvent,
    RefreshEvent,
    RejectEvent,
    ReloadEvent,
    RetryEvent,
    WaitEvent,
    emit,
)
from kafkaguard._retries.machine import CallContext, Ruling, Step, StopReason
from kafkaguard_policies.advice.explain import explain_ruling
from kafkaguard_policies.advice.ineffective_settings import doubts
from kafkaguard_policies.advice.preview import Preview
from kafkaguard_policies.advice.schedule import PreviewRow
from kafkaguard_policies.advice.stacking import (
    Finding,
    StackingError,
    StackingWarning,
    check_stacking,
    report_stacking,
)
from kafkaguard_policies.model.policy import (
    Backoff,
    Breaker,
    Budget,
    DeadLetter,
    Override,
    When,
)
from kafkaguard_policies.model.problems import PolicyError, Problem
from kafkaguard_policies.model.schema import policy_schema
from kafkaguard_policies.reading.reload import PolicyWatcher
from kafkaguard_policies.reading.sources import load_policy, preset_text, presets
from kafkaguard_policies.retry_policy import RetryPolicy
from kafkaguard_policies.running.decorator import retry
from kafkaguard_policies.running.outcome import Attempt, Outcome, outcome_of
from kafkaguard_policies.running.retried_call import RetriedCall
from kafkaguard_policies.running.retrier import Retrier
from kafkaguard_policies.running.testing import RetryTesting, retry_testing

__all__ = [
    "Attempt",
    "AttemptEvent",
    "Backoff",
    "Breaker",
    "BreakerEvent",
    "BreakerOpenError",
    "BreakerState",
    "Budget",
    "BudgetEvent",
    "CallContext",
    "CommitFailedEvent",
    "DeadLetter",
    "DeadLetterEvent",
    "Event",
    "EventHook",
    "Finding",
    "GiveUpEvent",
    "OffsetResetEvent",
    "Outcome",
    "Override",
    "PartitionResumesEvent",
    "PartitionWaitsEvent",
    "PolicyError",
    "PolicyWatcher",
    "Preview",
    "PreviewRow",
    "Problem",
    "ReadFailedEvent",
    "RecreateEvent",
    "RefreshEvent",
    "RejectEvent",
    "ReloadEvent",
    "RetriedCall",
    "Retrier",
    "RetryEvent",
    "RetryPolicy",
    "RetryTesting",
    "Ruling",
    "StackingError",
    "StackingWarning",
    "Step",
    "StopReason",
    "WaitEvent",
    "When",
    "check_stacking",
    "doubts",
    "emit",
    "explain_ruling",
    "load_policy",
    "outcome_of",
    "policy_schema",
    "preset_text",
    "presets",
    "report_stacking",
    "retry",
    "retry_testing",
]
