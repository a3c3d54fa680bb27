"""The text of a policy file: a regular file of limited size, in UTF-8."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from kafkaguard_policies.model.problems import PolicyError, Problem

if TYPE_CHECKING:
    from pathlib import Path

#: A policy has a few kilobytes; a larger file is another kind of file.
MOST_BYTES = 1024 * 1024
_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


def read_text(path: Path) -> str:
    """Read a policy file.

    Raises:
        PolicyError: The file does not exist, is not a regular file, has more than 1
            MiB, or is not UTF-8.
    """
    try:
        content = _content(path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise _refused(path, f"{path} cannot be read: {reason}") from error
    return _decoded(content, path)


def _content(path: Path) -> bytes:
    # Opening a pipe without a writer would block.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            kind = next((k for test, k in _KINDS if test(found.st_mode)), "none")
            raise OSError(f"it must be a regular file, and is {kind}")
        if found.st_size > MOST_BYTES:
            raise OSError(
                f"it has {found.st_size} bytes, and a policy at most {MOST_BYTES}; "
                f"is it another file?"
            )
        return file.read(MOST_BYTES)


def _decoded(content: bytes, path: Path) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        message = "is not UTF-8: save it as UTF-8"
        raise PolicyError(str(path), [Problem(message, line=line)]) from None


def _refused(path: Path, message: str) -> PolicyError:
    return PolicyError(str(path), [Problem(message)])
