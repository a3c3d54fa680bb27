"""Give mutated bytes to all that reads bytes of others; what they break is a finding.

``make fuzz FUZZ="--seconds 60 --target policies"``. libFuzzer (atheris) watches which
branches an input takes, and limits the time of an input and the memory of the process.
Each target begins with its seeds and the inputs that are kept in
``tests/fuzzing/corpus``; ``--keep`` keeps the fewest that take the same branches.
Exit code 1: there is a finding, which is in the folder ``.fuzz``.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / ".fuzz"
sys.path.insert(0, str(ROOT))

LIMITS = (
    "-rss_limit_mb=2048",
    "-malloc_limit_mb=256",
    "-timeout=20",
    "-max_len=2048",
    "-len_control=0",
    "-print_final_stats=1",
    "-verbosity=1",
)
#: Bytes of a target's inputs that are kept: all corpora have 200 KB at most.
KEPT_BYTES = 20_000
MOST_FINDINGS = 5


class Result(NamedTuple):
    """What became of a target.

    Attributes:
        seconds: How long it ran.
        executions: How many inputs it got.
        findings: The last line of each error, with its file.
    """

    seconds: float
    executions: int
    findings: list[str]


def fuzz(module: str, name: str, folder: Path, flags: list[str]) -> None:
    """Be the process that libFuzzer controls; it does not return."""
    import atheris  # type: ignore[import-untyped]  # it has no types

    target = import_module(module).TARGETS[name]
    with atheris.instrument_imports(include=list(target.watched)):
        for watched in target.watched:
            import_module(watched)
        for data in islice(target.seeds(), 1):
            with suppress(Exception):  # it only loads what the target imports
                target.check(data)
    atheris.Setup([sys.argv[0], *LIMITS, *flags, str(folder)], target.check)
    atheris.Fuzz()


def run(module: str, name: str, seconds: float, *, keep: bool) -> Result:
    """Fuzz a target, again after each finding, and keep its corpus if that is asked."""
    targets: Any = import_module(module)
    findings: dict[str, str] = {}
    executions, begin = 0, time.monotonic()
    with tempfile.TemporaryDirectory() as temporary:
        corpus = Path(temporary, "corpus")
        corpus.mkdir()
        for data in (*targets.read_corpus(name), *targets.TARGETS[name].seeds()):
            Path(
                corpus, hashlib.sha1(data, usedforsecurity=False).hexdigest()
            ).write_bytes(data)
        while (left := seconds - (time.monotonic() - begin)) > 0:
            flags = [f"-max_total_time={max(1, int(left))}"]
            flags.append(f"-artifact_prefix={temporary}/")
            output = _start(module, name, corpus, flags)
            counts = re.findall(r"number_of_executed_units: (\d+)", output)
            executions += int(counts[-1]) if counts else 0
            found = sorted(Path(temporary).glob("*-*"))
            if not found:
                if not counts:
                    findings["it does not run"] = output[-2000:]
                break
            for file in found:
                _note(findings, name, file, output)
            if len(findings) >= MOST_FINDINGS:
                break
        if keep:
            kept = _smallest(targets.TARGETS[name], name, corpus)
            targets.write_corpus(name, kept)
    lines = [f"{words}\n{details}" for words, details in findings.items()]
    return Result(time.monotonic() - begin, executions, lines)


def _start(module: str, name: str, corpus: Path, flags: list[str]) -> str:
    """Run libFuzzer in a process of its own; return its output."""
    command = [sys.executable, "-W", "ignore", __file__, "--module", module]
    ended = subprocess.run(
        [*command, "--inside", name, str(corpus), *flags],
        capture_output=True,
        text=True,
        errors="replace",
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=corpus,
        check=False,
    )
    return ended.stdout + ended.stderr


def _note(findings: dict[str, str], name: str, file: Path, output: str) -> None:
    """Keep an input that was a finding; one for each kind of error."""
    title = " === Uncaught Python exception: ==="
    errors = re.findall(rf"^{title}\n(.+)$", output, re.MULTILINE)
    words = errors[-1] if errors else file.name.partition("-")[0]
    frames = re.findall(r'^  File "(.+)", line (\d+)', output, re.MULTILINE)
    if frames:
        words += f" ({Path(frames[-1][0]).name}:{frames[-1][1]})"
    FOLDER.mkdir(exist_ok=True)
    kept = FOLDER / f"{name}-{file.name}"
    kept.write_bytes(file.read_bytes())
    file.unlink()
    findings.setdefault(words[:300], f"    {kept}")


def _smallest(target: Any, name: str, corpus: Path) -> list[bytes]:
    """Return the smallest inputs that take all branches together, within the limits.

    A finding that is mended is one of them.
    """
    mended = [each.read_bytes() for each in FOLDER.glob(f"{name}-*")]
    others = sorted((each.read_bytes() for each in corpus.iterdir()), key=len)
    seen: set[Any] = set()
    kept, size = [], 0
    for data in (*mended, *others):
        fresh = _branches(target, data) - seen
        if (fresh or data in mended) and size + len(data) <= KEPT_BYTES:
            seen |= fresh
            kept.append(data)
            size += len(data)
    return kept


def _branches(target: Any, data: bytes) -> set[Any]:
    """Return the steps from line to line that an input takes; none if it fails."""
    parts = [name.replace(".", "/") for name in target.watched]
    steps: set[Any] = set()

    def enter(frame: Any, *_: object) -> Any:
        code = frame.f_code
        if not any(part in code.co_filename for part in parts):
            return None
        last = [0]

        def step(frame: Any, *_: object) -> Any:
            steps.add((code, last[0], frame.f_lineno))
            last[0] = frame.f_lineno
            return step

        return step

    sys.settrace(enter)
    try:
        target.check(data)
    except Exception:  # noqa: BLE001 - a finding is kept in its own folder
        return set()
    finally:
        sys.settrace(None)
    return steps


def main() -> int:
    """Fuzz, and print a table; return the exit code."""
    if sys.argv[1:2] == ["--module"] and sys.argv[3:4] == ["--inside"]:
        fuzz(sys.argv[2], sys.argv[4], Path(sys.argv[5]), sys.argv[6:])
        return 0
    module = "tests.fuzzing.targets"
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--module", default=module, help="where the targets are")
    given, _ = parser.parse_known_args()
    names = list(import_module(given.module).TARGETS)
    add = parser.add_argument
    add("--seconds", type=float, default=120.0, help="for each target")
    add("--target", action="append", choices=names, help="can be repeated")
    add("--keep", action="store_true", help="keep the inputs in the repository")
    options = parser.parse_args()
    results = {}
    print(f"{'target':12}{'seconds':>9}{'executions':>12}{'findings':>10}")
    for name in options.target or names:
        result = run(options.module, name, options.seconds, keep=options.keep)
        results[name] = result
        row = f"{name:12}{result.seconds:9.0f}{result.executions:12,}"
        print(f"{row}{len(result.findings):10}", flush=True)
        for finding in result.findings:
            print(finding)
    count = sum(len(result.findings) for result in results.values())
    print(f"verdict: {count} findings in {len(results)} targets")
    return int(count > 0)


if __name__ == "__main__":
    sys.exit(main())
