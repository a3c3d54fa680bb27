"""Commands that run a Kafka class on a Java runtime."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkaguard.testing.cluster.jars import kafka_jars, tiered_jars
from kafkaguard.testing.cluster.java import java

if TYPE_CHECKING:
    from pathlib import Path

# Brokers of tests live for seconds: start fast, stay small, leave no file elsewhere.
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
        options: What Java is told beside our usual options.
    """

    java: Path
    jars: tuple[Path, ...]
    options: tuple[str, ...] = ()

    @classmethod
    def of(cls, version: str, *, tiered: bool) -> Runtime:
        """Find what a Kafka version needs, fetching its jars on first use."""
        executable = java()  # before the jars: fetching them takes its time
        jars = [kafka_jars(version)]
        if tiered:
            jars.append(tiered_jars(version))
        return cls(executable, tuple(jars))

    def command(self, main_class: str, *arguments: str) -> list[str]:
        """Say how to run a class of Kafka's."""
        classpath = ":".join(f"{folder}/*" for folder in self.jars)
        options = [*_JVM_OPTIONS, *self.options, "-cp", classpath]
        return [str(self.java), *options, main_class, *arguments]
