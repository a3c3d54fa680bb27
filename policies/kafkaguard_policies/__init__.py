"""What the user decides: retry policies, where they come from, and presets."""

from kafkaguard._breaker import BreakerOpenError, BreakerState
from kafkaguard._engine import CallContext, Ruling, Step, StopReason
from kafkaguard._events import (
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
from kafkaguard_policies._decorator import retry
from kafkaguard_policies._doubts import doubts
from kafkaguard_policies._explain import explain_ruling
from kafkaguard_policies._models import (
    Backoff,
    Breaker,
    Budget,
    DeadLetter,
    Override,
    RetryPolicy,
    When,
)
from kafkaguard_policies._outcome import Attempt, Outcome, outcome_of
from kafkaguard_policies._preview import Preview, PreviewRow
from kafkaguard_policies._problems import PolicyError, Problem
from kafkaguard_policies._reload import PolicyWatcher
from kafkaguard_policies._retrier import Retrier
from kafkaguard_policies._schema import policy_schema
from kafkaguard_policies._session import Session
from kafkaguard_policies._sources import load_policy, preset_text, presets
from kafkaguard_policies._stacking import (
    Finding,
    StackingError,
    StackingWarning,
    check_stacking,
    report_stacking,
)
from kafkaguard_policies._testing import RetryTesting, retry_testing

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
    "DeadLetter",
    "DeadLetterEvent",
    "Event",
    "EventHook",
    "Finding",
    "GiveUpEvent",
    "Outcome",
    "Override",
    "PolicyError",
    "PolicyWatcher",
    "Preview",
    "PreviewRow",
    "Problem",
    "RecreateEvent",
    "RefreshEvent",
    "RejectEvent",
    "ReloadEvent",
    "Retrier",
    "RetryEvent",
    "RetryPolicy",
    "RetryTesting",
    "Ruling",
    "Session",
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
