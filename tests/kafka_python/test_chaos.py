"""kafka-python's producer, guarded, while brokers fail: what it tells is true."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


@pytest.mark.java
@pytest.mark.timeout(600)
def test_what_is_told_agrees_with_the_topics():
    """45 s of faults: nothing lost, twice, out of order, untrue, late or uncaught.

    In a process of its own, since kafka-python leaves sockets open whose connection was
    refused. ``KAFKAGUARD_CHAOS_SEED`` repeats a run.
    """
    seed = os.environ.get("KAFKAGUARD_CHAOS_SEED", "2026")
    program = [sys.executable, "-W", "ignore", "-m", "tests.chaos", "--seed", seed]
    ended = subprocess.run(
        program, capture_output=True, text=True, timeout=500, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "lost: 0" in ended.stdout
