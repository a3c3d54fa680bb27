"""What a name stands for that somebody has typed."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Literal


def kind_of(name: str | Path) -> Literal["file", "folder"] | None:
    """Return what a name stands for; None: nothing, or it is no name of a file.

    ``Path.is_dir()`` raises an error for a name that is too long.
    """
    try:
        mode = Path(name).stat().st_mode if str(name) else None
    except (OSError, ValueError):
        return None
    if mode is None:
        return None
    return "folder" if stat.S_ISDIR(mode) else "file"
