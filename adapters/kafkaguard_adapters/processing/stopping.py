"""Signals that end all runs of a process."""

from __future__ import annotations

import signal
import threading
from typing import Any, Final

#: Set once a signal has asked all runs of this process to end.
STOPPING: Final = threading.Event()


def stop_on_signals(
    signals: tuple[int, ...] = (signal.SIGTERM, signal.SIGINT),
) -> threading.Event:
    """End all runs of ``process()`` when a signal arrives, with what is done committed.

    Call it once, in the main thread. A second signal does what it did before.

    Args:
        signals: Default: SIGTERM and SIGINT.

    Returns:
        An event that is set once a signal has arrived, for loops of your own.

    Raises:
        ValueError: It was not called in the main thread.
    """
    for number in signals:
        before = signal.getsignal(number)

        def stop(received: int, _: Any, before: Any = before) -> None:
            STOPPING.set()
            signal.signal(received, before or signal.SIG_DFL)

        signal.signal(number, stop)
    return STOPPING
