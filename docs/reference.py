"""Directives that draw the reference of policies and events from the code."""

from __future__ import annotations

import types
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

from pydantic_core import PydanticUndefined
from sphinx.util.docutils import SphinxDirective
from tables import parse, table

from kafkaguard import load_policy
from kafkaguard.telemetry._metrics import METRICS
from kafkaguard_adapters.policy_in_effect import policy_for
from kafkaguard_adapters.policy_uses import USES, given_settings
from kafkaguard_policies.advice.client_settings import DEFAULTS
from kafkaguard_policies.model import policy as models
from kafkaguard_policies.model.base import Part
from kafkaguard_policies.model.fields import Bound
from kafkaguard_policies.model.handler import Handler
from kafkaguard_policies.reading.sources import preset_text, presets

if TYPE_CHECKING:
    from docutils import nodes
    from sphinx.application import Sphinx

#: The parts of a policy file, each with its place in it.
PARTS: dict[str, type[Part]] = {
    "Top level": models.PolicyDocument,
    "backoff": models.Backoff,
    "budget": models.Budget,
    "breaker": models.Breaker,
    "dead_letter": models.DeadLetter,
    "dead_letter.limit": models.LetterLimit,
    "handler": Handler,
    "overrides": models.Override,
    "overrides.when": models.OverrideCondition,
}
#: Of a preset, what its page shows.
SHOWN = (
    *("max_attempts", "deadline", "backoff", "budget", "breaker"),
    *("on_reject", "in_doubt", "rescue"),
)


class PolicySettings(SphinxDirective):
    """Every setting of a policy file: what it takes, its default, its meaning."""

    def run(self) -> list[nodes.Node]:
        """Draw a table for each part."""
        lines: list[str] = []
        for place, part in PARTS.items():
            rows = (
                (f"`{name}`", allowed(field), _default(field), _in_line(field))
                for name, field in part.model_fields.items()
            )
            title = place if place == "Top level" else f"`{place}`"
            headings = ("Setting", "Takes", "Default", "Meaning")
            lines += [f"## {title}", "", *table(headings, rows), ""]
        return parse(self, lines)


def allowed(field: Any) -> str:
    """Say in words which values a field takes."""
    bounds = [each for each in field.metadata if isinstance(each, Bound)]
    if bounds:
        return bounds[0].allowed
    return ", ".join(dict.fromkeys(_words(field.annotation)))


def _words(annotation: Any) -> list[str]:
    """Say which values an annotation allows."""
    inner = get_args(annotation)
    match get_origin(annotation):
        case kind if kind is Literal:
            words = [f"`{value}`" for value in inner]
        case kind if kind is Annotated:
            bounds = [each for each in inner if isinstance(each, Bound)]
            words = [bounds[0].allowed] if bounds else _words(inner[0])
        case kind if kind in (Union, types.UnionType):
            words = [word for each in inner for word in _words(each)]
        case kind if kind is tuple:
            words = [f"one or more of: {', '.join(_words(inner[0]))}"]
        case kind if kind is dict:
            key, value = (", ".join(_words(each)) for each in inner)
            words = [f"a mapping from {key} to {value}"]
        case _:
            words = [_word(annotation)]
    return words


def _word(kind: Any) -> str:
    if issubclass(kind, Part):
        return "a mapping, see below"
    if issubclass(kind, Enum):
        return ", ".join(f"`{name}`" for name in kind.__members__)
    return _NAMES[kind]


_NAMES = {
    str: "text",
    bool: "`true` or `false`",
    int: "a whole number",
    type(None): "`none`",
}


def _default(field: Any) -> str:
    if field.is_required():
        return "must be given"
    value = field.get_default(call_default_factory=True)
    if value is PydanticUndefined or value in ((), {}, ""):
        return ""
    if isinstance(value, Part):
        return "see below"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return "`none`" if value is None else f"`{_number(value)}`"


