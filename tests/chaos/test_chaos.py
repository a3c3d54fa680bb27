"""Guarded clients side by side, while everything fails: what they tell is true."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from tests.chaos import page
from tests.chaos.actors import Outcome, Series
from tests.chaos.faults import Faults, Happening
from tests.chaos.load import Told
from tests.chaos.producers import lost, series, wrong

HAPPENED = [
    Happening("cluster", "kill", "broker <1>", 101.0, 103.0),
    Happening("network", "reset", "2 %", 102.0, 104.0),
    Happening("cluster", "remake", "t", 105.0, 106.0),
]


@pytest.mark.java
@pytest.mark.timeout(1200)
def test_what_is_told_agrees_with_the_topics(tmp_path):
    """40 s of faults: nothing lost, twice, out of order, untrue, late or uncaught.

    In a process of its own, since kafka-python leaves sockets open whose connection was
    refused. ``KAFKAGUARD_CHAOS_SEED`` repeats a run.
    """
    seed = os.environ.get("KAFKAGUARD_CHAOS_SEED", "2026")
    report = tmp_path / "report.html"
    program = [
        sys.executable, "-W", "ignore", "-m", "tests.chaos", "--all", "--without-spark",
        "--seconds", "40", "--seed", seed, "--report", str(report),
    ]  # fmt: skip
    ended = subprocess.run(
        program, capture_output=True, text=True, timeout=1100, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "verdict: nothing was lost" in ended.stdout
    assert "process-aiokafka" in report.read_text()


def _told(topic, *, sent, settled=None, error=None):
    told = Told(topic, sent)
    if error is not None:
        told.fail(error)
    else:
        told.deliver((0, 0))
    told.settled = settled or sent + 1
    return told


def test_only_what_was_delivered_after_a_topic_was_made_anew_can_be_lost():
    """What was delivered before may be gone with the topic."""
    told = {
        b"0:1": _told("t", sent=99.0),
        b"0:2": _told("t", sent=107.0),
        b"0:3": _told("u", sent=99.0),
        b"0:4": _told("u", sent=99.0),
    }
    found = {("u", 0): [(b"0", b"0:4")]}
    faults = SimpleNamespace(happened=HAPPENED)
    since = {"t": Faults.last(faults, "remake", "t")}
    assert lost(told, found, since) == [b"0:2", b"0:3"]
    bad = wrong(told, found, 110.0, 5.0, 0, since)
    assert {word: n for word, n in bad.items() if n} == {"lost": 2}
    drawn = series(told, found, since)
    assert (drawn.there, sorted(drawn.wrong)) == ([100.0], [100.0, 108.0])


def test_the_page_has_each_fault_each_actor_and_what_was_wrong(tmp_path):
    """Lanes of faults, bars of what was told against what is there, and a table."""
    outcomes = {
        "produce-x": Outcome(
            {"lost": 1},
            {"records": 3},
            Series([101.0, 102.0], [103.0], [101.5], [102.0]),
        ),
        "spark": Outcome({"lost": 0}, {}, Series([], [], [], [])),
    }
    file = tmp_path / "report.html"
    page.write(file, "chaos", "1 lost", 100.0, 60.0, HAPPENED, outcomes)
    text = file.read_text()
    assert "broker &lt;1&gt;: 1.0 s to 3.0 s" in text
    assert "network: reset" in text
    assert "<span class=bad>lost: 1</span>" in text
    assert "2.0 s: 1 told, 0 failed, 0 there, 1 wrong" in text


def test_a_fault_that_fails_is_reported_and_the_run_goes_on():
    """A broker that does not start again must not look like a quiet run."""

    def boom(_):
        raise OSError("no room")

    actor = SimpleNamespace(growing=None, remade=None, compacted=None, kill=boom)
    ground = SimpleNamespace(cluster=None, proxy=None, disks={})
    faults = Faults(ground, [actor], 1, 0.0)
    faults._lanes = {"actors": [boom]}
    faults._wait = lambda *_: None
    faults.run(0.05)
    assert len(faults.failures) > 1
    assert "boom: OSError('no room')" in faults.failures[0]
