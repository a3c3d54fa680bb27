"""The policy and the errors of a simulation."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from kafkaguard._retries.machine import InDoubt, OnReject, Ruling
from kafkaguard._verdicts.classification import classify
from kafkaguard._verdicts.signals import signal_of
from kafkaguard.errors import KafkaGuardError, RecordPurgedError, for_code

if TYPE_CHECKING:
    from kafkaguard._delivery.dialects import Dialect
    from kafkaguard._delivery.shell import Rescue
    from kafkaguard._errors.base import Action, Verdict
    from kafkaguard._retries.machine import CallContext


@dataclass(frozen=True)
class Waits:
    """``backoff``."""

    kind: str = "exponential"
    base: float = 0.1
    factor: float = 2.0
    floor: float = 0.0
    cap: float = 5.0
    jitter: str = "full"
    honour_throttle: bool = True


@cache
def _ruling(
    action: Action,
    on_reject: OnReject,
    in_doubt: InDoubt,
    attempts: int,
    deadline: float,
) -> Ruling:
    backoff: Any = Waits()
    return Ruling(
        action,
        max_attempts=attempts,
        max_waits=attempts,
        deadline=deadline,
        backoff=backoff,
        in_doubt=in_doubt,
        on_reject=on_reject,
        cost=1.0,
    )


@dataclass(frozen=True)
class Limit:
    """``dead_letter.limit``."""

    ratio: float | None = None
    consecutive: int | None = None


@dataclass(frozen=True)
class Letters:
    """``dead_letter``."""

    limit: Limit | None = None
    headers: Dialect = "own"

    def topic_for(self, topic: str) -> str:
        """Return the dead-letter topic."""
        return f"{topic}.dlq"


@dataclass(frozen=True)
class PlainPolicy:
    """The policy of a simulation."""

    rescue: Rescue = "ordered"
    in_doubt: InDoubt = "raise"
    on_reject: OnReject = "raise"
    dead_letter: Letters = field(default_factory=Letters)
    name: str = "simulated"
    policy_id: str = "0"
    attempts: int = 1
    deadline: float = 1.0

    def ruling(
        self, verdict: Verdict, context: CallContext, error: Any = None
    ) -> Ruling:
        """Return the ruling of a policy without overrides."""
        return _ruling(
            verdict.action,
            self.on_reject,
            self.in_doubt,
            self.attempts,
            self.deadline,
        )


class PlainErrors:
    """Makes errors of kafkaguard's classes only."""

    client = "model"
    given_up = RecordPurgedError

    def make(
        self,
        error: int | type[KafkaGuardError],
        message: str | None = None,
        **place: Any,
    ) -> KafkaGuardError:
        """Make an error from a code or a class."""
        place.pop("theirs", None)
        cls = for_code(error) if isinstance(error, int) else error
        return cls(message, client=self.client, **place)

    def translate(
        self,
        original: Any,
        *,
        message: str | None = None,
        context: dict[str, Any] | None = None,
        verdict: Verdict | None = None,
        **place: Any,
    ) -> KafkaGuardError:
        """Make an error from what a client raised."""
        context = {"api": place.get("api") or "Produce", **(context or {})}
        verdict = verdict or classify(original, **context)
        signal = signal_of(original)
        code = signal.key if signal and isinstance(signal.key, int) else None
        return verdict.error_class(
            message, code=code, verdict=verdict, original=original, **place
        )
