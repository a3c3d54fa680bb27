"""``python -m kafkaguard``."""

from kafkaguard.cli import main

main()
