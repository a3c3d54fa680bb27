"""The inputs that fuzzing has found are read as they must be, or refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzzing.targets import CORPUS, TARGETS, replay

ROOT = Path(__file__).resolve().parents[2]
MOST_BYTES = 200_000


@pytest.mark.parametrize("name", TARGETS)
def test_kept_inputs_of(name):
    """Each of them took a branch that no other one takes."""
    assert replay([name]) > 0


def test_the_corpus_is_small():
    """It is read in each run of the tests, and downloaded with the repository."""
    assert {file.stem for file in CORPUS.iterdir()} == set(TARGETS)
    assert sum(file.stat().st_size for file in CORPUS.iterdir()) < MOST_BYTES


@pytest.mark.skipif(sys.platform != "linux", reason="atheris is for Linux")
def test_a_finding_is_named_and_fails_the_run(tmp_path, load_script, monkeypatch):
    """The program has exit code 1, and keeps the input."""
    fuzz = load_script("fuzz")
    monkeypatch.setattr(fuzz, "FOLDER", tmp_path)
    module = "tests.fuzzing.broken"
    result = fuzz.run(module, "broken", 5.0, keep=False)
    (finding,) = result.findings
    assert "ZeroDivisionError: a bug (broken.py:" in finding
    (kept,) = tmp_path.iterdir()
    assert kept.read_bytes()[:1] == b"b"


def test_an_unknown_target_is_refused():
    """With the names of all."""
    program = [sys.executable, str(ROOT / "scripts/fuzz.py"), "--target", "nothing"]
    ended = subprocess.run(program, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "settings" in ended.stderr
