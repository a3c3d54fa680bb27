"""Install the wheel as the documentation says, and test what the page promises.

Each extra alone, and each combination in README or docs, is installed into an empty
environment outside the checkout, in the newest allowed versions. ``installs/`` contains
the programs that are run there.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from kafkaguard.testing import KafkaCluster

ROOT = Path(__file__).resolve().parent.parent
#: Pages that say what to install.
PAGES = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
PAGES += (ROOT / "examples").glob("*.py")
_TIMEOUT_S = 400
#: Variables that would give an environment more packages than were installed into it.
_LEAKS = ("PYTHONPATH", "PYSPARK_PYTHON", "SPARK_HOME", "VIRTUAL_ENV")


@dataclass(frozen=True)
class Run:
    """A command, the text that it must print, and its exit code."""

    command: str
    says: str = ""
    code: int = 0


#: The runs by the installed extras; the longest ones come first.
INSTALLS: dict[str, list[Run]] = {
    "cli": [
        Run("kafkaguard explain 87", "INVALID_RECORD"),
        Run("kafkaguard explain 'Local: Message timed out'", "_MSG_TIMED_OUT"),
        Run("kafkaguard errors", "137 error codes"),
        Run("kafkaguard policy check default", "good"),
        Run("kafkaguard decode 0012000000000000000161", "ApiVersions request v0"),
        Run("kafkaguard lag -b $KAFKA", "no group with a commit"),
        Run("kafkaguard log-dirs -b $KAFKA", "/"),
        Run("kafkaguard proxy -b $KAFKA --for 0.1", "Clients connect to"),
        Run("kafkaguard broker --tls", "kafkaguard[testing]", code=2),
        Run("kafkaguard pipeline run flights.yaml", "kafkaguard[cli,spark]", code=2),
        Run("kafkaguard demo", "kafkaguard[demo]", code=2),
        Run("env KAFKAGUARD_CACHE=. python broker.py", "fetched in"),
    ],
    "spark": [
        Run("python spark_write.py"),
        Run("kafkaguard --version", "kafkaguard[cli]", code=2),
    ],
    "cli,spark": [
        Run("kafkaguard pipeline run flights.yaml --json", '"NULL_KEY": 1'),
    ],
    "spark,testing": [Run("python readme_spark.py", "2 delivered, 1 dead-lettered")],
    "cli,spark,testing": [
        Run("python exactly_once.py", "2 delivered, at most 0 duplicates")
    ],
    "demo": [Run("python demo_data.py"), Run("kafkaguard demo --help", "336,776")],
    "testing": [
        Run("python -m pytest --fixtures", "kafka_faults"),
        Run("python -m pytest -q test_orders.py", "2 passed"),
    ],
    "aiokafka,confluent,testing": [
        Run("python -m pytest -q test_with_faults.py", "passed")
    ],
    "cli,confluent": [
        Run("python readme_first.py", "REJECT no"),
        Run("python confluent.py"),
        Run("kafkaguard explain 7 --api Produce", "IN_DOUBT"),
    ],
    "": [
        Run("python plain.py"),
        Run("python kafka_python.py"),
        Run("kafkaguard --version", "kafkaguard[cli]", code=2),
        Run("python -c 'import kafkaguard.spark'", "kafkaguard[spark]", code=1),
        Run("python broker_without_jars.py", "kafkaguard[testing]"),
    ],
    "confluent": [Run("python confluent.py")],
    "aiokafka,cli": [Run("python aiokafka_client.py")],
    "aiokafka": [Run("python aiokafka_client.py")],
    "prometheus": [Run("python prometheus.py")],
    "otel": [Run("python otel.py")],
}
#: Packages that a page names together with the extras.
BESIDE = {"aiokafka,confluent,testing": "pytest-asyncio"}


def untried() -> set[str]:
    """Find extras, and combinations on a page, that are not in the table."""
    named = set(_extras()) - {"bench", "dev", "release", "site"}
    for page in PAGES:
        named |= set(re.findall(r"kafkaguard\[([\w,]+)\]", page.read_text()))
    return named - set(INSTALLS)


def check(wheel: Path) -> list[str]:
    """Try all installations, two at a time; return the failures."""
    if missing := untried():
        return [f"not in the table of {__file__}: {', '.join(sorted(missing))}"]
    for step in _building():
        if problem := _run(step, wheel.parent, dict(os.environ)):
            return [problem]
    with KafkaCluster() as cluster, ThreadPoolExecutor(2) as pool:
        cluster.create_topic("flights", config={"cleanup.policy": "compact"})
        cluster.create_topic("flights-refused")
        servers = cluster.bootstrap_servers
        results = [pool.submit(_try, extras, wheel, servers) for extras in INSTALLS]
        return [failure for result in results for failure in result.result()]


def _try(extras: str, wheel: Path, servers: str) -> list[str]:
    """Install and run; return the failures, each with the environment's name."""
    started = time.monotonic()
    name = f"kafkaguard[{extras}]" if extras else "kafkaguard"
    folder = wheel.with_name(extras or "none")
    _write_programs(folder)
    environment = _environment(folder, servers)
    packages = f"'{name} @ {wheel.as_uri()}' {BESIDE.get(extras, '')}"
    for step in _installing(packages):
        if problem := _run(step, folder, environment):
            return [f"{name}: {problem}"]
    problems = [_run(step, folder, environment) for step in INSTALLS[extras]]
    print(f"{name}: {time.monotonic() - started:.0f} s", flush=True)
    return [f"{name}: {problem}" for problem in problems if problem]


