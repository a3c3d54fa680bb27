"""A program that downloads jars; its arguments: folder, ``alone`` or ``all``, names.

It is a process of its own for two reasons. jgo has no time limit for a whole download.
And jgo does not close its sockets, which fails a test run with warnings as errors.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from jgo.maven import MavenContext
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_fixed

_ANSWER_TIMEOUT_S: Final = 30
_ATTEMPTS: Final = 3
_PARALLEL: Final = 8


class _Strict(logging.Handler):
    """Refuses a jar with a wrong checksum; jgo only logs a warning."""

    def emit(self, record: logging.LogRecord) -> None:
        if "hecksum mismatch" in record.getMessage():
            raise RuntimeError(record.getMessage())


@retry(
    retry=retry_if_exception_type(OSError),  # those of connections are, too
    stop=stop_after_attempt(_ATTEMPTS),
    wait=wait_fixed(1),
    reraise=True,
)
def _fetch(scratch: str, names: list[str], *, alone: bool) -> list[Path]:
    mirror = os.environ.get("KAFKAGUARD_MAVEN_REPOSITORY")
    context = MavenContext(
        # A new folder each time, because jgo takes a partial file for a complete one.
        repo_cache=Path(tempfile.mkdtemp(dir=scratch)),
        remote_repos={"mirror": mirror} if mirror else None,
        timeout=_ANSWER_TIMEOUT_S,
    )
    dependencies = [context.create_dependency(name) for name in names]
    more = [] if alone else context.resolver.resolve(dependencies)[1]
    with ThreadPoolExecutor(_PARALLEL) as pool:
        artifacts = [each.artifact for each in (*dependencies, *more)]
        return list(pool.map(lambda artifact: artifact.resolve(), artifacts))


def main(folder: str, scope: str, *names: str) -> None:
    """Download the jars, then move them into the folder."""
    logging.getLogger("jgo").addHandler(_Strict(logging.WARNING))
    with tempfile.TemporaryDirectory(dir=Path(folder).parent) as scratch:
        for jar in _fetch(scratch, [*names], alone=scope == "alone"):
            shutil.move(jar, folder)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Exception as error:  # noqa: BLE001 - jgo has no errors of its own
        sys.exit(f"{error}")
