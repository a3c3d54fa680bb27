"""The command line, ``kafkaguard``. Commands are loaded when they are called."""

from __future__ import annotations

import sys

from kafkaguard._common.extras import require


def main() -> None:
    """Run the command line; without the ``cli`` extra, say how to install it."""
    try:
        require("the command line", "cli", "click", "rich")
    except ModuleNotFoundError as missing:
        sys.stderr.write(f"kafkaguard: {missing}\n")
        sys.exit(2)
    from kafkaguard.cli.group import open_streams, run

    open_streams()
    sys.exit(run(sys.argv[1:]))
