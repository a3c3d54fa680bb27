"""Fetching jars from Maven Central, with Maven or with Ivy.

Ivy comes inside the pyspark wheel, so pip and Java are enough.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kafkaguard.testing.cluster.errors import JarsNotFoundError
from kafkaguard.testing.cluster.java import java

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_TIMEOUT_S = 600

_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>kafkaguard</groupId>
  <artifactId>jars</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>{dependencies}
  </dependencies>
</project>
"""
_POM_DEPENDENCY = """
    <dependency>
      <groupId>{group}</groupId>
      <artifactId>{name}</artifactId>
      <version>{version}</version>
      <classifier>{classifier}</classifier>
    </dependency>"""
_IVY = """\
<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="kafkaguard" module="jars"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>{dependencies}
  </dependencies>
</ivy-module>
"""
_IVY_DEPENDENCY = """
    <dependency org="{group}" name="{name}" rev="{version}" conf="default->default">
      <artifact name="{name}" type="jar" m:classifier="{classifier}"/>
    </dependency>"""


@dataclass(frozen=True, slots=True)
class Artifact:
    """A jar as Maven names it."""

    group: str
    name: str
    version: str
    classifier: str = ""

    @property
    def file_name(self) -> str:
        """The jar's file name."""
        parts = (self.name, self.version, self.classifier)
        return "-".join(filter(None, parts)) + ".jar"

    def __str__(self) -> str:
        """Name it as Maven's commands do."""
        parts = (self.group, self.name, self.version, self.classifier)
        return ":".join(filter(None, parts))


def fetch(
    artifacts: Sequence[Artifact], folder: Path, ivy_cache: Path, *, alone: bool = False
) -> None:
    """Put jars into a folder, with the first way that works.

    Args:
        artifacts: Which.
        folder: An empty folder.
        ivy_cache: Where Ivy keeps what it has seen.
        alone: Leave out what they depend on.

    Raises:
        JarsNotFoundError: No way is there, or none worked; says why for each.
    """
    failures = []
    if maven := shutil.which("mvn"):
        try:
            return _with_maven(maven, artifacts, folder, alone=alone)
        except JarsNotFoundError as error:
            failures.append(str(error))
    if ivy := _ivy_jar():
        try:
            return _with_ivy(ivy, artifacts, folder, ivy_cache, alone=alone)
        except JarsNotFoundError as error:
            failures.append(str(error))
    wanted = ", ".join(map(str, artifacts))
    reason = "\n".join(failures) or "neither Maven nor pyspark (for its Ivy) is there"
    raise JarsNotFoundError(f"cannot fetch {wanted}: {reason}")


def _with_maven(
    maven: str, artifacts: Iterable[Artifact], folder: Path, *, alone: bool
) -> None:
    pom = folder.with_name("pom.xml")
    pom.write_text(_describe(_POM, _POM_DEPENDENCY, artifacts))
    goal = ["--file", str(pom), "dependency:copy-dependencies"]
    options = [f"-DoutputDirectory={folder}", "-DincludeScope=runtime"]
    if alone:
        options.append("-DexcludeTransitive=true")
    _run([maven, "--batch-mode", *goal, *options])


def _with_ivy(
    ivy: Path,
    artifacts: Iterable[Artifact],
    folder: Path,
    cache: Path,
    *,
    alone: bool,
) -> None:
    module = folder.with_name("ivy.xml")
    module.write_text(_describe(_IVY, _IVY_DEPENDENCY, artifacts))
    # Looking for sources and documentation triples the number of requests.
    system = [f"-Divy.maven.lookup.{of}=false" for of in ("sources", "javadoc")]
    pattern = f"{folder}/[artifact]-[revision](-[classifier]).[ext]"
    options = ["-ivy", str(module), "-confs", "default", "-retrieve", pattern]
    if alone:
        options.append("-notransitive")
    _run([str(java()), *system, "-jar", str(ivy), "-cache", str(cache), *options])


def _describe(document: str, dependency: str, artifacts: Iterable[Artifact]) -> str:
    described = [
        dependency.format(
            group=each.group,
            name=each.name,
            version=each.version,
            classifier=each.classifier,
        )
        for each in artifacts
    ]
    return document.format(dependencies="".join(described))


def _ivy_jar() -> Path | None:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        return None
    return next(Path(spec.origin).parent.glob("jars/ivy-*.jar"), None)


def _run(command: Sequence[str]) -> None:
    """Run a fetching command to its end.

    Raises:
        JarsNotFoundError: It failed or took too long; with the reason that it gave.
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
    """Pick the line that says why, of the many that Maven and Ivy write."""
    lines = [line.strip(" :\t") for line in said.splitlines() if line.strip(" :\t")]
    why = re.compile(r"\[ERROR\]|NOT FOUND|FAILED DOWNLOADS|not found|Exception|Error")
    return next(filter(why.search, lines), lines[-1] if lines else "it said nothing")
