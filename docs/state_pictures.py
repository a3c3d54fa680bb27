"""A directive that draws the states of the delivery machine from its tables."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx.util.docutils import SphinxDirective
from svg import drawing, element, text

from kafkaguard._delivery.table import CLIENTS, RECORDS, TOPICS, TRANSACTIONS
from kafkaguard._processing.rounds import ROUNDS
from kafkaguard._processing.run import RUNS
from kafkaguard._processing.slots import SLOTS

if TYPE_CHECKING:
    from sphinx.application import Sphinx

    from kafkaguard._delivery.table import Table

TABLES: dict[str, Table[Any, Any]] = {
    t.name: t for t in (RECORDS, TOPICS, CLIENTS, TRANSACTIONS, RUNS, SLOTS, ROUNDS)
}
_WIDTH, _ROW, _TOP = 860, 62, 34
_MIDDLE, _HALF, _TALL = 430, 62, 26
#: By how much an arrow bends for each row that it passes.
_BEND, _LEAST = 44, 26
_HEAD = 5


def state_picture(table: Table[Any, Any]) -> str:
    """Draw states in a column: arrows down on the right, arrows up on the left."""
    states = list(
        dict.fromkeys(
            s for edge in table.transitions.items() for s in (edge[0][0], edge[1])
        )
    )
    rows = {state: row for row, state in enumerate(states)}
    edges: defaultdict[tuple[int, int], list[str]] = defaultdict(list)
    for (state, event), following in table.transitions.items():
        edges[rows[state], rows[following]].append(_words(event))
    arrows = [_arrow(a, b, ", ".join(names)) for (a, b), names in edges.items()]
    boxes = [_box(row, _words(state)) for state, row in rows.items()]
    height = _TOP * 2 + _ROW * (len(states) - 1)
    return drawing(_WIDTH, height, *arrows, *boxes, css="picture")


def _words(name: str) -> str:
    return str(name).lower().replace("_", " ")


def _y(row: int) -> float:
    return float(_TOP + _ROW * row)


def _box(row: int, name: str) -> str:
    frame = element(
        "rect",
        x=_MIDDLE - _HALF,
        y=_y(row) - _TALL / 2,
        width=2 * _HALF,
        height=_TALL,
        rx=6,
    )
    return frame + text(_MIDDLE, _y(row) + 4, name, text_anchor="middle")


def _arrow(start: int, end: int, label: str) -> str:
    """Draw an arrow; its label stands at its bend, nearer to where it begins."""
    side = 1 if end > start else -1
    distance = abs(end - start)
    edge = _MIDDLE + side * _HALF
    bend = edge + side * (_LEAST + _BEND * distance)
    y, to = _y(start) + 5 * side, _y(end) - 5 * side
    path = element(
        "path",
        d=f"M {edge} {y:.0f} C {bend} {y:.0f} {bend} {to:.0f} {edge} {to:.0f}",
        css="arrow",
    )
    back = edge + side * 9
    tip = ((edge, to), (back, to - _HEAD), (back, to + _HEAD))
    head = element("polygon", points=" ".join(f"{x},{y}" for x, y in tip))
    # Of a Bezier curve's point at a third: a third of arrows would share its middle.
    share = 0.34
    reach = 3 * share * (1 - share)
    at = y + (to - y) * (3 * share**2 - 2 * share**3)
    words = text(
        edge + (bend - edge) * reach + side * 5,
        at + 4,
        label,
        text_anchor="start" if side > 0 else "end",
        font_size=11,
    )
    return path + head + words


class StatePicture(SphinxDirective):
    """The states of ``record``, ``topic``, ``client`` or ``transaction``."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Draw them."""
        drawn = state_picture(TABLES[self.arguments[0]])
        return [nodes.raw("", drawn, format="html")]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("state-picture", StatePicture)
    return {"parallel_read_safe": True}
