"""``make nightly``: all that takes too long for ``make test``, one after the other.

Each step is a target of the Makefile. Its output and its verdict are kept in the folder
``.nightly``, so a second call goes on after the last step with a verdict. A verdict
counts for one commit. At the end there is a table of all verdicts. Exit code 1: a step
failed; 130: interrupted, with a step that has no verdict yet.

``make nightly NIGHTLY="--only differ"`` runs steps again, ``NIGHTLY=--list`` lists
them, and ``NIGHTLY=--again`` forgets all verdicts.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / ".nightly"
#: Each part of the million schedules has verdicts of its own.
_SCHEDULES, _PARTS = 1_000_000, 4
_CLIENTS = ("kafka-python", "confluent", "aiokafka")


class Step(NamedTuple):
    """Something to run.

    Attributes:
        name: Its name.
        command: The program and its arguments.
        limit_s: It is ended after so many seconds, and has failed.
    """

    name: str
    command: Sequence[str]
    limit_s: float = 3600.0


class Verdict(NamedTuple):
    """How a step ended.

    Attributes:
        name: The step.
        code: Its exit code; None: it was ended by its time limit.
        seconds: How long it took.
        commit: What was checked out.
    """

    name: str
    code: int | None
    seconds: float
    commit: str

    @property
    def line(self) -> str:
        """The verdict in one line."""
        word = {0: "passed", None: "took too long"}.get(self.code, "FAILED")
        return f"{self.name:26}{word:14}{self.seconds:8.0f} s"


def steps(commit: str) -> list[Step]:
    """Return all steps; a sample of another commit is another one."""
    seed = int(commit[:4], 16)
    part = _SCHEDULES // _PARTS
    state = FOLDER / f"differ-{commit[:12]}"
    return [
        *(
            _make(
                f"simulate {number + 1} of {_PARTS}",
                f"SIMULATE=--schedules {part} --seed {number * part}",
            )
            for number in range(_PARTS)
        ),
        _make("differ", f"DIFFER=--programs 300 --state {state}", hours=3),
        _make(
            "chaos all",
            f"CHAOS=--all --seconds 600 --seed {seed} --report {FOLDER}/chaos.html",
        ),
        *(
            _make(f"chaos {client}", f"CHAOS=--client {client} --seed {seed}")
            for client in _CLIENTS
        ),
        *(
            _make(
                f"chaos process {client}",
                f"CHAOS=--process --client {client} --seed {seed} --seconds 600",
            )
            for client in _CLIENTS
        ),
        _make("deadlines"),
        _make("outages"),
        _make(
            "steady",
            f"STEADY=--minutes 10 --state {FOLDER}/steady-{commit[:12]}.json",
        ),
        _make(
            "once",
            f"ONCE=--kills 50 --seed {seed} --state {FOLDER}/once-{commit[:12]}.json",
            hours=2,
        ),
        _make("once plain", f"ONCE=--plain --seed {seed}"),
        _make("once epochs", "ONCE=--epochs"),
        _make("fuzz"),
        _make("mutate", f"MUTATE=--seed {seed}"),
        _make("mutate adapters", f"MUTATE=--adapters --seed {seed}", hours=2),
    ]


def _make(name: str, *variables: str, hours: float = 1.0) -> Step:
    command = ["make", "--no-print-directory", name.partition(" ")[0], *variables]
    return Step(name, command, hours * 3600)


class Night:
    """Runs steps, and keeps their verdicts in a folder."""

    def __init__(self, all_steps: Iterable[Step], folder: Path, commit: str) -> None:
        self._steps = list(all_steps)
        self._folder = folder
        self._commit = commit

    def main(self, arguments: Sequence[str]) -> int:
        """Run what has no verdict yet; return the exit code."""
        options = self._options(arguments)
        chosen = [s for s in self._steps if not options.only or s.name in options.only]
        if options.list:
            for step in chosen:
                known = self._verdict(step)
                print(known.line if known else f"{step.name:26}no verdict")
            return 0
        if options.again:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(exist_ok=True)
        for step in chosen:
            if not options.only and (known := self._verdict(step)):
                print(f"{known.line}, before", flush=True)
                continue
            try:
                verdict = self._run(step)
            except KeyboardInterrupt:
                print(f"{step.name:26}interrupted: call again to go on with it")
                return 130
            self._file(step).write_text(json.dumps(verdict))
            print(verdict.line, flush=True)
        return self._report(chosen)

    def _options(self, arguments: Sequence[str]) -> argparse.Namespace:
        parser = argparse.ArgumentParser(prog="make nightly")
        add = parser.add_argument
        add("--list", action="store_true", help="list the steps and their verdicts")
        add("--again", action="store_true", help="forget all verdicts, and begin anew")
        names = [step.name for step in self._steps]
        words = "run this one, also if it has a verdict (can be repeated)"
        add("--only", action="append", metavar="NAME", choices=names, help=words)
        return parser.parse_args(arguments)

    def _file(self, step: Step) -> Path:
        return self._folder / f"{step.name.replace(' ', '-')}.json"

    def _verdict(self, step: Step) -> Verdict | None:
        """Return the step's verdict about this commit, if it has one."""
        if not self._file(step).exists():
            return None
        verdict = Verdict(*json.loads(self._file(step).read_text()))
        return verdict if verdict.commit == self._commit else None

    def _run(self, step: Step) -> Verdict:
        """Run a step, with all that it starts in one process group."""
        self._file(step).unlink(missing_ok=True)
        log = self._file(step).with_suffix(".log")
        print(f"{step.name:26}runs: {log}", flush=True)
        began = time.monotonic()
        code = None
        with log.open("w") as output:
            process = subprocess.Popen(
                step.command,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                code = process.wait(step.limit_s)
            except subprocess.TimeoutExpired:
                output.write(f"\nended after {step.limit_s:.0f} s\n")
            finally:
                _end(process)
        return Verdict(step.name, code, time.monotonic() - began, self._commit)

    def _report(self, chosen: Sequence[Step]) -> int:
        """Print the table of verdicts; return the exit code."""
        verdicts = [found for step in chosen if (found := self._verdict(step))]
        bad = [verdict for verdict in verdicts if verdict.code != 0]
        print(f"\ncommit {self._commit[:12]}")
        for verdict in verdicts:
            print(verdict.line)
        print(f"{len(verdicts) - len(bad)} of {len(verdicts)} passed")
        return 1 if bad else 0


def _end(process: subprocess.Popen[bytes]) -> None:
    """End what a step has left running, and a step that was interrupted."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _commit() -> str:
    command = ["git", "rev-parse", "HEAD"]
    return subprocess.check_output(command, cwd=ROOT, text=True).strip()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(Night(steps(_commit()), FOLDER, _commit()).main(sys.argv[1:]))
