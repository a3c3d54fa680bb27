"""Find Kafka's jars, download them at the first use, and check that they are complete.

The first use takes the cache's lock, checks again, downloads into a folder beside the
final one, opens each jar, writes the list of names and sizes, and renames the folder. A
process that waited for the lock finds the jars. A process that died leaves no folder
that seems complete. jgo resolves dependencies as Maven does, so neither Maven nor Java
is needed here.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kafkaguard._common.extras import require
from kafkaguard.testing.cluster.cache import cache_folder, lock, say
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
    names = ", ".join(map(str, artifacts))
    try:
        require("fetching Kafka's jars", "testing", "jgo")
    except ModuleNotFoundError as error:
        raise JarsNotFoundError(str(error)) from None
    program = Path(__file__).with_name("jgo_program.py")
    # -P: otherwise modules beside the program would hide modules of the same name.
    python = [sys.executable, "-P", "-W", "ignore", str(program)]
    scope = "alone" if alone else "all"
    try:
        process = subprocess.run(
            [*python, str(folder), scope, *map(str, artifacts)],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        reason = f"not done in {_TIMEOUT_S} s"
        raise JarsNotFoundError(f"cannot fetch {names}: {reason}") from error
    if process.returncode:
        lines = process.stderr.strip().splitlines()
        reason = lines[-1] if lines else f"the program ended with {process.returncode}"
        raise JarsNotFoundError(f"cannot fetch {names}: {reason}")


DEFAULT_VERSION = "4.3.1"
_LIST = "jars.json"
# The broker logs through SLF4J; this binding writes to stderr and needs no file.
_LOGGER = Artifact("org.slf4j", "slf4j-simple", "1.7.36")
_CLOSED_NETWORK = (
    "Where Maven Central cannot be reached, set KAFKAGUARD_MAVEN_REPOSITORY to the "
    "address of a mirror, or KAFKAGUARD_KAFKA_JARS to a folder of the jars, such as "
    "the libs folder of a Kafka download."
)


def kafka_jars(version: str = DEFAULT_VERSION) -> Path:
    """Find the jars of a Kafka broker; the first use downloads them.

    ``KAFKAGUARD_KAFKA_JARS`` names a folder that is used as it is (or its sub-folder
    with the version's name). Otherwise the jars, 43 MB, are downloaded once from Maven
    Central, or from the mirror whose address is in ``KAFKAGUARD_MAVEN_REPOSITORY``.
    They are kept in ``KAFKAGUARD_CACHE``, or else in ``kafkaguard`` below
    ``XDG_CACHE_HOME`` (``~/.cache``).

    Args:
        version: The Kafka version, such as ``4.3.1``.

    Returns:
        The folder; ``java -cp 'FOLDER/*'`` uses it.

    Raises:
        JarsNotFoundError: There is no such version, the download failed, or the folder
            is incomplete.
    """
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise JarsNotFoundError(
            f"{version!r} is not a Kafka version, such as {DEFAULT_VERSION}"
        )
    broker = _kafka_jar("kafka_2.13", version)
    if folder := _configured_folder(version):
        return _check_folder(folder, [broker, _kafka_jar("kafka-clients", version)])
    return _find_or_fetch(f"kafka-{version}", [broker, _LOGGER])


def tiered_jars(version: str) -> Path:
    """Find the jar that Kafka's own tests use as remote storage.

    Raises:
        JarsNotFoundError: It is not published for this version, or cannot be
            downloaded.
    """
    storage = _kafka_jar("kafka-storage", version, "test")
    if folder := _configured_folder(version):
        return _check_folder(folder, [storage])
    try:
        return _find_or_fetch(f"tiered-{version}", [storage], alone=True)
    except JarsNotFoundError as error:
        raise JarsNotFoundError(
            f"tiered storage needs a jar of Kafka's tests, which is not published for "
            f"every version; {DEFAULT_VERSION} has it. {error}"
        ) from error


def _kafka_jar(name: str, version: str, classifier: str = "") -> Artifact:
    return Artifact("org.apache.kafka", name, version, classifier)


def _configured_folder(version: str) -> Path | None:
    path = os.environ.get("KAFKAGUARD_KAFKA_JARS")
    if not path:
        return None
    folder = Path(path).absolute()
    return folder / version if (folder / version).is_dir() else folder


def _check_folder(folder: Path, artifacts: Sequence[Artifact]) -> Path:
    names = [each.file_name for each in artifacts]
    if missing_jars := [name for name in names if not (folder / name).is_file()]:
        raise JarsNotFoundError(
            f"KAFKAGUARD_KAFKA_JARS: {folder} lacks {', '.join(missing_jars)}. "
            "Put it there, or unset the variable to fetch what is needed."
        )
    return folder


def _find_or_fetch(
    name: str, artifacts: Sequence[Artifact], *, alone: bool = False
) -> Path:
    folder = cache_folder() / name
    if _is_complete(folder):
        return folder
    try:
        with lock("fetch"):
            if not _is_complete(folder):
                _fetch(folder, artifacts, alone=alone)
    except OSError as error:
        raise JarsNotFoundError(
            f"cannot keep jars in {folder.parent} ({error}). Set KAFKAGUARD_CACHE to a "
            "folder that can be written."
        ) from error
    return folder


def _is_complete(folder: Path) -> bool:
    try:
        expected: dict[str, int] = json.loads((folder / _LIST).read_text())
        return expected == _sizes(folder)
    except (OSError, ValueError):
        return False


def _sizes(folder: Path) -> dict[str, int]:
    return {jar.name: jar.stat().st_size for jar in sorted(folder.glob("*.jar"))}


def _fetch(folder: Path, artifacts: Sequence[Artifact], *, alone: bool) -> None:
    say(f"fetching {', '.join(map(str, artifacts))}, once, into {folder}")
    started = time.monotonic()
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="fetch-") as scratch:
        fresh = Path(scratch) / "jars"
        fresh.mkdir()
        try:
            fetch(artifacts, fresh, alone=alone)
        except JarsNotFoundError as error:
            raise JarsNotFoundError(f"{error}. {_CLOSED_NETWORK}") from error
        _verify(fresh, artifacts)
        (fresh / _LIST).write_text(json.dumps(_sizes(fresh), indent=1))
        shutil.rmtree(folder, ignore_errors=True)
        fresh.rename(folder)
    say(f"fetched in {time.monotonic() - started:.0f} s")


def _verify(folder: Path, artifacts: Sequence[Artifact]) -> None:
    jars = [folder / each.file_name for each in artifacts]
    bad = [jar.name for jar in {*jars, *folder.glob("*.jar")} if not _is_readable(jar)]
    if bad:
        raise JarsNotFoundError(f"damaged or missing after fetching: {', '.join(bad)}")


def _is_readable(jar: Path) -> bool:
    try:
        with zipfile.ZipFile(jar) as archive:
            return archive.testzip() is None
    except (OSError, zipfile.BadZipFile):
        return False
