"""Output of commands: plain text without markup, and the progress on stderr.

Names, paths and brokers' texts come from outside, so they are escaped. In a pipe or a
file no line is folded, so that a search finds whole names. A table that is wider than
the terminal leaves out its optional columns. If that is not enough, it prints each row
as a block of lines. It never breaks a name.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console, Group
from rich.measure import measure_renderables
from rich.table import Table
from rich.text import Text

from kafkaguard._common.text import plain, plain_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession
    from rich.console import ConsoleOptions, RenderableType, RenderResult

    from kafkaguard_adapters.spark.report import WriteReport


_WIDE = 100_000


def console(*, stderr: bool = False, quiet: bool = False) -> Console:
    """Return a console that interprets no markup and is as wide as its output needs.

    If ``NO_COLOR`` is in the environment, it prints no styles, neither color nor bold.
    """
    colors: Any = None if os.environ.get("NO_COLOR") else "auto"
    screen = Console(
        stderr=stderr,
        quiet=quiet,
        markup=False,
        emoji=False,
        highlight=False,
        color_system=colors,
    )
    if not screen.is_terminal and "COLUMNS" not in os.environ:
        screen.width = _WIDE
    return screen


class PlainTable(Table):
    """A table whose cells are text, printed by :func:`console`."""

    def add_row(self, *cells: RenderableType | None, **options: object) -> None:
        """Add a row, whose text is escaped."""
        texts = (plain(each) if isinstance(each, str) else each for each in cells)
        super().add_row(*texts, **options)  # type: ignore[arg-type]  # as they come

    def leave_out(self, *headings: str) -> None:
        """Set the columns to leave out in a narrow terminal, the first one first."""
        self._optional = headings

    _optional: tuple[str, ...] = ()

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> RenderResult:
        """Draw the table in the available width."""
        hidden: list[str] = []
        for heading in self._optional:
            if self._fits(console, options):
                break
            hidden.append(heading)
            self.columns = [c for c in self.columns if c.header != heading]
        if self._fits(console, options):
            self._share_room(console, options)
            yield from super().__rich_console__(console, options)
            for column in self.columns:
                column.width = None
        else:
            yield self._as_blocks()
        if hidden:
            words = ", ".join(hidden)
            yield Text(f"Not shown in this width: {words}. --json has everything.")

    def _fits(self, console: Console, options: ConsoleOptions) -> bool:
        """Return whether the table fits without breaking a word."""
        unbounded = options.update(max_width=_WIDE)
        minimum = self.__rich_measure__(console, unbounded).minimum
        return minimum <= options.max_width

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


_GLANCE_S = 1.0


class Progress:
    """Prints the progress of a job, with the seconds since its start."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._last = ""

    def say(self, text: str) -> None:
        """Print a text, unless it is the same as the last one."""
        if text != self._last:
            self._last = text
            say(f"[{time.monotonic() - self._started:3.0f} s] {text}", err=True)

    def batch(self, report: WriteReport, batch_id: int) -> None:
        """Print the result of a micro-batch."""
        self.say(f"batch {batch_id}: {report}")

    @contextmanager
    def of(self, spark: SparkSession) -> Iterator[None]:
        """Print the progress of a session's running stages until the block ends."""
        stop = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(spark, stop), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            stop.set()
            watcher.join(_GLANCE_S * 2)

    def _watch(self, spark: SparkSession, stop: threading.Event) -> None:
        tracker = spark.sparkContext.statusTracker()
        while not stop.wait(_GLANCE_S):
            for stage in tracker.getActiveStageIds():
                info = tracker.getStageInfo(stage)
                if info is not None:
                    tasks = f"{info.numCompletedTasks} of {info.numTasks} tasks done"
                    self.say(f"stage {stage}: {tasks}")
