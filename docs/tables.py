"""Directives that draw tables from the code, so that no page can fall behind it."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

from kafkaguard._errors.generated import BY_CODE, RETRIABLE_CODES
from kafkaguard._errors.meanings import MEANINGS
from kafkaguard._verdicts.classification import classify
from kafkaguard._verdicts.rules import RULES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from docutils import nodes
    from sphinx.application import Sphinx


def table(headings: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    """Write a table in Markdown."""
    lines = ["| " + " | ".join(headings) + " |", "|---" * len(headings) + "|"]
    return lines + ["| " + " | ".join(_cell(c) for c in row) + " |" for row in rows]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def parse(directive: SphinxDirective, lines: list[str]) -> list[nodes.Node]:
    """Read Markdown where a directive stands."""
    content = StringList(lines, source="tables.py")
    return directive.parse_text_to_nodes(content, allow_section_headings=True)


class ErrorTable(SphinxDirective):
    """All codes: meaning, Java's flag, and the next step."""

    def run(self) -> list[nodes.Node]:
        """Draw a row for each code."""
        rows = (
            (
                f'<a href="?error={code}">{code}</a>',
                f"`{cls.name}` `{cls.__name__}`",
                MEANINGS[code],
                "yes" if code in RETRIABLE_CODES else "",
                str(classify(code).action),
            )
            for code, cls in sorted(BY_CODE.items())
        )
        headings = (
            "Code",
            "Name, and class in `kafkaguard.errors`",
            "Meaning",
            "Java retries",
            "Next step",
        )
        return parse(self, table(headings, rows))


class RuleTable(SphinxDirective):
    """All rules in their order."""

    def run(self) -> list[nodes.Node]:
        """Draw a row for each rule."""
        rows = (
            (
                f"`{rule.info.id}`",
                str(rule.action),
                rule.written,
                rule.info.sentence,
                rule.info.scenario,
                rule.info.source,
            )
            for rule in RULES
        )
        headings = ("Rule", "Next step", "Written", "Says", "When", "Source")
        return parse(self, table(headings, rows))


class FileMap(SphinxDirective):
    """The files of a room, each with the first sentence of its docstring."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Draw a row for each module below a folder of the checkout."""
        root = Path(__file__).resolve().parents[1]
        folder = root / self.arguments[0]
        rows = (
            (f"`{file.relative_to(folder)}`", _first_sentence(file))
            for file in sorted(folder.rglob("*.py"))
            if file.name not in ("__init__.py", "__main__.py")
        )
        return parse(self, table(("File", "What lives there"), rows))


def _first_sentence(file: Path) -> str:
    """Return the first line of a module's docstring; of a generated file, its note."""
    text = file.read_text()
    if text.startswith("# Generated"):
        return text.splitlines()[0].removeprefix("# ")
    return (ast.get_docstring(ast.parse(text)) or "").splitlines()[0]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directives."""
    app.add_directive("error-table", ErrorTable)
    app.add_directive("rule-table", RuleTable)
    app.add_directive("file-map", FileMap)
    return {"parallel_read_safe": True}
