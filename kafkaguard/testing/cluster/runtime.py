"""Commands that run a Kafka class on a Java runtime."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkaguard.testing.cluster.jars import kafka_jars, tiered_jars
from kafkaguard.testing.cluster.java import java

if TYPE_CHECKING:
    from pathlib import Path

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
