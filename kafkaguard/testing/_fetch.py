"""Fetching a broker's jars from Maven Central, with Maven or with Ivy.

Ivy comes inside the pyspark wheel, so pip and Java are enough. Both are told the same
three things: the broker, a logger that writes to stderr, and the class that plays the
remote storage of tiered topics, which Kafka publishes with its tests.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from kafkaguard.testing._errors import JarsNotFoundError
from kafkaguard.testing._java import java

if TYPE_CHECKING:
    from collections.abc import Sequence

LOGGER_VERSION = "1.7.36"
# Not every version has its test jar published; this one serves the others too.
TIERED_VERSION = "4.3.1"
_TIMEOUT_S = 600

_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>kafkaguard</groupId>
  <artifactId>broker</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka_2.13</artifactId>
      <version>{version}</version>
    </dependency>
    <dependency>
      <groupId>org.slf4j</groupId>
      <artifactId>slf4j-simple</artifactId>
      <version>{logger}</version>
    </dependency>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka-storage</artifactId>
      <version>{tiered}</version>
      <classifier>test</classifier>
    </dependency>
  </dependencies>
</project>
"""
# Configurations of their own keep one version of kafka-storage from evicting the other.
_IVY = """\
<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="kafkaguard" module="broker"/>
  <configurations><conf name="broker"/><conf name="tiered"/></configurations>
  <dependencies>
    <dependency org="org.apache.kafka" name="kafka_2.13" rev="{version}"
                conf="broker->default"/>
    <dependency org="org.slf4j" name="slf4j-simple" rev="{logger}"
                conf="broker->default"/>
    <dependency org="org.apache.kafka" name="kafka-storage" rev="{tiered}"
                conf="tiered->default" transitive="false">
      <artifact name="kafka-storage" type="jar" m:classifier="test"/>
    </dependency>
  </dependencies>
</ivy-module>
"""


def fetch(version: str, folder: Path, ivy_cache: Path) -> None:
    """Put the jars of a Kafka version into a folder, with the first way that works.

    Raises:
        JarsNotFoundError: No way is there, or none worked; says why for each.
    """
    failures = []
    if maven := shutil.which("mvn"):
        try:
            return _with_maven(maven, version, folder)
        except JarsNotFoundError as error:
            failures.append(str(error))
    if ivy := _ivy_jar():
        try:
            return _with_ivy(ivy, version, folder, ivy_cache)
        except JarsNotFoundError as error:
            failures.append(str(error))
    reason = "\n".join(failures) or "neither Maven nor pyspark (for its Ivy) is there"
    raise JarsNotFoundError(f"cannot fetch the jars of Kafka {version}: {reason}")


def _with_maven(maven: str, version: str, folder: Path) -> None:
    pom = folder.with_name(f"{folder.name}-pom.xml")
    pom.write_text(_describe(_POM, version))
    goal = "dependency:copy-dependencies"
    options = [f"-DoutputDirectory={folder}", "-DincludeScope=runtime"]
    _run([maven, "--batch-mode", "--file", str(pom), goal, *options])
    pom.unlink()


def _with_ivy(ivy: Path, version: str, folder: Path, ivy_cache: Path) -> None:
    module = folder.with_name(f"{folder.name}-ivy.xml")
    module.write_text(_describe(_IVY, version))
    # Looking for sources and documentation triples the number of requests.
    options = [f"-Divy.maven.lookup.{of}=false" for of in ("sources", "javadoc")]
    command = [str(java()), *options, "-jar", str(ivy), "-cache", str(ivy_cache)]
    pattern = f"{folder}/[artifact]-[revision](-[classifier]).[ext]"
    confs = ["-confs", "broker", "tiered"]
    _run([*command, "-ivy", str(module), *confs, "-retrieve", pattern])
    module.unlink()


def _describe(template: str, version: str) -> str:
    return template.format(
        version=version, logger=LOGGER_VERSION, tiered=TIERED_VERSION
    )


def _ivy_jar() -> Path | None:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        return None
    return next(Path(spec.origin).parent.glob("jars/ivy-*.jar"), None)


def _run(command: Sequence[str]) -> None:
    """Run a fetching command to its end.

    Raises:
        JarsNotFoundError: It failed or took too long; with the last lines it said.
    """
    environment = {**os.environ, "JAVA_HOME": str(java().resolve().parent.parent)}
    try:
        result = subprocess.run(
            command,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise JarsNotFoundError(f"{command[0]}: not done in {_TIMEOUT_S} s") from error
    if result.returncode:
        raise JarsNotFoundError(f"{command[0]} failed: {_reason(result.stdout)}")


def _reason(said: str) -> str:
    lines = [line.strip(" :\t") for line in said.splitlines()]
    telling = [line for line in lines if re.search(r"ERROR|not found|Exception", line)]
    return (telling or lines)[0] if lines else "it said nothing"
