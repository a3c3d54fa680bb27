"""Directives of the page about the atlas, and the data that its script filters."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from sphinx.util.docutils import SphinxDirective
from tables import parse, table

from kafkaguard import errors
from kafkaguard._errors.generated import BY_CODE
from kafkaguard.cli.client_behaviour import Observed, atlas, sentence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from docutils import nodes
    from sphinx.application import Sphinx

_EXPLAINED = Path(__file__).parents[1] / "tests/atlas/explained.yaml"
#: How a cell is one of the four of its client, request and code.
_PLACES = [("bare", "once"), ("bare", "for ever"), ("guarded", "once")]
_PLACES.append(("guarded", "for ever"))
_COLUMNS = ("client", "guard", "request", "code", "answered", "what it does", "verdict")


def _cells() -> Iterator[tuple[str, str, str, int, str, Observed]]:
    """Yield client, guard, request, code, how often, and what the client did."""
    for api, codes in sorted(atlas()["answers"].items()):
        for code, clients in sorted(codes.items(), key=_codes_of_kafka_first):
            for client, cells in sorted(clients.items()):
                for (guard, often), cell in zip(_PLACES, cells, strict=True):
                    if cell is not None:
                        yield client, guard, api, int(code), often, Observed(*cell)


def _codes_of_kafka_first(item: tuple[str, Any]) -> tuple[bool, int]:
    code = int(item[0])
    return code not in BY_CODE, code


def _word(observed: Observed) -> str:
    if observed.error is None:
        return "succeeds" if (observed.requests or 0) != 1 else "goes on"
    words = {"AnsweredError": "returns it", "SilenceError": "silent", "Hung": "hangs"}
    return words.get(observed.error, "raises")


class AtlasHead(SphinxDirective):
    """What was recorded, when, and how much of it."""

    def run(self) -> list[nodes.Node]:
        """Draw a sentence."""
        data = atlas()
        versions = ", ".join(f"{n} {v}" for n, v in data["clients"].items())
        count = sum(1 for _ in _cells())
        text = (
            f"Recorded on {data['date']} with {versions} and Kafka {data['kafka']}: "
            f"{count:,} of {data['of']:,} cells."
        )
        return parse(self, [text])


class AtlasTable(SphinxDirective):
    """For each request, how many codes each client answers in which way."""

    def run(self) -> list[nodes.Node]:
        """Draw a row for each request."""
        counts: dict[str, dict[str, Counter[str]]] = {}
        for client, guard, api, _, often, observed in _cells():
            if (guard, often) == _PLACES[0]:
                ways = counts.setdefault(api, {}).setdefault(client, Counter())
                ways[_word(observed)] += 1
                ways["dead"] += observed.lives is False
        clients = sorted(atlas()["clients"])
        rows = (
            (api, *(_counted(by_client.get(client)) for client in clients))
            for api, by_client in counts.items()
        )
        return parse(self, table(("Request", *clients), rows))


def _counted(ways: Counter[str] | None) -> str:
    if ways is None:
        return "makes no such request"
    return ", ".join(f"{word} {count}" for word, count in ways.most_common() if count)


class AtlasSettings(SphinxDirective):
    """The settings of each client."""

    def run(self) -> list[nodes.Node]:
        """Draw a row for each client and kind."""
        rows = (
            (client, kind, ", ".join(f"`{k}={v}`" for k, v in settings.items()))
            for client, kinds in sorted(atlas()["settings"].items())
            for kind, settings in kinds.items()
        )
        return parse(self, table(("Client", "Kind", "Settings"), rows))


class AtlasExplained(SphinxDirective):
    """The explained disagreements."""

    def run(self) -> list[nodes.Node]:
        """Draw a row for each explanation."""
        rows = (
            (_listed(each["kind"]), _where(each), " ".join(each["why"].split()))
            for each in yaml.safe_load(_EXPLAINED.read_text())
        )
        return parse(self, table(("Disagreement", "Where", "Why it is right"), rows))


def _where(entry: dict[str, Any]) -> str:
    parts = []
    for name in ("client", "api", "code", "ever", "error"):
        value = entry.get(name)
        if name == "ever" and value is not None:
            parts.append("for ever" if value else "once")
        elif value is not None:
            parts.append(_listed(value))
    return "; ".join(parts) or "any"


def _listed(value: Any) -> str:
    return ", ".join(map(str, value if isinstance(value, list) else [value]))


def _write_rows(app: Sphinx, error: Exception | None) -> None:
    """Write the rows for the page's script."""
    if error is not None or app.builder.format != "html":
        return
    lasts = atlas()["lasts"]
    rows = [
        (
            *(client, guard, api, f"{code} {errors.for_code(code).name}", often),
            sentence(code, observed, lasts),
            f"{observed.action}, written: {observed.told}" if observed.action else "",
        )
        for client, guard, api, code, often, observed in _cells()
    ]
    text = json.dumps({"columns": _COLUMNS, "rows": rows}, separators=(",", ":"))
    (app.outdir / "_static/atlas_data.js").write_text(f"window.ATLAS={text};\n")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directives."""
    app.add_directive("atlas-head", AtlasHead)
    app.add_directive("atlas-table", AtlasTable)
    app.add_directive("atlas-settings", AtlasSettings)
    app.add_directive("atlas-explained", AtlasExplained)
    app.connect("build-finished", _write_rows)
    return {"parallel_read_safe": True}
