"""The broker's jars: where they are kept, and that they are whole.

Sequence of a first use: take the cache's lock, look again, fetch into a folder
beside the final one, open every jar, write the list of names and sizes, rename. A
process that waited for the lock finds the work done; one that died leaves nothing that
looks complete.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import sys
import tempfile
import time
import zipfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kafkaguard.testing._errors import JarsNotFoundError
from kafkaguard.testing._fetch import LOGGER_VERSION, TIERED_VERSION, fetch

if TYPE_CHECKING:
    from collections.abc import Iterator

DEFAULT_VERSION = "4.3.1"
TIERED_JAR = f"kafka-storage-{TIERED_VERSION}-test.jar"
_LIST = "jars.json"
_CLOSED_NETWORK = (
    "On a network without Maven Central, set KAFKAGUARD_KAFKA_JARS to a folder of "
    "these jars (the libs folder of a Kafka download does)."
)


def kafka_jars(version: str = DEFAULT_VERSION) -> Path:
    """Find the jars of a Kafka broker, fetching them on first use.

    ``KAFKAGUARD_KAFKA_JARS`` names a folder that is taken as it is (or its sub-folder
    named after the version). Otherwise the jars, 43 MB, are fetched once from Maven
    Central and kept in ``KAFKAGUARD_CACHE``, else in ``kafkaguard`` below
    ``XDG_CACHE_HOME`` (``~/.cache``).

    Args:
        version: The Kafka version, such as ``4.3.1``.

    Returns:
        The folder; ``java -cp 'FOLDER/*'`` uses it.

    Raises:
        JarsNotFoundError: No such version, no way to fetch it, or an incomplete folder.
        JavaNotFoundError: The jars must be fetched and there is no Java to do it.
    """
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise JarsNotFoundError(
            f"{version!r} is no Kafka version; expected one such as {DEFAULT_VERSION}"
        )
    if given := os.environ.get("KAFKAGUARD_KAFKA_JARS"):
        return _given_folder(Path(given), version)
    folder = _cache() / f"kafka-{version}"
    if not _is_complete(folder):
        _fetch_once(version, folder)
    return folder


def _cache() -> Path:
    if given := os.environ.get("KAFKAGUARD_CACHE"):
        return Path(given).absolute()
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home).absolute() / "kafkaguard"


def _given_folder(folder: Path, version: str) -> Path:
    if (folder / version).is_dir():
        folder /= version
    if missing := _missing(folder, _jars_of_kafka(version)):
        raise JarsNotFoundError(
            f"KAFKAGUARD_KAFKA_JARS: {folder} lacks {', '.join(missing)}. Put the jars "
            f"of Kafka {version} there, or unset the variable to fetch them."
        )
    return folder.absolute()


def _jars_of_kafka(version: str) -> list[str]:
    parts = ("kafka_2.13", "kafka-clients", "kafka-server", "kafka-storage")
    return [f"{part}-{version}.jar" for part in parts]


def _missing(folder: Path, names: list[str]) -> list[str]:
    return [name for name in names if not (folder / name).is_file()]


def _is_complete(folder: Path) -> bool:
    try:
        expected: dict[str, int] = json.loads((folder / _LIST).read_text())
        return expected == _sizes(folder)
    except (OSError, ValueError):
        return False


def _sizes(folder: Path) -> dict[str, int]:
    return {jar.name: jar.stat().st_size for jar in sorted(folder.glob("*.jar"))}


def _fetch_once(version: str, folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _lock(folder.parent / "fetch.lock"):
        if not _is_complete(folder):
            _fetch(version, folder)


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _fetch(version: str, folder: Path) -> None:
    _say(f"fetching the jars of Kafka {version} (43 MB, once) into {folder}")
    started = time.monotonic()
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="fetch-") as scratch:
        fresh = Path(scratch) / "jars"
        fresh.mkdir()
        fetch(version, fresh, ivy_cache=folder.parent / "ivy")
        _verify(fresh, version)
        (fresh / _LIST).write_text(json.dumps(_sizes(fresh), indent=1))
        shutil.rmtree(folder, ignore_errors=True)
        fresh.rename(folder)
    _say(f"fetched them in {time.monotonic() - started:.0f} s")


def _verify(folder: Path, version: str) -> None:
    extra = [f"slf4j-simple-{LOGGER_VERSION}.jar", TIERED_JAR]
    broken = _missing(folder, [*_jars_of_kafka(version), *extra])
    broken += [jar.name for jar in folder.glob("*.jar") if not _opens(jar)]
    if broken:
        raise JarsNotFoundError(
            f"the jars of Kafka {version} came incomplete or damaged "
            f"({', '.join(broken)}). Try again. {_CLOSED_NETWORK}"
        )


def _opens(jar: Path) -> bool:
    try:
        with zipfile.ZipFile(jar) as archive:
            return archive.testzip() is None
    except zipfile.BadZipFile:
        return False


def _say(text: str) -> None:
    sys.stderr.write(f"kafkaguard: {text}\n")
    sys.stderr.flush()
