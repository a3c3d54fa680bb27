"""Signals that end all runs of a process."""

from __future__ import annotations

import signal

from kafkaguard import stop_on_signals


def test_a_signal_stops_all_runs_and_a_second_one_does_what_it_did_before():
    """The handler of before comes back."""
    received = []
    before = signal.signal(signal.SIGUSR1, lambda *_: received.append(1))
    try:
        stopping = stop_on_signals((signal.SIGUSR1,))
        assert not stopping.is_set()
        signal.raise_signal(signal.SIGUSR1)
        assert stopping.is_set()
        assert received == []
        signal.raise_signal(signal.SIGUSR1)
        assert received == [1]
    finally:
        stopping.clear()
        signal.signal(signal.SIGUSR1, before)
