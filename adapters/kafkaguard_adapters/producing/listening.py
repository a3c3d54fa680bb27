"""Whom a shell tells what happens to its batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkaguard._delivery.facts import Batch, Place, Refusal


class Heard:
    """A shell that is listened to: ``Shell.listen``, the same for every client."""

    def listen(
        self,
        began: Callable[[Batch], object],
        accepted: Callable[[Batch], object],
        failed: Callable[[Batch, Sequence[Refusal]], object],
        died: Callable[[BaseException, Place | None], object],
        fault: Callable[[str, BaseException], object],
    ) -> None:
        """Tell of each batch from now on."""
        self._began, self._accepted, self._failed = began, accepted, failed
        self._died, self._fault = died, fault
        self.begin_telling()

    def begin_telling(self) -> None:
        """Look at what the client does from now on, where that takes a hook."""
