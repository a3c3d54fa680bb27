"""The verdict explorer: the rules as JSON for a script, and a form for its choices."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, get_args

from docutils import nodes
from sphinx.util.docutils import SphinxDirective
from svg import element

from kafkaguard import errors as e
from kafkaguard._errors import special
from kafkaguard._errors.generated import BY_CODE
from kafkaguard._errors.librdkafka import LOCAL_CODES
from kafkaguard._errors.meanings import MEANINGS
from kafkaguard._verdicts.apis import API_KEYS
from kafkaguard._verdicts.context import Phase
from kafkaguard._verdicts.rules import RULES, Rule
from kafkaguard._verdicts.signals import IMPLIED
from kafkaguard.cli.client_behaviour import JAVA, NOT_RECORDED, habits_of
from kafkaguard.cli.lookup import _class_names, _phrases

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sphinx.application import Sphinx

#: The requests that people meet stand first.
COMMON = (
    *("Produce", "Fetch", "Metadata", "OffsetCommit", "ListOffsets"),
    *("InitProducerId", "AddPartitionsToTxn", "EndTxn", "CreateTopics"),
)
CLIENTS = ("kafka-python", "confluent-kafka", "aiokafka", JAVA)
PHASES: dict[str, str] = {
    "enqueue": "the send call itself raised it",
    "single": "the answer is about one record only",
    "background": "reported to error_cb",
    "commit": "the end of a transaction: commit",
    "abort": "the end of a transaction: abort",
    "repeated": "sent again, since the first answer was lost",
    "admin": "asked by an administrator",
}
#: The check boxes: fact, its value, and the words beside the box.
BOXES = (
    ("null_key", True, "the record has no key"),
    ("null_key", False, "the record has a key"),
    ("compacted", True, "the topic is compacted"),
    ("compacted", False, "the topic is not compacted"),
    ("idempotent", True, "the producer is idempotent"),
    ("tiered", True, "the topic has remote storage"),
    ("transactional", True, "a transaction is open"),
    ("flag", "reported", "a client reports it: it has given up"),
    ("flag", "retriable", "librdkafka says: retriable"),
    ("flag", "abort", "librdkafka says: abort required"),
    ("flag", "fatal", "librdkafka says: fatal"),
)


def explorer_data() -> dict[str, Any]:
    """Return what the script needs: rules, errors, names and what clients do."""
    codes = [*sorted(BY_CODE), 0, *sorted(LOCAL_CODES, reverse=True)]
    classes = [getattr(e, name) for name in special.__all__]
    return {
        "rules": [_rule(rule) for rule in RULES],
        "errors": [
            *(_error(code, e.for_code(code)) for code in codes),
            *(_error(None, cls) for cls in classes if cls.code is None),
        ],
        "unknown": _error(None, e.for_code(999)),
        "names": {name: _key(key) for name, key in _class_names().items()},
        "phrases": _phrases(),
        "clients": CLIENTS,
    }


def _rule(rule: Rule) -> dict[str, Any]:
    cls = rule.error_class
    return {
        "id": rule.info.id,
        "action": str(rule.action),
        "written": rule.written,
        "says": rule.info.sentence,
        "scenario": rule.info.scenario,
        "source": rule.info.source,
        "on": [_key(signal) for signal in rule.on],
        "apis": None if rule.apis is None else sorted(api or "" for api in rule.apis),
        "when": {fact: list(values) for fact, values in rule.when.items()},
        "class": None if cls is None else cls.__name__,
    }


def _error(code: int | None, cls: type[e.KafkaGuardError]) -> dict[str, Any]:
    families = [c.__name__ for c in cls.__mro__ if issubclass(c, e.KafkaGuardError)]
    meaning = (cls.__doc__ or "").partition("\n")[0]
    return {
        "code": code,
        "name": cls.name,
        "classes": families,
        "means": meaning if code is None else MEANINGS.get(code, meaning),
        "implied": {k: v for c in cls.__mro__ for k, v in IMPLIED.get(c, ())},
        "does": client_behaviour(code),
    }


def client_behaviour(code: int | None) -> list[dict[str, Any]]:
    """Return what each client does by itself, for each request that was recorded.

    The explorer's only place that reads recordings.
    """
    return [
        {"api": habits.api, **{c: habits.does.get(c, NOT_RECORDED) for c in CLIENTS}}
        for habits in habits_of(code)
    ]


def _key(signal: int | type[e.KafkaGuardError]) -> int | str:
    return signal if isinstance(signal, int) else signal.__name__


def form() -> str:
    """Write the form, hidden until the script shows it, and the data."""
    data = json.dumps(explorer_data(), separators=(",", ":")).replace("<", "\\u003c")
    others = [api for api in API_KEYS if api not in COMMON]
    requests = _group("Frequent", COMMON) + _group("All others", others)
    boxes = element("legend", "What you know") + "".join(map(_box, BOXES))
    choices = (
        _select("Request", "api", "not known", requests),
        _select("Client", "client", "not known", _options(CLIENTS)),
        _select("Where", "phase", "an ordinary answer", _phases()),
    )
    text = element(
        "textarea",
        name="error",
        rows=2,
        placeholder="87, INVALID_RECORD, or a pasted error text",
    )
    shown = element(
        "form",
        element("label", "Code, name or error text", text),
        element("div", *choices, css="choices"),
        element("fieldset", boxes),
        element("output"),
        id="explorer",
        hidden="",
        autocomplete="off",
    )
    script = element("script", src="_static/explorer.js")
    kept = element("script", data, type="application/json", id="explorer-data")
    return f"{shown}\n{kept}\n{script}"


def _box(box: tuple[str, Any, str]) -> str:
    fact, value, words = box
    written = value if isinstance(value, str) else json.dumps(value)
    ticked = element("input", type="checkbox", name=fact, value=written)
    # An <input> has no end tag.
    return element("label", ticked.removesuffix("</input>"), " ", words)


def _select(label: str, name: str, unknown: str, options: str) -> str:
    first = element("option", unknown, value="")
    return element("label", label, element("select", first, options, name=name))


def _group(label: str, values: Iterable[str]) -> str:
    return element("optgroup", _options(values), label=label)


def _options(values: Iterable[str]) -> str:
    return "".join(element("option", value) for value in values)


def _phases() -> str:
    return "".join(element("option", PHASES[p], value=p) for p in get_args(Phase))


class VerdictExplorer(SphinxDirective):
    """The form of the explorer; the script shows it."""

    def run(self) -> list[nodes.Node]:
        """Write it."""
        return [nodes.raw("", form(), format="html")]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("verdict-explorer", VerdictExplorer)
    return {"parallel_read_safe": True}
