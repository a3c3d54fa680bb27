"""The pytest plugin, in runs of pytest of its own."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.java


ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "test_with_faults.py"


def _pytest(folder, *arguments):
    """Run pytest in a folder that knows nothing of this project's settings."""
    (folder / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=170,
    )
    return done.returncode, done.stdout + done.stderr


def test_the_example_to_copy(tmp_path):
    """It passes as it stands, in parallel too."""
    shutil.copy(EXAMPLE, tmp_path)
    code, output = _pytest(tmp_path, "-n", "2")
    assert (code, "5 passed" in output) == (0, True), output


def test_a_failing_test_shows_the_conversation(tmp_path):
    """What went over the wire stands below the traceback."""
    (tmp_path / "test_it.py").write_text(
        """
import pytest
from kafka import KafkaProducer

@pytest.mark.kafka_topic(partitions=2)
def test_it(kafka_faults, kafka_topic):
    kafka_faults.on("Produce").fail("INVALID_RECORD", message="no key")
    with KafkaProducer(bootstrap_servers=kafka_faults.bootstrap_servers) as producer:
        producer.send(kafka_topic, b"value", partition=1).get(10)
"""
    )
    code, output = _pytest(tmp_path)
    assert code == 1
    assert "Kafka conversation" in output
    assert "-> INVALID_RECORD(87)" in output
    assert "(fail with INVALID_RECORD(87))" in output


def test_loading_the_plugin_costs_nothing(tmp_path):
    """Neither a client of Kafka nor Java is touched before a fixture is asked for."""
    (tmp_path / "test_it.py").write_text(
        """
import sys

def test_it():
    loaded = set(sys.modules)
    assert "kafkaguard.testing.pytest_plugin" in loaded
    heavy = {"kafka", "yaml", "click", "pydantic", "kafkaguard.testing.proxy.proxy"}
    assert not heavy & loaded
"""
    )
    code, output = _pytest(tmp_path)
    assert code == 0, output


def test_the_fixtures_and_the_marker_are_documented(tmp_path):
    """As pytest --fixtures and --markers show them."""
    _, fixtures = _pytest(tmp_path, "--fixtures")
    for name in ("kafka_cluster", "kafka_topic", "kafka_faults", "kafka_users"):
        assert name in fixtures
    _, markers = _pytest(tmp_path, "--markers")
    assert "@pytest.mark.kafka_topic(partitions=1," in markers


def test_the_users(kafka_users):
    """In the cluster of kafka_users, alice may do everything and bob nothing."""
    from kafka import KafkaAdminClient

    seen = {}
    topic = kafka_users.create_topic()
    for user in ("alice", "bob"):
        settings = kafka_users.client_config("SASL_PLAIN", user=user)
        with KafkaAdminClient(**settings) as admin:
            seen[user] = topic in admin.list_topics()
    assert seen == {"alice": True, "bob": False}
