"""The command line, ``kafkaguard``. Commands are loaded when they are called."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; without the ``cli`` extra, say how to install it."""
    try:
        import click  # noqa: F401 - only to know whether it is there
        import rich  # noqa: F401 - likewise
    except ImportError as missing:
        sys.stderr.write(
            f"kafkaguard: the command line needs {missing.name}: "
            "pip install 'kafkaguard[cli]'\n"
        )
        sys.exit(2)
    from kafkaguard.cli.group import open_streams, run

    open_streams()
    sys.exit(run(sys.argv[1:]))
