"""Words that people search for, and the page that each of them finds first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms import SphinxTransform

if TYPE_CHECKING:
    from sphinx.application import Sphinx

#: The search puts a page's main entries of the index before all other matches.
WORDS = {
    "api": ("guard", "classify"),
    "cluster": ("lag", "consumer lag", "disk usage"),
    "doctor": ("diagnose",),
    "exactly_once": ("exactly once", "exactly-once"),
    "explorer": ("error code", "verdict", "explain"),
    "processing": ("handler", "reprocess", "redrive", "ordering", "liveness"),
    "policies": ("retry", "retries", "dead letter", "dead letters", "dlq"),
    "recipes/fork": ("fork", "gunicorn"),
    "recipes/missing_topic": ("missing topic",),
    "recipes/no_duplicates": ("duplicates", "no duplicates"),
    "recipes/outbox": ("outbox", "database"),
    "recipes/poison_record": ("poison", "poison record", "poison pill"),
    "recipes/web_endpoint": ("flask", "django", "fastapi", "web service", "endpoint"),
    "recipes/service": ("kubernetes", "systemd", "shutdown", "sigterm", "service"),
    "recipes/slow_handler": ("slow handler", "max.poll.interval.ms"),
    "recipes/wrong_password": ("wrong password", "password"),
    "replay": ("replay",),
    "start": ("tutorial", "quickstart"),
    "testing": ("fault", "faults", "pytest"),
}


class AddWords(SphinxTransform):
    """Insert the entries of a page; they lead to its first section."""

    # Before Sphinx collects the entries of all pages, which has priority 850.
    default_priority = 500

    def apply(self, **_: Any) -> None:
        """Insert them."""
        words = WORDS.get(self.env.current_document.docname, ())
        if words:
            place = next(self.document.findall(nodes.section))["ids"][0]
            entries = [("single", word, place, "main", None) for word in words]
            self.document.insert(0, addnodes.index(entries=entries))


def setup(app: Sphinx) -> dict[str, Any]:
    """Look at each page while it is read."""
    app.add_transform(AddWords)
    return {"parallel_read_safe": True}
