"""The words of clients are known also where these clients are not installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kafkaguard.cli.group import run

ROOT = Path(__file__).resolve().parents[2]


def test_the_words_are_those_of_the_clients():
    """`make generate` writes them again after a client has new ones."""
    script = ROOT / "scripts" / "generate_client_words.py"
    # In a process of its own: clients make classes for codes that they have met here.
    done = subprocess.run(
        [sys.executable, script, "--check"], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Delivery failed: Local: Message timed out", "_MSG_TIMED_OUT"),
        ("%3|FAIL| Broker: Not leader for partition", "NOT_LEADER_OR_FOLLOWER (6)"),
        ("aiokafka.errors.InvalidTxnState", "INVALID_TXN_STATE (48)"),
    ],
)
def test_they_are_explained_without_the_client(monkeypatch, capsys, text, name):
    """Whoever reads a log need not install what wrote it."""
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    monkeypatch.setitem(sys.modules, "aiokafka", None)
    assert run(["explain", text]) == 0
    assert name in capsys.readouterr().out