def _extras() -> dict[str, list[str]]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras: dict[str, list[str]] = project["optional-dependencies"]
    return extras


def _building() -> list[Run]:
    """Return steps that build wheels of source-only packages, which pip caches."""
    needed = {need for extra in ("spark", "demo") for need in _extras()[extra]}
    pip = f"{sys.executable} -m pip wheel --quiet --no-deps --wheel-dir ."
    return [Run(f"{pip} '{need}'") for need in needed if need.startswith("pyspark")]


def _installing(packages: str) -> list[Run]:
    # Not the user's cache, which only grows if the index cannot revalidate.
    uv = f"{sys.executable} -m uv --quiet --cache-dir ../uv"
    into = "--find-links .. --python venv/bin/python"
    return [
        Run(f"{uv} venv --python {sys.executable} venv"),
        Run(f"{uv} pip install {into} {packages}"),
    ]


def _environment(folder: Path, servers: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in os.environ if name not in _LEAKS}
    path = f"{folder / 'venv/bin'}{os.pathsep}{os.environ['PATH']}"
    return {**kept, "PATH": path, "PYTHONNOUSERSITE": "1", "KAFKA": servers}


def _write_programs(folder: Path) -> None:
    """Write the programs to run: kafkaguard's own, and blocks of the pages."""
    shutil.copytree(Path(__file__).with_name("installs"), folder)
    shutil.copy(ROOT / "examples/test_with_faults.py", folder)
    readme, testing = ROOT / "README.md", ROOT / "docs/testing.md"
    spark, once = ROOT / "docs/spark.md", ROOT / "docs/exactly_once.md"
    for name, text in {
        "readme_first.py": _blocks(readme, "python")[0],
        "readme_spark.py": _block(readme, "python", "kafkaguard.spark.write"),
        "exactly_once.py": _block(once, "python", "exactly_once="),
        "flights.yaml": _block(spark, "yaml", "source:"),
        "test_orders.py": "\n".join(_blocks(testing, "python")[:4]),
    }.items():
        (folder / name).write_text(text)


def _blocks(page: Path, language: str) -> list[str]:
    pattern = rf"^```{language}\n(.*?)^```"
    return re.findall(pattern, page.read_text(), re.MULTILINE | re.DOTALL)


def _block(page: Path, language: str, word: str) -> str:
    """Find the first block that contains a word."""
    return next(block for block in _blocks(page, language) if word in block)


def _run(step: Run, folder: Path, environment: dict[str, str]) -> str | None:
    """Run a command; return what is wrong with its result, or None."""
    command = step.command.replace("$KAFKA", environment.get("KAFKA", ""))
    try:
        done = subprocess.run(
            shlex.split(command),
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        return f"`{command}` is not done in {error.timeout:.0f} s"
    wrong = [
        f"ended with {done.returncode}, not {step.code}"
        if done.returncode != step.code
        else "",
        f"does not say {step.says!r}" if step.says not in done.stdout else "",
        "warns" if "FutureWarning" in done.stdout else "",
    ]
    if not any(wrong):
        return None
    return f"`{command}` {' and '.join(filter(None, wrong))}:\n{done.stdout}"