def _number(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _in_line(field: Any) -> str:
    text = " ".join((field.description or "").split())
    return text.replace("``", "`")


class PresetTable(SphinxDirective):
    """What each preset is for, what it promises and its main settings."""

    def run(self) -> list[nodes.Node]:
        """Draw a section for each preset, from the comments and values of its file."""
        lines: list[str] = []
        for name in ("default", *(p for p in presets() if p != "default")):
            policy = load_policy(name)
            rows = ((f"`{each}`", setting(getattr(policy, each))) for each in SHOWN)
            lines += [
                f"## {name}",
                "",
                *promises(preset_text(name)),
                "",
                *table(("Setting", "Value"), rows),
                "",
            ]
        return parse(self, lines)


def promises(text: str) -> list[str]:
    """Return the comment at the top of a preset: a paragraph, then a list."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("# "):
            break
        word, colon, rest = line[2:].partition(":")
        if colon and word in ("Duplicates", "Order", "Latency"):
            lines += ([""] if word == "Duplicates" else []) + [
                f"- **{word}**: {rest.strip()}"
            ]
        else:
            lines.append(f"  {line[2:].strip()}" if "" in lines else line[2:])
    return lines


def setting(value: Any) -> str:
    """Write a setting in one line, as people say it."""
    match value:
        case models.Backoff():
            factor = f", times {value.factor:g}" if value.kind == "exponential" else ""
            waits = f"{value.kind} from {value.base:g} s{factor}, up to {value.cap:g} s"
            return f"{waits}, jitter {value.jitter}"
        case models.Budget():
            return f"{value.capacity:g} tokens, {value.deposit:g} for each success"
        case models.Breaker():
            opens = f"opens after {value.failures} failures, for {value.open_for:g} s"
            return f"{opens}, then `{value.when_open}`"
        case None:
            return "none"
    shown = models.as_written(value)
    return f"{shown:g}" if isinstance(shown, float) else str(shown)


class UsesTable(SphinxDirective):
    """A row for each use: the settings that it obeys, and those that it ignores."""

    def run(self) -> list[nodes.Node]:
        """Draw a table of all settings."""
        return parse(self, _uses(frozenset().union(*USES.values())))


class PolicyBecomes(SphinxDirective):
    """What the default policy becomes for a producer of each client."""

    def run(self) -> list[nodes.Node]:
        """Draw a table of the settings that a client has a setting for."""
        rows = [
            (client, f"`{row.setting}`", row.value, f"`{row.became}`", row.obeyed_by)
            for client in DEFAULTS
            for row in policy_for(load_policy("default"), client).settings
            if row.became
        ]
        headings = ("Client", "Setting", "Value", "Becomes", "Obeyed by")
        return parse(self, table(headings, rows))


class PresetUses(SphinxDirective):
    """The same for the settings in the file of each preset."""

    def run(self) -> list[nodes.Node]:
        """Draw a table for each preset."""
        lines: list[str] = []
        for name in presets():
            lines += [f"### {name}", "", *_uses(given_settings(load_policy(name))), ""]
        return parse(self, lines)


def _uses(given: frozenset[str]) -> list[str]:
    rows = (
        (use, _listed(given & obeyed), _listed(given - obeyed))
        for use, obeyed in USES.items()
    )
    return table(("Use", "Obeys", "Ignores"), rows)


def _listed(settings: frozenset[str]) -> str:
    return ", ".join(f"`{setting}`" for setting in sorted(settings)) or "nothing"


class MetricTable(SphinxDirective):
    """The metrics that kafkaguard exports."""

    def run(self) -> list[nodes.Node]:
        """Draw a row for each."""
        rows = [
            (
                f"`{metric.name}`",
                metric.kind,
                f"`{metric.unit}`",
                ", ".join(f"`{label}`" for label in metric.labels),
                f"{metric.text}.",
            )
            for metric in METRICS
        ]
        headings = ("Metric", "Kind", "Unit", "Attributes", "Meaning")
        return parse(self, table(headings, rows))


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directives."""
    app.add_directive("policy-settings", PolicySettings)
    app.add_directive("preset-table", PresetTable)
    app.add_directive("metric-table", MetricTable)
    app.add_directive("policy-uses", UsesTable)
    app.add_directive("policy-becomes", PolicyBecomes)
    app.add_directive("preset-uses", PresetUses)
    return {"parallel_read_safe": True}
