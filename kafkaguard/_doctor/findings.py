"""A finding: what is wrong, where, by what evidence, and what to do."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Severity(StrEnum):
    """How grave a finding is."""

    BAD = "bad"
    """Something fails, or records are lost."""
    RISKY = "risky"
    """The next fault makes something fail, or lose records."""
    FINE = "fine"
    """It was judged, and nothing is wrong."""
    NOT_JUDGED = "not judged"
    """A right, a version or a second look is missing."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check has found.

    Attributes:
        check: The name of the check, such as ``topic-no-leader``.
        severity: How grave it is.
        place: The topic, partition, group, broker or setting.
        evidence: What shows it, with numbers.
        leads_to: What happens because of it.
        advice: What to do, in words.
        command: What to type; None if no command does it.
    """

    check: str
    severity: Severity
    place: str
    evidence: str
    leads_to: str = ""
    advice: str = ""
    command: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the attributes, as ``--json`` prints them."""
        return asdict(self)


_ORDER = tuple(Severity)


BAD, RISKY = Severity.BAD, Severity.RISKY


def not_judged(check: str, place: str, why: str) -> Finding:
    """Return the finding of a check that could not judge."""
    return Finding(check, Severity.NOT_JUDGED, place, why)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All findings about a cluster.

    Attributes:
        findings: The gravest ones first.
        taken_at: When it was made, in seconds since 1970.
        seconds: How long that took.
    """

    findings: tuple[Finding, ...]
    taken_at: float
    seconds: float

    @property
    def worst(self) -> Severity:
        """The severity of the gravest finding."""
        return self.findings[0].severity if self.findings else Severity.FINE

    def of(self, severity: Severity) -> tuple[Finding, ...]:
        """Return the findings of a severity."""
        return tuple(each for each in self.findings if each.severity is severity)

    def to_dict(self) -> dict[str, Any]:
        """Return the attributes, as ``--json`` prints them."""
        return {
            "taken_at": self.taken_at,
            "seconds": self.seconds,
            "worst": self.worst,
            "findings": [each.to_dict() for each in self.findings],
        }


def sort_findings(findings: list[Finding]) -> tuple[Finding, ...]:
    """Sort findings: the gravest first, then by check and place."""

    def rank(each: Finding) -> tuple[int, str, str]:
        return _ORDER.index(each.severity), each.check, each.place

    return tuple(sorted(findings, key=rank))
