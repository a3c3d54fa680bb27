"""The schedule of a policy's attempts: one row for each wait."""

from __future__ import annotations

import json
import random
from dataclasses import asdict, dataclass
from statistics import fmean, quantiles
from typing import TYPE_CHECKING, Any

from kafkaguard._common import arguments
from kafkaguard._errors import KafkaGuardError
from kafkaguard._errors.base import RETRIABLE_ACTIONS, Action, RuleInfo, Verdict
from kafkaguard._retries.backoff import draw_wait, worst_wait
from kafkaguard._retries.machine import CallContext, Ruling, Step, StopReason
from kafkaguard_policies.advice.explain import describe_step, first_step

if TYPE_CHECKING:
    from kafkaguard._errors.base import Written
    from kafkaguard_policies.running.rulings import RuledPolicy


@dataclass(frozen=True, slots=True)
class PreviewRow:
    """One wait. All values but ``attempt`` and ``reached`` are seconds.

    Attributes:
        attempt: The attempt that follows the wait.
        expected: The average wait.
        low: The 5th percentile of the wait.
        high: The 95th percentile of the wait.
        worst: The longest possible wait, unless the broker asks for a longer one.
        expected_elapsed: The average of the sum of the waits so far.
        worst_elapsed: The sum of the longest waits so far.
        reached: The share of schedules that reach this attempt before the deadline.
    """

    attempt: int
    expected: float
    low: float
    high: float
    worst: float
    expected_elapsed: float
    worst_elapsed: float
    reached: float


@dataclass(frozen=True, slots=True)
class Preview:
    """The waits of a policy, if the attempts themselves take no time.

    Attributes:
        policy: The policy's name.
        policy_id: The hash of its content.
        action: The kind of failure.
        deadline: Seconds that a call may take; infinite if unbounded.
        seed: The seed of the random numbers.
        runs: How many schedules were drawn.
        rows: The waits, in order.
        complete: Whether there is no wait beyond these rows.
        ending: Why there is no wait, or None if there is one.
    """

    policy: str
    policy_id: str
    action: Action
    deadline: float
    seed: int
    runs: int
    rows: tuple[PreviewRow, ...]
    complete: bool
    ending: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; an unbounded deadline is ``"unbounded"``."""
        deadline = "unbounded" if self.deadline == float("inf") else self.deadline
        return {**asdict(self), "deadline": deadline}

    def to_json(self) -> str:
        """Return the result of :meth:`to_dict` as JSON text, indented by two spaces."""
        return json.dumps(self.to_dict(), indent=2)

    def __str__(self) -> str:
        """Return a table."""
        head = (
            f"{self.policy} ({self.policy_id}): waits in seconds, if the verdict is "
            f"{self.action}"
        )
        if self.ending is not None:
            return f"{head}\n{self.ending}"
        columns = (
            "attempt  expected      5 %     95 %    worst  elapsed  (worst)  reached"
        )
        lines = [head, columns, *map(_format_row, self.rows)]
        if not self.complete:
            lines.append("    ...")
        return "\n".join(lines)


def _format_row(row: PreviewRow) -> str:
    waits = (row.expected, row.low, row.high, row.worst)
    sums = (row.expected_elapsed, row.worst_elapsed)
    numbers = "".join(f"{value:9.3f}" for value in (*waits, *sums))
    return f"{row.attempt:7d} {numbers}{row.reached:8.0%}"


def draw_preview(
    policy: RuledPolicy, action: Action, *, seed: int, runs: int, limit: int
) -> Preview:
    """Simulate schedules and summarise them; see ``RetryPolicy.preview``.

    Raises:
        TypeError: ``seed``, ``runs`` or ``limit`` is not a whole number.
        ValueError: ``runs`` is below 2, or ``limit`` below 1.
    """
    arguments.whole_number("preview(): seed", seed)
    arguments.whole_number("preview(): runs", runs, 2)  # no percentile of one number
    arguments.whole_number("preview(): limit", limit, 1)
    verdict = _make_verdict(action)
    ruling = policy.ruling(verdict, CallContext())
    step = first_step(policy, verdict, ruling)
    count = _count_waits(ruling) if step.kind == "again" else 0
    schedules = _draw_schedules(ruling, min(count, limit), seed=seed, runs=runs)
    rows = _summarise(ruling, schedules)
    ending = None
    if not rows:
        late = Step("stop", reason=StopReason.DEADLINE)
        ending = describe_step(ruling, late if step.kind == "again" else step)
    return Preview(
        policy.name,
        policy.policy_id,
        action,
        ruling.deadline,
        seed,
        runs,
        rows,
        complete=len(rows) < limit or count <= limit,
        ending=ending,
    )


def _make_verdict(action: Action) -> Verdict:
    """Make a verdict with an action only."""
    rule = RuleInfo(f"preview-{action}", "", "", "")
    written: Written = "maybe" if action is Action.IN_DOUBT else "no"
    return Verdict(action, action in RETRIABLE_ACTIONS, written, KafkaGuardError, rule)


def _count_waits(ruling: Ruling) -> int:
    waiting = ruling.action is Action.WAIT
    return ruling.max_waits if waiting else ruling.max_attempts - 1


def _draw_schedules(
    ruling: Ruling, count: int, *, seed: int, runs: int
) -> list[list[float]]:
    waiting = ruling.action is Action.WAIT
    draw = random.Random(seed).random  # noqa: S311 - a simulation, not a secret
    schedules = []
    for _ in range(runs):
        waits: list[float] = []
        for number in range(1, count + 1):
            previous = waits[-1] if waits and not waiting else 0.0
            waits.append(draw_wait(ruling.backoff, number, previous, draw))
        schedules.append(waits)
    return schedules


def _summarise(ruling: Ruling, schedules: list[list[float]]) -> tuple[PreviewRow, ...]:
    rows = []
    elapsed = [0.0] * len(schedules)
    worst_elapsed = 0.0
    for number, drawn in enumerate(zip(*schedules, strict=True), 1):
        elapsed = [before + wait for before, wait in zip(elapsed, drawn, strict=True)]
        reached = sum(time < ruling.deadline for time in elapsed) / len(elapsed)
        if not reached:
            break
        twentieths = quantiles(drawn, n=20)
        worst = worst_wait(ruling.backoff, number)
        worst_elapsed += worst
        row = PreviewRow(
            attempt=1 if ruling.action is Action.WAIT else number + 1,
            expected=fmean(drawn),
            low=max(min(drawn), twentieths[0]),
            high=min(max(drawn), twentieths[-1]),
            worst=worst,
            expected_elapsed=fmean(elapsed),
            worst_elapsed=worst_elapsed,
            reached=reached,
        )
        rows.append(row)
    return tuple(rows)
