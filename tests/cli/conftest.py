"""Pipelines to run, in the session that all tests share."""

from __future__ import annotations

import json
from contextlib import contextmanager

import pytest
import yaml
from click.testing import CliRunner

from kafkaguard.cli.group import cli
from kafkaguard.cli.group import run as command

COMPACTED = {"cleanup.policy": "compact"}


@pytest.fixture
def topics(kafka_cluster):
    """Create a compacted topic and a dead-letter topic."""
    return kafka_cluster.create_topic(config=COMPACTED), kafka_cluster.create_topic()


@pytest.fixture
def pipeline(kafka_cluster, topics, tmp_path):
    """Return a pipeline over three rows, one of them without a key."""
    (tmp_path / "rows.json").write_text(
        '{"k": "a", "v": 1, "at": 2}\n{"v": 2, "at": 1}\n{"k": "a", "v": 3, "at": 1}\n'
    )
    topic, dead_letter_topic = topics
    return {
        "source": {"format": "json", "path": "rows.json"},
        "select": {"key": "k", "value": "to_json(struct(*))", "headers": {"v": "v"}},
        "order_by": ["at"],
        "sink": {"bootstrap_servers": kafka_cluster.bootstrap_servers, "topic": topic},
        "policy": {
            "extends": "spark-sink",
            "dead_letter": {"topic": dead_letter_topic},
        },
    }


@pytest.fixture
def written(tmp_path):
    """Write a pipeline file; return its path."""

    def call(content):
        file = tmp_path / "pipeline.yaml"
        text = content if isinstance(content, str) else yaml.safe_dump(content)
        file.write_text(text)
        return str(file)

    return call


@pytest.fixture
def run(spark, written, monkeypatch):
    """Run a pipeline in the session that all tests share."""

    @contextmanager
    def shared(name, settings):
        yield spark

    monkeypatch.setattr("kafkaguard.cli.commands.pipeline.spark_session", shared)

    def call(content, *options):
        return CliRunner().invoke(cli, ["pipeline", "run", written(content), *options])

    return call


@pytest.fixture
def error_of(run, written, capsys):
    """Run a pipeline as the command does; return its exit code and its JSON."""

    def call(content):
        code = command(["pipeline", "run", written(content), "--json"])
        return code, json.loads(capsys.readouterr().out)["error"]

    return call
