"""Java class-data archives, which halve the start time of a broker.

To record an archive, a broker runs once, from its start to an orderly end. Java itself
checks that an archive matches its version and the jars, and ignores it otherwise.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

from kafkaguard.testing.cluster.cache import cache_folder, lock, say
from kafkaguard.testing.cluster.errors import StartError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kafkaguard.testing.cluster.java import Runtime


def with_archive(runtime: Runtime, run_once: Callable[[Runtime], None]) -> Runtime:
    """Return a runtime that uses its archive, which is recorded on first use.

    Args:
        runtime: The runtime for brokers.
        run_once: Runs a broker to an orderly end.
    """
    archive = _archive(runtime)
    try:
        if not archive.exists():
            _record(runtime, run_once, archive)
    except (OSError, StartError) as error:
        say(
            "brokers will start slowly: the class archive could not be recorded "
            f"({error})"
        )
    return with_recorded(runtime)


def with_recorded(runtime: Runtime) -> Runtime:
    """Return a runtime that uses its archive, if there is one."""
    archive = _archive(runtime)
    # An empty file means that this Java cannot record.
    if not archive.exists() or not archive.stat().st_size:
        return runtime
    return replace(runtime, options=(f"-XX:SharedArchiveFile={archive}",))


def _archive(runtime: Runtime) -> Path:
    parts = (runtime.java.resolve(), runtime.jars[0])
    stamps = ";".join(f"{part}:{part.stat().st_mtime_ns}" for part in parts)
    fingerprint = hashlib.sha256(stamps.encode()).hexdigest()[:16]
    return cache_folder() / f"classes-{fingerprint}.jsa"


def _record(
    runtime: Runtime, run_once: Callable[[Runtime], None], archive: Path
) -> None:
    with lock("record"):
        if archive.exists():
            return
        say("recording a class archive, once, so that Java starts faster")
        fresh = archive.with_suffix(".fresh")
        options = (f"-XX:ArchiveClassesAtExit={fresh}",)
        run_once(replace(runtime, jars=runtime.jars[:1], options=options))
        fresh.touch()
        fresh.rename(archive)
