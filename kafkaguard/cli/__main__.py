"""``python -m kafkaguard.cli``."""

from kafkaguard.cli import main

main()
