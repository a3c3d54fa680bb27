"""Epochs with which successors lock out what dead producers have in flight."""

from __future__ import annotations

from typing import Final

#: Brokers give a producer no epoch above this one.
_LAST: Final = 32_767


class Epochs:
    """The epochs that successors of one producer have taken, by producer id.

    An epoch is taken once. If two producers had the same id and epoch, both would
    number their batches from 0, and a broker would take a batch of the second for a
    copy of one of the first: it would answer that it was written, and drop it.
    """

    def __init__(self) -> None:
        self._newest: dict[int, int] = {}

    def take(self, producer_id: int, epoch: int) -> int | None:
        """Take an epoch that is above another one, and that no successor has had.

        Args:
            producer_id: The id.
            epoch: The newest epoch of the id that a producer is known to have.

        Returns:
            The epoch; None if there is none.
        """
        newest = max(epoch, self._newest.get(producer_id, epoch))
        if newest >= _LAST:
            return None
        self._newest[producer_id] = newest + 1
        return newest + 1
