"""The text of a policy file: a regular file of limited size, in UTF-8."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaguard_policies.model.problems import PolicyError, Problem

if TYPE_CHECKING:
    from pathlib import Path

#: A policy has a few kilobytes; a larger file is another kind of file.
MOST_BYTES = 1024 * 1024


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
        message = f"{path} cannot be read: {reason}"
        raise PolicyError(str(path), [Problem(message)]) from error
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        message = "is not UTF-8: save it as UTF-8"
        raise PolicyError(str(path), [Problem(message, line=line)]) from None


def _content(path: Path) -> bytes:
    if path.exists() and not path.is_file():  # a pipe would block
        raise OSError("it is not a regular file")
    if (size := path.stat().st_size) > MOST_BYTES:
        raise OSError(f"it has {size} bytes, and a policy at most {MOST_BYTES}")
    return path.read_bytes()
