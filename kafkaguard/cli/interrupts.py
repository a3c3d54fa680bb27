"""Ctrl-C and SIGTERM end a command in the same way, with the exit code of a shell."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from types import FrameType


class Terminated(KeyboardInterrupt):
    """The process got SIGTERM."""


def sigterm_interrupts() -> None:
    """Let SIGTERM raise :class:`Terminated`, unless the process ignores it."""
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminate)


def _terminate(_number: int, _frame: FrameType | None) -> NoReturn:
    raise Terminated


def exit_code(interrupt: BaseException | None) -> int:
    """Return the exit code for an interrupt: 130, or 143 after SIGTERM."""
    number = signal.SIGTERM if isinstance(interrupt, Terminated) else signal.SIGINT
    return 128 + number
