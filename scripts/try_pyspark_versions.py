"""Run the Spark tests on other versions of PySpark, and print the results.

Each version has a virtual environment with only PySpark; all other packages come from
the environment that runs this script.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sysconfig
import tempfile
import venv
from pathlib import Path
from xml.etree import ElementTree as ET

ROOT = Path(__file__).resolve().parent.parent
#: Each version, with the version of Spark's own Kafka sink for comparisons in tests.
VERSIONS = {"4.0.0": "4.0.0", "4.1.1": "4.1.1", "4.2.1": "4.2.0"}
TESTS = ("tests/spark", "tests/cli/test_pipeline_input.py")
#: Tests that PySpark 4.0 has no API for: streams of a data source with Arrow batches.
NOT_IN_4_0 = (
    "test_stream_dead_letters",
    "test_listener_hands",
    "test_stream_that_fails",
    "test_streams_live",
)
#: Older versions of PySpark leave sockets to the garbage collector.
_WARNINGS = (
    *("-W", "ignore::ResourceWarning"),
    *("-W", "ignore::pytest.PytestUnraisableExceptionWarning"),
)
_SINK = "org.apache.spark:spark-sql-kafka-0-10_2.13"
_INSTALL_S, _TESTS_S = 900, 5400


def environment(folder: Path, version: str) -> Path:
    """Make the environment of a version if it is missing; return its Python."""
    home = folder / version
    python = home / "bin/python"
    if not python.exists():
        venv.create(home, with_pip=True)
        command = [str(python), "-m", "pip", "install", "-q", f"pyspark=={version}"]
        subprocess.run(command, check=True, timeout=_INSTALL_S)
        (site,) = home.glob("lib/python*/site-packages")
        # Also the .pth files there: kafkaguard itself is installed by one.
        others = sysconfig.get_paths()["purelib"]
        (site / "shared.pth").write_text(f"import site; site.addsitedir({others!r})\n")
    return python


def tried(python: Path, version: str, tests: list[str]) -> tuple[int, int]:
    """Run the tests; return the number of tests, and how many did not pass."""
    sink = VERSIONS.get(version, version)
    left_out = NOT_IN_4_0 if version.startswith("4.0.") else ()
    more = ["-k", f"not ({' or '.join(left_out)})"] if left_out else []
    options = [*_WARNINGS, *more, *tests]
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.xml"
        subprocess.run(
            [str(python), "-m", "pytest", "-q", f"--junit-xml={result}", *options],
            check=False,
            cwd=ROOT,
            env={**os.environ, "SPARK_CONNECTOR": f"{_SINK}:{sink}"},
            timeout=_TESTS_S,
        )
        suite = ET.parse(result).getroot()[0]  # noqa: S314 - pytest wrote it
    counts = {name: int(suite.get(name, 0)) for name in ("tests", "failures", "errors")}
    return counts["tests"], counts["failures"] + counts["errors"]


def main() -> None:
    """Try the named versions, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("versions", nargs="*", default=[*VERSIONS])
    parser.add_argument("--folder", type=Path, help="keeps the environments")
    parser.add_argument("--tests", nargs="+", default=TESTS, help="for pytest")
    given = parser.parse_args()
    folder = given.folder or Path(tempfile.mkdtemp(prefix="pyspark-versions-"))
    rows = []
    for version in given.versions:
        tests, failed = tried(environment(folder, version), version, [*given.tests])
        rows.append(f"| {version} | {tests} | {failed} |")
    print("| PySpark | tests | not passed |\n| --- | --- | --- |", *rows, sep="\n")


if __name__ == "__main__":
    main()
