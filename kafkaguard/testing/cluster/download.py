"""Fetching jars from Maven Central, or from a repository that mirrors it.

jgo resolves dependencies as Maven does, so neither Maven nor Java is needed here.
"""

from __future__ import annotations

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kafkaguard._common.extras import require
from kafkaguard.testing.cluster.errors import JarsNotFoundError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

#: The environment variable that holds the address of a mirror.
MIRROR: Final = "KAFKAGUARD_MAVEN_REPOSITORY"
_TIMEOUT_S: Final = 600
_ANSWER_TIMEOUT_S: Final = 30
_PARALLEL: Final = 8


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


def fetch(artifacts: Sequence[Artifact], folder: Path, *, alone: bool = False) -> None:
    """Put jars into a folder, within 10 minutes.

    Args:
        artifacts: Which.
        folder: An empty folder.
        alone: Leave out what they depend on.

    Raises:
        JarsNotFoundError: They cannot be fetched; says why.
    """
    wanted = ", ".join(map(str, artifacts))
    try:
        require("fetching Kafka's jars", "testing", "jgo")
    except ModuleNotFoundError as error:
        raise JarsNotFoundError(str(error)) from None
    pool = ThreadPoolExecutor(_PARALLEL, thread_name_prefix="kafkaguard-fetch")
    try:
        pool.submit(_fetch, artifacts, folder, pool, alone=alone).result(_TIMEOUT_S)
    except Exception as error:
        why = str(error) or f"not done in {_TIMEOUT_S} s"
        raise JarsNotFoundError(f"cannot fetch {wanted}: {why}") from error
    finally:
        # Not waited for: what does not answer would keep the caller beyond its time.
        pool.shutdown(wait=False, cancel_futures=True)


def _fetch(
    artifacts: Sequence[Artifact],
    folder: Path,
    pool: ThreadPoolExecutor,
    *,
    alone: bool,
) -> None:
    from jgo.maven import MavenContext

    mirror = os.environ.get(MIRROR)
    context = MavenContext(
        # Not the user's own ~/.m2: jgo takes half a file there for a whole one.
        repo_cache=folder.with_name("repository"),
        remote_repos={"mirror": mirror} if mirror else None,
        timeout=_ANSWER_TIMEOUT_S,
    )
    named = [context.create_dependency(str(each)) for each in artifacts]
    needed = [] if alone else context.resolver.resolve(named)[1]
    jars = [each.artifact for each in (*named, *needed)]
    for jar in pool.map(lambda each: each.resolve(), jars):
        shutil.move(jar, folder)
