"""Output of commands: plain text, without markup.

Names, paths and brokers' texts come from outside, so they are escaped. In a pipe or a
file no line is folded, so that a search finds whole names. A table that is wider than
the terminal leaves out its optional columns. If that is not enough, it prints each row
as a block of lines. It never breaks a name.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console, Group
from rich.measure import measure_renderables
from rich.table import Table
from rich.text import Text

from kafkaguard._common.text import plain, plain_lines

if TYPE_CHECKING:
    from rich.console import ConsoleOptions, RenderableType, RenderResult

_WIDE = 100_000


def console(*, stderr: bool = False, quiet: bool = False) -> Console:
    """Return a console that interprets no markup and is as wide as its output needs.

    If ``NO_COLOR`` is in the environment, it prints no styles, neither color nor bold.
    """
    colors: Any = None if os.environ.get("NO_COLOR") else "auto"
    made = Console(
        stderr=stderr,
        quiet=quiet,
        markup=False,
        emoji=False,
        highlight=False,
        color_system=colors,
    )
    if not made.is_terminal and "COLUMNS" not in os.environ:
        made.width = _WIDE
    return made


class PlainTable(Table):
    """A table whose cells are text, printed by :func:`console`."""

    def add_row(self, *cells: RenderableType | None, **options: object) -> None:
        """Add a row, whose text is escaped."""
        shown = (plain(each) if isinstance(each, str) else each for each in cells)
        super().add_row(*shown, **options)  # type: ignore[arg-type]  # as they come

    def leave_out(self, *headings: str) -> None:
        """Set the columns to leave out in a narrow terminal, the first one first."""
        self._optional = headings

    _optional: tuple[str, ...] = ()

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> RenderResult:
        """Draw the table in the available width."""
        left_out: list[str] = []
        for heading in self._optional:
            if self._fits(console, options):
                break
            left_out.append(heading)
            self.columns = [c for c in self.columns if c.header != heading]
        if self._fits(console, options):
            self._share_room(console, options)
            yield from super().__rich_console__(console, options)
            for column in self.columns:
                column.width = None
        else:
            yield self._as_blocks()
        if left_out:
            words = ", ".join(left_out)
            yield Text(f"Not shown in this width: {words}. --json has everything.")

    def _fits(self, console: Console, options: ConsoleOptions) -> bool:
        """Return whether the table fits without breaking a word."""
        unbounded = options.update(max_width=_WIDE)
        least = self.__rich_measure__(console, unbounded).minimum
        return least <= options.max_width

    def _share_room(self, console: Console, options: ConsoleOptions) -> None:
        """Set widths that break no word where not every row fits into one line.

        rich itself makes the widest columns narrower, whatever is in them.
        """
        unbounded = options.update(max_width=_WIDE)
        whole = self.__rich_measure__(console, unbounded)
        if whole.maximum <= options.max_width:
            return
        needs = [
            measure_renderables(console, unbounded, [column.header, *column.cells])
            for column in self.columns
        ]
        widths = [need.minimum for need in needs]
        for _ in range(options.max_width - whole.minimum):
            fuller = [n for n, need in enumerate(needs) if widths[n] < need.maximum]
            widths[min(fuller, key=widths.__getitem__)] += 1
        for column, width in zip(self.columns, widths, strict=True):
            column.width = width

    def _as_blocks(self) -> Group:
        """Write each row as lines of heading and value, with an empty line between."""
        lines = [Text(str(self.title)), Text()] if self.title else []
        cells = zip(*(column.cells for column in self.columns), strict=True)
        for row in cells:
            for column, cell in zip(self.columns, row, strict=True):
                if str(cell):
                    line = Text.assemble(f"{column.header}: ", cell, overflow="fold")
                    lines.append(line)
            lines.append(Text())
        return Group(*lines[:-1])


def styled(text: object, style: str) -> Text:
    """Return text for a cell or a line, in a style."""
    return Text(plain(text), style)


def say(text: object, *, err: bool = False) -> None:
    """Print lines of text."""
    click.echo(plain_lines(text), err=err)
