"""The page on testing keeps its promise: first the test fails, then it passes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from kafkaguard.testing import FaultProxy

pytestmark = pytest.mark.java


PAGE = Path(__file__).resolve().parents[2] / "docs" / "testing.md"


def _blocks(language):
    return re.findall(
        rf"^```{language}\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL
    )


@pytest.fixture
def run_pytest(tmp_path):
    """Run pytest over some blocks of the page."""

    def run(blocks):
        (tmp_path / "test_orders.py").write_text("\n".join(blocks))
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "test_orders.py"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=170,
        )
        return done.returncode, done.stdout + done.stderr

    return run


def test_the_first_two_blocks_fail_as_the_page_says(run_pytest):
    """Three refused requests are shown, and the reason is lost."""
    code, output = run_pytest(_blocks("python")[:2])
    assert code == 1
    assert "RuntimeError: the order could not be saved" in output
    assert output.count("-> INVALID_RECORD(87)") == 3


def test_with_the_repair_everything_passes(run_pytest):
    """The third block replaces the function; the fourth is a test as well."""
    code, output = run_pytest(_blocks("python")[:4])
    assert (code, "2 passed" in output) == (0, True), output


def test_the_file_of_faults_can_be_read(tmp_path):
    """The YAML of the page is right."""
    path = tmp_path / "chaos.yaml"
    path.write_text(_blocks("yaml")[0])
    faults = FaultProxy("broker:9092").load(path)
    assert [fault.rate for fault in faults] == [0.05, 0.05, 0.01]
