"""The dashboard and the rules: what they name is exported."""

from __future__ import annotations

import json
import re
from importlib.resources import files

import pytest
import yaml

from kafkaguard.cli.group import cli
from kafkaguard.telemetry import _metrics as m

FILES = files("kafkaguard.telemetry")
ALERTS = yaml.safe_load((FILES / "alerts.yaml").read_text())
DASHBOARD = json.loads((FILES / "grafana.json").read_text())
RULES = [rule for group in ALERTS["groups"] for rule in group["rules"]]
TARGETS = [
    target for panel in DASHBOARD["panels"] for target in panel.get("targets", ())
]
QUERIES = {
    **{rule["alert"]: rule["expr"] for rule in RULES},
    **{f"{each['legendFormat']} {n}": each["expr"] for n, each in enumerate(TARGETS)},
}
#: The attributes of each metric, by all names that Prometheus has for it.
EXPORTED = {
    metric.prometheus_name + suffix: {
        *map(m.to_prometheus, metric.labels),
        *(["le"] if suffix == "_bucket" else []),
    }
    for metric in m.METRICS
    for suffix in (
        ("_bucket", "_sum", "_count") if metric.kind == "histogram" else ("",)
    )
}
NAME = re.compile(r"\b(?:kafkaguard|messaging)_\w+(?=[\s{\[)]|$)")
LABELS = re.compile(r"by \(([^)]*)\)|\{([^}]*)\}")


def metrics_in(query):
    """Return the names of metrics in a query: what no parenthesis or brace groups."""
    return set(NAME.findall(LABELS.sub(lambda _: "{}", query)))


def labels_in(query):
    """Return the names of labels in a query."""
    found = set()
    for grouped, selected in LABELS.findall(query):
        found |= {each.strip() for each in grouped.split(",") if each.strip()}
        found |= set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", selected))
    return found


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_names_what_is_exported(name):
    """Its metrics, and attributes that each of them has."""
    query = QUERIES[name]
    metrics = metrics_in(query)
    assert metrics
    assert metrics <= set(EXPORTED)
    for metric in metrics:
        assert labels_in(query) - {"le"} <= EXPORTED[metric], metric


def test_the_dashboard_shows_every_metric():
    """A new metric has its place."""
    shown = {name for each in TARGETS for name in metrics_in(each["expr"])}
    bases = {re.sub(r"_(bucket|sum|count)$", "", name) for name in shown}
    assert {metric.prometheus_name for metric in m.METRICS} == bases


def test_legends_name_labels_that_the_query_keeps():
    """Otherwise Grafana shows nothing in their place."""
    for each in TARGETS:
        names = set(re.findall(r"\{\{(\w+)\}\}", each["legendFormat"]))
        assert names <= labels_in(each["expr"]), each["legendFormat"]


def test_texts_of_alerts_name_labels_and_commands_that_exist():
    """The label is one that the query keeps; the command is kafkaguard's."""
    for rule in RULES:
        texts = " ".join(rule["annotations"].values())
        names = set(re.findall(r"\$labels\.(\w+)", texts))
        assert names <= labels_in(rule["expr"]), rule["alert"]
        words = set(re.findall(r"`kafkaguard ([\w-]+)", texts))
        assert words <= set(cli.list_commands(None)), rule["alert"]
