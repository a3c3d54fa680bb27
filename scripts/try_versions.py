"""Try the lowest and the newest versions of the three clients with each Python.

Each row of the table is a virtual environment outside the checkout and a run of a few
tests: errors, verdicts, and for each client some tests of the producers' and consumers'
contracts on a real broker. For a Python that is not on this machine, uv checks whether
the package index has wheels of all packages.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
CLIENTS = ("kafka-python", "confluent-kafka", "aiokafka")
EXTRAS = ("aiokafka", "confluent", "testing")
TOOLS = (
    *("hypothesis", "jsonschema", "kio", "pytest-asyncio", "pytest-timeout"),
    *(f"opentelemetry-instrumentation-{client}" for client in CLIENTS),
    "opentelemetry-sdk",
)
#: Tests without a broker; then, for each client, the most important tests of the
#: producers' and consumers' contracts.
TESTS = (
    *("tests/errors/test_errors.py", "tests/verdicts/test_classify.py"),
    "tests/adapters/test_dual_errors.py",
    "tests/confluent/test_windows.py",
)
PRODUCERS = (
    "tests/kafka_python/test_kafka_python_contract.py::TestKafkaPython",
    "tests/confluent/test_confluent_contract.py::TestConfluent",
    "tests/aiokafka/test_aiokafka_producer.py::TestAiokafka",
)
OF_PRODUCERS = (
    "test_every_name_of_the_client_is_there",
    "test_a_null_key_is_refused_before_anything_is_sent",
    "test_a_record_arrives_as_it_was_given",
    "test_a_refused_record_costs_the_others_of_its_batch_nothing",
    "test_a_producer_is_never_left_dead",
    "test_each_outcome_is_told_once",
    "test_a_denied_topic_is_told_of_both_classes",
)
CONSUMERS = (
    "tests/kafka_python/test_kafka_python_consumer.py::TestKafkaPythonConsumer",
    "tests/confluent/test_confluent_consumer.py::TestConfluentConsumer",
    "tests/aiokafka/test_aiokafka_consumer.py::TestAiokafkaConsumer",
)
OF_CONSUMERS = (
    "test_every_name_of_the_client_is_there",
    "test_a_partition_that_cannot_be_read_waits_alone",
    "test_a_denied_topic_is_raised_with_its_place",
    "test_a_position_within_the_log_is_not_reset",
    "test_a_commit_that_is_refused_for_now_is_tried_again_alone",
    "test_a_closed_consumer_says_so_at_once",
)
_INHERITED = [
    f"{each}::{test}"
    for classes, tests in ((PRODUCERS, OF_PRODUCERS), (CONSUMERS, OF_CONSUMERS))
    for each in classes
    for test in tests
]
_INSTALL_S, _TESTS_S = 600, 3000


def lowest() -> list[str]:
    """Return the lowest version of each client that pyproject.toml allows."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    needs = [*project["dependencies"], *extras["confluent"], *extras["aiokafka"]]
    found = (re.match(r"([\w-]+)>=([\d.]+)", need) for need in needs)
    return [f"{m[1]}=={m[2]}" for m in found if m and m[1] in CLIENTS]


def interpreter(version: str) -> str | None:
    """Find a Python of this version on the path, or one that pyenv built."""
    built = (Path.home() / ".pyenv/versions").glob(f"{version}.*/bin/python")
    return next(map(str, built), None) or shutil.which(f"python{version}")


def run(*command: str, seconds: float = _INSTALL_S) -> tuple[int, str]:
    """Run a command in the checkout; return its exit code and its output."""
    paths = os.pathsep.join(map(str, (ROOT, ROOT / "policies", ROOT / "adapters")))
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": paths, "PYTHONNOUSERSITE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
        check=False,
    )
    return done.returncode, done.stdout


def uv(*arguments: str) -> tuple[int, str]:
    """Run uv."""
    return run(sys.executable, "-m", "uv", "--quiet", *arguments)


def look_up(version: str, pins: list[str], folder: Path) -> tuple[list[str], str]:
    """Check whether all packages have a wheel for a Python that is not installed."""
    constraints = folder / "constraints.txt"
    constraints.write_text("\n".join(pins))
    extras = [word for extra in EXTRAS for word in ("--extra", extra)]
    where = ("--python-version", version, "--python-platform", "linux")
    code, said = uv(
        *("pip", "compile", "pyproject.toml", "-c", str(constraints)),
        *(*extras, *where, "--only-binary", ":all:"),
    )
    if code == 0:
        return versions(said), "wheels of everything; not run, this Python was not here"
    lacking = re.findall(r"(\S+) has no usable wheels", said)
    if not lacking:
        sys.exit(said)
    return [pin.partition("==")[2] for pin in pins], f"no wheel of {lacking[0]}"


def versions(listed: str) -> list[str]:
    """Find the clients' versions in a list of packages."""
    found = dict(re.findall(r"^([\w-]+)==([\w.]+)", listed, re.MULTILINE))
    return [found[client] for client in CLIENTS]


def test(python: str, pins: list[str], folder: Path) -> tuple[list[str], str]:
    """Install into an environment, and run the tests there."""
    inside = str(folder / "venv/bin/python")
    needs = (f"{ROOT}[{','.join(EXTRAS)}]", *TOOLS, *pins)
    for step in (
        ("venv", "--python", python, str(folder / "venv")),
        ("pip", "install", "--python", inside, "--only-binary", ":all:",
         "--no-binary", "kafkaguard", *needs),
    ):  # fmt: skip
        code, said = uv(*step)
        if code:
            sys.exit(said)
    _, listed = uv("pip", "freeze", "--python", inside)
    pytest = (
        inside,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        *TESTS,
        *_INHERITED,
    )
    _, said = run(*pytest, seconds=_TESTS_S)
    *failures, summary = re.findall(
        r"^(?:FAILED .*|ERROR .*|\d+ (?:passed|failed).*)$", said, re.MULTILINE
    ) or [said]
    print("\n".join(failures), flush=True)
    return versions(listed), re.sub(r" in .*|, \d+ warnings?", "", summary)


def main() -> None:
    """Try all rows, and print the table for docs/versions.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=PYTHONS, help="these Pythons")
    only = parser.parse_args().only
    print(f"| Python | {' | '.join(CLIENTS)} | Result |", flush=True)
    for version in only:
        python = interpreter(version)
        for pins in (lowest(), []):
            with tempfile.TemporaryDirectory() as folder:
                try_it = look_up if python is None else test
                found, result = try_it(python or version, pins, Path(folder))
            print(f"| {' | '.join((version, *found, result))} |", flush=True)


if __name__ == "__main__":
    main()
