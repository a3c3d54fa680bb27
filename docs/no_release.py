"""Say below the first ``pip install`` of a page that there is no release yet.

With the first release this extension goes, and with it all of these words.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from docutils import nodes

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_INSTALL = re.compile(r"pip install '?kafkaguard(\[[\w,]+\])?'?(?=\s|$)")
_WORDS = "There is no release yet"


def add_words(document: nodes.Element) -> None:
    """Insert the words behind the part of a section that has the first command."""
    if _WORDS in document.astext():
        return
    for node in document.findall(nodes.Text):
        if command := _INSTALL.search(node.astext()):
            part: nodes.Node = node
            while not isinstance(part.parent, (nodes.section, nodes.document)):
                part = part.parent
            part.parent.insert(part.parent.index(part) + 1, _words(command[1] or ""))
            return


def _words(extras: str) -> nodes.paragraph:
    checkout = f"pip install '.{extras}'" if extras else "pip install ."
    before, after = f"{_WORDS}: in a checkout, write ", "."
    return nodes.paragraph("", before, nodes.literal("", checkout), nodes.Text(after))


def setup(app: Sphinx) -> dict[str, Any]:
    """Look at each page once it is read."""
    app.connect("doctree-read", lambda _app, document: add_words(document))
    return {"parallel_read_safe": True}
