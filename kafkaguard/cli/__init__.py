"""The command line, ``kafkaguard``."""

from __future__ import annotations


def main() -> None:
    """Run the command line; needs the ``cli`` extra."""
