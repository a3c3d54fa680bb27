"""Download jars from Maven Central or a mirror.

jgo resolves dependencies as Maven does, so neither Maven nor Java is needed here.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kafkaguard._common.extras import require
from kafkaguard.testing.cluster.errors import JarsNotFoundError

if TYPE_CHECKING:
    from collections.abc import Sequence

_TIMEOUT_S: Final = 600


@dataclass(frozen=True, slots=True)
class Artifact:
    """The Maven coordinates of a jar."""

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
        """Return the coordinates as Maven's commands write them."""
        parts = (self.group, self.name, self.version, self.classifier)
        return ":".join(filter(None, parts))


def fetch(artifacts: Sequence[Artifact], folder: Path, *, alone: bool = False) -> None:
    """Download jars into a folder, within 10 minutes.

    Args:
        artifacts: The jars.
        folder: An empty folder.
        alone: Whether to leave out their dependencies.

    Raises:
        JarsNotFoundError: They cannot be downloaded; the text says why.
    """
    wanted = ", ".join(map(str, artifacts))
    try:
        require("fetching Kafka's jars", "testing", "jgo")
    except ModuleNotFoundError as error:
        raise JarsNotFoundError(str(error)) from None
    program = Path(__file__).with_name("jgo_program.py")
    # -P: otherwise modules beside the program would hide modules of the same name.
    python = [sys.executable, "-P", "-W", "ignore", str(program)]
    which = "alone" if alone else "all"
    try:
        done = subprocess.run(
            [*python, str(folder), which, *map(str, artifacts)],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        why = f"not done in {_TIMEOUT_S} s"
        raise JarsNotFoundError(f"cannot fetch {wanted}: {why}") from error
    if done.returncode:
        said = done.stderr.strip().splitlines()
        why = said[-1] if said else f"the program ended with {done.returncode}"
        raise JarsNotFoundError(f"cannot fetch {wanted}: {why}")
