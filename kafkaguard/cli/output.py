"""What commands print for people: text is text, and never markup.

Names, paths and brokers' words come from outside. Where the output goes into a pipe or
a file nothing is folded, so that what is looked for can be found.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kafkaguard._common.text import plain, plain_lines

if TYPE_CHECKING:
    from rich.console import RenderableType

_WIDE = 100_000


def console(*, stderr: bool = False, quiet: bool = False) -> Console:
    """Return a console that reads no markup, as wide as its output needs."""
    made = Console(
        stderr=stderr, quiet=quiet, markup=False, emoji=False, highlight=False
    )
    if not made.is_terminal and "COLUMNS" not in os.environ:
        made.width = _WIDE
    return made


class PlainTable(Table):
    """A table whose cells are text, printed by :func:`console`."""

    def add_row(self, *cells: RenderableType | None, **options: object) -> None:
        """Add a row; text in it is written so that it can only be read."""
        shown = (plain(each) if isinstance(each, str) else each for each in cells)
        super().add_row(*shown, **options)  # type: ignore[arg-type]  # as they come


def styled(text: object, style: str) -> Text:
    """Return text for a cell or a line, in a style."""
    return Text(plain(text), style)


def say(text: object, *, err: bool = False) -> None:
    """Print lines of text."""
    click.echo(plain_lines(text), err=err)
