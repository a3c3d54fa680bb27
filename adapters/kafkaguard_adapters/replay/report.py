"""What a replay would do, and what it did."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields
from typing import Any

#: Reasons for which a letter is left in the dead-letter topic.
NOT_SELECTED = "not selected"
FIX_FAILED = "fix raised an exception"
NO_TOPIC = "no header names its topic"
OWN_TOPIC = "it names the dead-letter topic itself"
CUT = "its value was cut"


@dataclass(slots=True)
class ReplayPlan:
    """What a replay would send, of the letters that are there now.

    Attributes:
        topic: The dead-letter topic.
        group: The consumer group whose position says what remains.
        letters: The letters from that position on.
        selected: Those that the replay takes.
        reasons: The letters by reason.
        topics: The letters that it takes, by the topic to which they go.
        errors: The letters by error.
        refused: The letters that would be refused again now, by why.
        largest_transaction: The most letters of one transaction. More than 1,000 means
            that letters of a key stand in another order than their records.
        remarks: What should be known before it starts.
    """

    topic: str
    group: str
    letters: int = 0
    selected: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    topics: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    largest_transaction: int = 0
    remarks: list[str] = field(default_factory=list)


@dataclass(slots=True)
class ReplayReport:
    """What a replay did.

    Attributes:
        plan: What it found when it started.
        replayed: Letters whose record was sent and committed.
        dropped: Letters that ``fix`` dropped.
        left: Letters that were appended to the dead-letter topic again, by why.
        back: Replayed records that became letters again while it ran. The count can be
            too low: what comes back after its end is not seen.
        remaining: Letters that it did not reach; they are where they were.
        aborted: Transactions that were aborted and made again.
        stopped: Why it ended before the last letter; None if it did not.
        exit_code: 0: every letter was replayed or dropped, 1: some are left, 3: stopped
            since letters came back.
    """

    plan: ReplayPlan
    replayed: int = 0
    dropped: int = 0
    left: Counter[str] = field(default_factory=Counter)
    back: int = 0
    remaining: int = 0
    aborted: int = 0
    stopped: str | None = None
    came_back: bool = False

    @property
    def exit_code(self) -> int:
        """Return the exit code of the command."""
        if self.came_back:
            return 3
        return 1 if self.left or self.remaining else 0

    def to_dict(self) -> dict[str, Any]:
        """Return all fields, as ``--json`` prints them."""
        data, plan = (
            {each.name: getattr(one, each.name) for each in fields(one)}
            for one in (self, self.plan)
        )
        return {**data, "plan": plan, "exit_code": self.exit_code}
