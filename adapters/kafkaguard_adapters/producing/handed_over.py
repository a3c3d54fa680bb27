"""The results of giving records to a client again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaguard._delivery.facts import HandOverStoppedError
from kafkaguard.errors import ClientTimeoutError

if TYPE_CHECKING:
    from collections.abc import Hashable

    from kafkaguard._delivery.records import Record


class HandedOver:
    """The results of giving records to the client.

    If the client timed out on a record, the next dead letters do not wait for the same
    timeout again: they fail with the same error.

    Attributes:
        handed: For each record, its new token, or the error.
    """

    def __init__(self) -> None:
        self.handed: list[Hashable | BaseException] = []
        self._late: BaseException | None = None

    def stop(self, left: int) -> None:
        """Give back the records that are left, as the machine asked for."""
        self.handed += (HandOverStoppedError() for _ in range(left))

    def skip_letter(self, record: Record) -> bool:
        """Fail a dead letter after a timeout; return whether that was done."""
        if self._late is None or not record.is_letter:
            return False
        self.handed.append(self._late)
        return True

    def not_taken(self, error: BaseException) -> None:
        """Keep the error of a record that the client did not take."""
        self.handed.append(error)
        self._late = error if isinstance(error, ClientTimeoutError) else None
