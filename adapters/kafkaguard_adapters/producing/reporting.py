"""Base class of producer shells: reports facts about batches to the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkaguard._delivery.facts import Answer, Batch, Place, Refusal


class ReportingShell:
    """Base class: stores the driver's callbacks."""

    def listen(
        self,
        *,
        began: Callable[[Batch], object],
        accepted: Callable[[Batch], object],
        failed: Callable[[Batch, Sequence[Refusal]], object],
        died: Callable[[BaseException, Place | None], object],
        fault: Callable[[str, BaseException], object],
    ) -> None:
        """Report each batch from now on.

        Args:
            began: Called when the client begins a batch.
            accepted: Called when the broker has accepted a batch.
            failed: Called when a batch has failed, with a refusal for each record.
            died: Called when the client has died, with the cause and, if it is known,
                the partition.
            fault: Called with a bug of the guard.
        """
        self._report_began, self._report_accepted = began, accepted
        self._report_failed, self._report_died = failed, died
        self._fault = fault
        self.begin_reporting()

    def take_back(self, behind: Batch) -> None:
        """Do nothing: for a client without ``Traits.takes_back``."""

    def answers(self, batches: Sequence[Batch]) -> Mapping[Batch, Answer]:  # noqa: ARG002 - see below
        """Return no answers: for a client without ``Traits.hears_late``."""
        return {}

    def begin_reporting(self) -> None:
        """Install hooks in the client, if they are needed to observe its batches."""
