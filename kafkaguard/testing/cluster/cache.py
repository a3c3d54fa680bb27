"""The cache folder, and the lock around it."""

from __future__ import annotations

import fcntl
import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def cache_folder() -> Path:
    """Return ``KAFKAGUARD_CACHE``, or ``kafkaguard`` in the user's cache folder."""
    if folder := os.environ.get("KAFKAGUARD_CACHE"):
        return Path(folder).absolute()
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home).absolute() / "kafkaguard"


@contextmanager
def lock(name: str) -> Iterator[None]:
    """Let only one process at a time work on an item of the cache."""
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def say(text: str) -> None:
    """Print on stderr what takes a long time."""
    sys.stderr.write(f"kafkaguard: {text}\n")
    sys.stderr.flush()
