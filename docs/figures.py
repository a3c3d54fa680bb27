"""Directives that draw the figures of ``figures.yaml``: performance and reliability."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from sphinx.util.docutils import SphinxDirective
from tables import parse, table

if TYPE_CHECKING:
    from docutils import nodes
    from sphinx.application import Sphinx

FIGURES = Path(__file__).with_name("figures.yaml")
#: Before a gate below which a benchmark fails.
LEAST = "at least "


def figures() -> dict[str, Any]:
    """Read the file."""
    read: dict[str, Any] = yaml.safe_load(FIGURES.read_text())
    return read


class PerformanceTables(SphinxDirective):
    """A table for each benchmark."""

    def run(self) -> list[nodes.Node]:
        """Draw them, with the machine in front."""
        self.env.note_dependency(str(FIGURES))
        given = figures()
        lines = [f"Machine: {given['machine']}. Clients: {given['clients']}.", ""]
        for area in given["performance"]:
            lines += [f"## {area['title']}", "", f"Figures are {area['unit']}.", ""]
            for part in area["parts"]:
                lines += [_head(part), "", *_rows(part["rows"]), ""]
        return parse(self, lines)


def _head(part: dict[str, Any]) -> str:
    return (
        f"`python -m benchmarks {part['benchmark']}` ({part['date']}): {part['says']}"
    )


def _rows(rows: list[list[Any]]) -> list[str]:
    drawn = (
        (what, str(measured), str(spread), _gate(measured, gate))
        for what, measured, spread, gate in rows
    )
    return table(("What", "Median", "From, to", "Gate"), drawn)


def _gate(measured: float, gate: float | str) -> str:
    if gate == "":
        return ""
    number = str(gate).removeprefix(LEAST)
    limit = float(number)
    is_missed = measured < limit if number != str(gate) else measured > limit
    return f"{gate}, missed" if is_missed else str(gate)


class ReliabilityTable(SphinxDirective):
    """A row for each long run."""

    def run(self) -> list[nodes.Node]:
        """Draw it."""
        self.env.note_dependency(str(FIGURES))
        rows = (
            (
                f"{each['run']}: {each['what']}",
                ", ".join(str(each[key]) for key in ("size", "date") if key in each),
                each["result"],
            )
            for each in figures()["reliability"]
        )
        return parse(self, table(("Run", "Size and date", "Result"), rows))


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directives."""
    app.add_directive("performance-tables", PerformanceTables)
    app.add_directive("reliability-table", ReliabilityTable)
    return {"parallel_read_safe": True}
