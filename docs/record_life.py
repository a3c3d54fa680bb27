"""A directive that draws the life of a record; each state links to its page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from docutils import nodes
from sphinx.util.docutils import SphinxDirective
from svg import drawing, element, text

if TYPE_CHECKING:
    from sphinx.application import Sphinx


class State(NamedTuple):
    """A box: where it stands, what is written in it, and its page."""

    x: int
    y: int
    name: str
    made_by: str
    page: str


STATES = (
    State(80, 44, "read", "guard(consumer)", "consumers.html"),
    State(260, 44, "handled", "process(handle)", "processing.html"),
    State(440, 44, "written", "guard(producer)", "producer.html"),
    State(260, 154, "retried", "a retry policy", "policies.html"),
    State(440, 154, "set aside", "on_reject", "policies.html#dead-letters"),
    State(80, 154, "replayed", "kafkaguard replay", "replay.html"),
)
_HALF, _TALL = 67, 46
#: The arrows: a path from one point to another, its words and where they stand.
ARROWS = (
    ("M147 44H193", "", 0, 0),
    ("M327 44H373", "", 0, 0),
    ("M245 67V131", "it may pass", 238, 102),
    ("M275 131V67", "again", 282, 102),
    ("M327 60C352 70 400 95 415 131", "never", 392, 92),
    ("M327 154H373", "", 0, 0),
    (
        "M440 177V194Q440 204 430 204H90Q80 204 80 194V177",
        "the cause is mended",
        260,
        220,
    ),
    ("M80 131V67", "once", 88, 102),
)
_ANCHORS = {238: "end", 260: "middle"}


def life_picture() -> str:
    """Draw the states and the arrows between them."""
    tip = element(
        "marker",
        element("path", d="M0 0L8 4L0 8z"),
        id="life-tip",
        viewBox="0 0 8 8",
        refX=8,
        refY=4,
        markerWidth=8,
        markerHeight=8,
        orient="auto",
    )
    return drawing(
        520,
        232,
        element("title", "The life of a record"),
        element("defs", tip),
        *(_arrow(*arrow) for arrow in ARROWS),
        *map(_box, STATES),
        css="picture life",
    )


def _arrow(path: str, words: str, x: int, y: int) -> str:
    line = element("path", d=path, css="arrow", marker_end="url(#life-tip)")
    anchor = _ANCHORS.get(x, "start")
    return line + (text(x, y, words, text_anchor=anchor) if words else "")


def _box(state: State) -> str:
    frame = element(
        "rect",
        x=state.x - _HALF,
        y=state.y - _TALL // 2,
        width=2 * _HALF,
        height=_TALL,
        rx=6,
    )
    name = text(state.x, state.y - 3, state.name, text_anchor="middle", css="name")
    made_by = text(state.x, state.y + 14, state.made_by, text_anchor="middle")
    return element("a", frame, name, made_by, href=state.page)


class RecordLife(SphinxDirective):
    """The life of a record."""

    def run(self) -> list[nodes.Node]:
        """Draw it."""
        return [nodes.raw("", life_picture(), format="html")]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("record-life", RecordLife)
    return {"parallel_read_safe": True}
