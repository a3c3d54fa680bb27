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
    from kafkaguard.cli.interrupts import exit_code, sigterm_interrupts

    sigterm_interrupts()
    try:
        from kafkaguard.cli.group import open_streams, run

        open_streams()
        code = run(sys.argv[1:])
    except KeyboardInterrupt as interrupt:
        code = exit_code(interrupt)
    sys.exit(code)
