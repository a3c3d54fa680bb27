"""``make release-check``: what must hold before a version is published.

The version is the same everywhere; wheel and sdist, built twice, are equal; promtool
accepts the alerts; each dependency of each extra, in the version that is installed
today, has a licence that may be used with Apache-2.0, and no known vulnerability. Exit
code 1: one of these does not hold, or could not be found out. ``--locked FILE`` also
writes the versions that were looked at.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml
from rich.console import Console
from rich.table import Table

from kafkaguard import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ROOT = Path(__file__).resolve().parents[1]
FILES = ROOT / "kafkaguard/telemetry"
#: What developers need is not delivered.
_NOT_DELIVERED = {"bench", "dev", "release", "site"}
_TIMEOUT_S = 600
#: Words of licences that may be combined with Apache-2.0 in an application.
_FREE = re.compile(
    r"Apache|MIT|BSD|0BSD|ISC|PSF|Python Software Foundation|MPL|Mozilla|Zlib|CC0|"
    r"Unlicense",
    re.IGNORECASE,
)
_COPYLEFT = re.compile(r"\bA?GPL|\bLGPL|GNU|SSPL|Commons Clause|BUSL", re.IGNORECASE)


class Dependency(NamedTuple):
    """A package that is installed with an extra.

    Attributes:
        name: Its name.
        version: The version that is installed today.
        licence: What its metadata say.
    """

    name: str
    version: str
    licence: str

    @property
    def is_free(self) -> bool:
        """Whether its licence is known, and may be combined with Apache-2.0."""
        return bool(_FREE.search(self.licence)) and not _COPYLEFT.search(self.licence)


def read_dependencies(report: Mapping[str, Any]) -> list[Dependency]:
    """Read what pip would install, from its report."""
    found = [
        Dependency(data["name"], data["version"], read_licence(data))
        for each in report["install"]
        if (data := each["metadata"])["name"] != "kafkaguard"
    ]
    return sorted(found, key=lambda each: each.name.lower())


def read_licence(metadata: Mapping[str, Any]) -> str:
    """Return a package's licence: its expression, its classifiers, or its text."""
    classifiers = [
        each.rpartition(" :: ")[2]
        for each in metadata.get("classifier", ())
        if each.startswith("License ::")
    ]
    text = (metadata.get("license") or "").strip().partition("\n")[0]
    return str(metadata.get("license_expression") or ", ".join(classifiers) or text)


def find_problems(audit: Mapping[str, Any]) -> Iterator[str]:
    """Return what is wrong by an answer of pip-audit; what it skipped is not known."""
    for each in audit["dependencies"]:
        if reason := each.get("skip_reason"):
            yield f"{each['name']} was not audited: {reason}"
        for known in each.get("vulns", ()):
            mended = ", ".join(known["fix_versions"]) or "no version"
            yield f"{each['name']} {each['version']}: {known['id']}, mended in {mended}"


def run(*command: str, **more: Any) -> subprocess.CompletedProcess[str]:
    """Run a program in the checkout, with a bound."""
    return subprocess.run(
        command,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
        **more,
    )


def check_version() -> Iterator[str]:
    """The version is the same in the code, the citation and the changelog."""
    for name, pattern in (
        ("CITATION.cff", r"(?m)^version: (\S+)"),
        ("CHANGELOG.md", r"(?m)^## (\S+)"),
    ):
        found = re.search(pattern, (ROOT / name).read_text())
        if found is None or found[1] != __version__:
            yield f"{name} says {found and found[1]}, and the code {__version__}"


def check_builds() -> Iterator[str]:
    """Wheel and sdist, built twice from the same commit, are equal."""
    made: list[dict[str, str]] = []
    time = run("git", "log", "-1", "--format=%ct").stdout.strip()
    for _ in range(2):
        with tempfile.TemporaryDirectory() as folder:
            done = run(
                *(sys.executable, "-m", "build", "--outdir", folder),
                env=os.environ | {"SOURCE_DATE_EPOCH": time},
            )
            if done.returncode:
                yield f"the build failed: {done.stderr[-500:]}"
                return
            made.append(
                {
                    each.name: hashlib.sha256(each.read_bytes()).hexdigest()
                    for each in Path(folder).iterdir()
                }
            )
    for name, digest in made[0].items():
        print(f"{digest}  {name}")
        if made[1].get(name) != digest:
            yield f"{name} is another one when it is built again"


def check_alerts() -> Iterator[str]:
    """Promtool accepts the rules and the dashboard's queries, and alerts fire."""
    promtool = shutil.which("promtool")
    if promtool is None:
        yield "promtool, a part of Prometheus, is not here: alerts were not checked"
        return
    panels = json.loads((FILES / "grafana.json").read_text())["panels"]
    targets = (target for panel in panels for target in panel.get("targets", ()))
    queries = [each["expr"].replace("$__rate_interval", "5m") for each in targets]
    rules = [{"record": f"q_{n}", "expr": each} for n, each in enumerate(queries)]
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}, file)
        file.flush()
        for words in (
            ("check", "rules", str(FILES / "alerts.yaml"), file.name),
            ("test", "rules", "tests/telemetry/alerts_test.yaml"),
        ):
            done = run(promtool, *words)
            if done.returncode:
                yield f"promtool {' '.join(words)}: {done.stdout}{done.stderr}"


def resolve() -> Sequence[Dependency]:
    """Return what is installed today with all extras that are delivered."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = ",".join(sorted(set(project["optional-dependencies"]) - _NOT_DELIVERED))
    options = ("--dry-run", "--ignore-installed", "--quiet", "--report", "-")
    pip = (sys.executable, "-m", "pip", "install")
    done = run(*pip, *options, f".[{extras}]")
    if done.returncode:
        sys.exit(f"the dependencies cannot be resolved: {done.stderr[-500:]}")
    return read_dependencies(json.loads(done.stdout))


def audit(dependencies: Sequence[Dependency]) -> Iterator[str]:
    """No dependency has a known vulnerability."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.writelines(f"{each.name}=={each.version}\n" for each in dependencies)
        file.flush()
        words = ("--no-deps", "--disable-pip", "--format", "json", "-r", file.name)
        done = run(sys.executable, "-m", "pip_audit", *words)
    try:
        yield from find_problems(json.loads(done.stdout))
    except ValueError:
        yield f"nothing was audited: {done.stderr[-500:]}"


def main() -> int:
    """Check all, and print a table of the licences and a verdict."""
    parser = argparse.ArgumentParser(prog="make release-check")
    parser.add_argument("--locked", type=Path)
    chosen = parser.parse_args()
    dependencies = resolve()
    table = Table("Package", "Version", "Licence")
    for each in dependencies:
        table.add_row(each.name, each.version, each.licence or "unknown")
    Console().print(table)
    if chosen.locked is not None:
        lines = (f"{each.name}=={each.version}\n" for each in dependencies)
        chosen.locked.write_text("".join(lines))
    problems = [
        *check_version(),
        *check_alerts(),
        *check_builds(),
        *(
            f"{each.name} has the licence {each.licence or 'unknown'}"
            for each in dependencies
            if not each.is_free
        ),
        *audit(dependencies),
    ]
    for problem in problems:
        print(f"- {problem}")
    verdict = f"{len(problems)} problems" if problems else "ready to be released"
    print(f"kafkaguard {__version__}, {len(dependencies)} dependencies: {verdict}")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
