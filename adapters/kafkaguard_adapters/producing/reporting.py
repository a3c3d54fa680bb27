"""Base class of producer shells: reports facts about batches to the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkaguard._delivery.facts import Answer, Batch
    from kafkaguard._delivery.records import Record
    from kafkaguard._delivery.shell import FactSink


class ReportingShell:
    """Base class: a shell that reports to its driver, which listens later."""

    _facts: FactSink

    def listen(self, facts: FactSink) -> None:
        """Report each batch from now on."""
        self._facts = facts
        self.begin_reporting()

    def attach(self, record: Record) -> None:
        """Do nothing: for a client whose futures need not know that a record failed."""

    def take_back(self, behind: Batch) -> None:
        """Do nothing: for a client without ``Traits.takes_back``."""

    def answers(self, batches: Sequence[Batch]) -> Mapping[Batch, Answer]:  # noqa: ARG002 - see below
        """Return no answers: for a client without ``Traits.hears_late``."""
        return {}

    def delivered(self) -> Mapping[Batch, int]:
        """Return no counts: for a client whose batches are counted when they end."""
        return {}

    def begin_reporting(self) -> None:
        """Install hooks in the client, if they are needed to observe its batches."""
