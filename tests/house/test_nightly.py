"""``make nightly`` runs long checks one after the other, and goes on where it stopped."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

import pytest


@pytest.fixture
def nightly(load_script):
    """Load the script."""
    return load_script("nightly")


@pytest.fixture
def night(nightly, tmp_path):
    """Make a night of steps that write their names to a file, and then run Python code."""

    def make(commit="c1", limits=None, **codes):
        steps = []
        for name, code in codes.items():
            note = f"open({str(tmp_path / 'ran')!r}, 'a').write({name + ' '!r})"
            command = [sys.executable, "-c", f"{note}\n{code}"]
            steps.append(nightly.Step(name, command, (limits or {}).get(name, 60)))
        return nightly.Night(steps, tmp_path / "state", commit)

    return make


@pytest.fixture
def ran(tmp_path):
    """Return the names of the steps that ran, in order."""
    return lambda: (tmp_path / "ran").read_text().split()


def test_a_step_that_fails_stops_no_other_and_fails_the_night(night, ran, capsys):
    """The table at the end has a verdict of each step."""
    assert night(first="raise SystemExit(3)", second="").main([]) == 1
    assert ran() == ["first", "second"]
    table = capsys.readouterr().out.rpartition("commit")[2]
    assert re.search(r"first +FAILED", table)
    assert re.search(r"second +passed", table)
    assert "1 of 2 passed" in table


def test_a_second_call_goes_on_with_the_step_that_has_no_verdict(
    night, ran, nightly, monkeypatch, capsys
):
    """A step that was interrupted runs again; a verdict is kept, also a bad one."""
    codes = {"first": "raise SystemExit(1)", "second": "", "third": ""}
    wait = nightly.subprocess.Popen.wait

    def interrupted(process, timeout=None):
        wait(process)
        if timeout is not None and ran()[-1] == "second":
            raise KeyboardInterrupt
        return process.returncode

    with monkeypatch.context() as patch:
        patch.setattr(nightly.subprocess.Popen, "wait", interrupted)
        assert night(**codes).main([]) == 130
    assert night(**codes).main([]) == 1
    assert ran() == ["first", "second", "second", "third"]
    assert night(**codes).main([]) == 1
    assert len(ran()) == 4


def test_a_verdict_counts_for_one_commit(night, ran):
    """After a commit, and after `--again`, all steps run."""
    assert night(only="").main([]) == 0
    assert night("c2", only="").main([]) == 0
    assert night("c2", only="").main([]) == 0
    assert ran() == ["only"] * 2
    assert night("c2", only="").main(["--again"]) == 0
    assert ran() == ["only"] * 3


def test_a_step_that_is_named_runs_again_and_alone(night, ran, capsys):
    """`--list` shows what is known of each."""
    steps = {"first": "", "second": ""}
    for _ in range(2):
        assert night(**steps).main(["--only", "second"]) == 0
    assert ran() == ["second", "second"]
    capsys.readouterr()
    assert night(**steps).main(["--list"]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in listed] == [
        ["first", "no"],
        ["second", "passed"],
    ]


def test_a_step_that_takes_too_long_is_ended_with_all_that_it_started(
    night, tmp_path, capsys
):
    """A step past its time limit is ended with its children, and fails."""
    started = tmp_path / "started"
    program = f"""
import pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
pathlib.Path({str(started)!r}).write_text(str(child.pid))
time.sleep(600)
"""
    slow = night(limits={"slow": 3}, slow=program, after="")
    assert slow.main([]) == 1
    assert re.search(r"slow +took too long", capsys.readouterr().out)
    assert_gone(int(started.read_text()))


def assert_gone(process):
    """Wait until a process is gone or a zombie."""
    deadline = time.monotonic() + 10
    while state_of(process) not in (None, "Z"):
        assert time.monotonic() < deadline


def state_of(process):
    """Return the state of a process, as /proc shows it; None: there is none."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return None


def test_each_step_is_a_target_of_the_makefile(nightly):
    """Also those that are tried in parts."""
    targets = set(
        re.findall(r"^(\w+):", (nightly.ROOT / "Makefile").read_text(), re.MULTILINE)
    )
    steps = nightly.steps("226e0a14" * 5)
    assert {step.command[2] for step in steps} <= targets
    assert len({step.name for step in steps}) == len(steps)
