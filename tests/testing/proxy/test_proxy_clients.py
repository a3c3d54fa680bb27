"""One code of each family, followed into each client."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.java


FOLDER = Path(__file__).parent


@pytest.mark.timeout(500)
def test_clients_do_what_was_recorded():
    """A new recording equals the one in the documentation, all 210 cells.

    In a process of its own, because some clients leave threads behind when they meet a
    fault. ``python -m tests.testing.proxy.record_clients --write`` records anew.
    """
    done = subprocess.run(
        [sys.executable, "-m", "tests.testing.proxy.record_clients"],
        capture_output=True,
        text=True,
        timeout=450,
    )
    assert done.returncode == 0, done.stderr
    recorded = (FOLDER / "recorded_clients.md").read_text().splitlines()
    assert done.stdout.splitlines() == recorded
    assert len(recorded) == 2 + 14 * 5
