"""Every Python block of the README and the documentation runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("spark_archive")]


ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGES = [
    page
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    if BLOCK.search(page.read_text())
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_blocks_of_a_page_run_one_after_the_other(page, tmp_path):
    """A reader who types a page from top to bottom gets no error."""
    script = tmp_path / "page.py"
    script.write_text("\n".join(BLOCK.findall(page.read_text())))
    done = subprocess.run(
        [sys.executable, script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=380,
    )
    assert done.returncode == 0, done.stderr


EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
#: A server of Spark Connect has one port on a machine, so one test at a time starts it.
WITH_SPARK = pytest.mark.xdist_group("spark-programs")


@pytest.mark.parametrize(
    "example",
    [
        pytest.param(each, marks=[WITH_SPARK] if "spark" in each.name else [])
        for each in EXAMPLES
        if "test_" not in each.name
    ],
    ids=lambda example: example.name,
)
def test_example_runs_and_says_something(example, tmp_path):
    """Each program of the examples folder runs as it stands."""
    done = subprocess.run(
        [sys.executable, example],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=380,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert "StackingWarning" not in done.stderr  # what readers copy warns of nothing


def test_examples_are_short_and_in_the_index():
    """A reader finds each one, and reads it in one go."""
    index = (ROOT / "examples/README.md").read_text()
    assert [e.name for e in EXAMPLES if f"({e.name})" not in index] == []
    short = [e for e in EXAMPLES if "test_" not in e.name]
    assert all(len(e.read_text().splitlines()) < 60 for e in short)


def test_readme_and_index_have_examples():
    """The pattern finds them; a change of fence would hide all."""
    assert ROOT / "README.md" in PAGES
    assert len(PAGES) >= 4
