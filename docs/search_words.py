"""Words that people search for, and the page that each of them finds first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx import addnodes

if TYPE_CHECKING:
    from sphinx.application import Sphinx

#: The search puts a page's main entries of the index before all other matches.
WORDS = {
    "api": ("guard", "classify"),
    "cluster": ("lag", "consumer lag", "disk usage"),
    "doctor": ("diagnose",),
    "exactly_once": ("exactly once", "exactly-once"),
    "explorer": ("error code", "verdict", "explain"),
    "policies": ("retry", "retries", "dead letter", "dead letters", "dlq"),
    "recipes/fork": ("fork", "gunicorn"),
    "recipes/missing_topic": ("missing topic",),
    "recipes/no_duplicates": ("duplicates", "no duplicates"),
    "recipes/outbox": ("outbox", "database"),
    "recipes/poison_record": ("poison", "poison record", "poison pill"),
    "recipes/slow_handler": ("slow handler", "max.poll.interval.ms"),
    "recipes/wrong_password": ("wrong password", "password"),
    "replay": ("replay",),
    "start": ("tutorial", "quickstart"),
    "testing": ("fault", "faults", "pytest"),
}


def add_words(app: Sphinx, document: nodes.document) -> None:
    """Insert the entries of a page; they lead to its first section."""
    words = WORDS.get(app.env.current_document.docname, ())
    if words:
        place = next(document.findall(nodes.section))["ids"][0]
        entries = [("single", word, place, "main", None) for word in words]
        document.insert(0, addnodes.index(entries=entries))


def setup(app: Sphinx) -> dict[str, Any]:
    """Look at each page once it is read."""
    app.connect("doctree-read", add_words)
    return {"parallel_read_safe": True}
