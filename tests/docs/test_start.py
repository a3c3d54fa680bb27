"""The tutorial keeps its word: each program of it does what the page says."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kafkaguard.cli.group import run
from kafkaguard.testing import KafkaCluster

pytestmark = [
    pytest.mark.java,
    pytest.mark.usefixtures("spark_archive"),
    pytest.mark.xdist_group("start"),
]

PROGRAMS = Path(__file__).resolve().parents[2] / "examples/start"
CLIENTS = ("kafka_python", "confluent", "aiokafka", "spark")


@pytest.fixture(scope="module")
def cluster():
    """The brokers that the page starts."""
    with KafkaCluster(brokers=3) as running:
        running.create_topic("flights", config={"cleanup.policy": "compact"})
        running.create_topic("flights-refused")
        yield running


@pytest.fixture
def start(cluster, tmp_path):
    """Start a program of the page; return its process."""

    def start_program(name, **environment):
        return subprocess.Popen(
            [sys.executable, "-W", "ignore", PROGRAMS / f"{name}.py"],
            cwd=tmp_path,
            env={**os.environ, "KAFKA": cluster.bootstrap_servers, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start_program


def said(process):
    """Return what a program prints; it must end well."""
    out, complaints = process.communicate(timeout=180)
    assert process.returncode == 0, complaints
    return out


@pytest.mark.parametrize("client", CLIENTS)
def test_bare_the_whole_batch_fails(start, client):
    """Three records, one of them without a key: none is delivered."""
    printed = said(start(f"bare_{client}"))
    assert "delivered" not in printed
    assert sum("failed:" in line for line in printed.splitlines()) == (
        1 if client == "spark" else 3
    )
    assert ("dead" in printed) == (client == "kafka_python")


@pytest.mark.parametrize("client", CLIENTS)
def test_guarded_one_record_is_set_aside(start, client):
    """Two are delivered, one is a dead letter."""
    printed = said(start(f"guarded_{client}"))
    if client == "spark":
        assert "2 delivered, 1 dead-lettered (NULL_KEY)" in printed
    else:
        assert (
            "delivered=2, failed=0, in_doubt=0, pending=0, dead_lettered=1" in printed
        )
    letters = said(start("read_dead_letters"))
    assert "None b'2020'" in letters
    assert "kafkaguard.reason: NULL_KEY" in letters


def test_a_killed_broker_costs_no_record(start, cluster):
    """All records are delivered, whichever broker is killed."""
    program = start("outage_kafka_python", RECORDS="6")
    time.sleep(3)
    cluster.broker(1).kill()
    assert "delivered=6, failed=0, in_doubt=0" in said(program)
    cluster.broker(1).start()


def test_the_commands_of_the_page(cluster, capsys):
    """The error is explained, and lag says that no group has committed."""
    assert run(["explain", "87", "--api", "Produce", "--null-key"]) == 0
    assert "REJECT" in capsys.readouterr().out
    assert run(["lag", "--bootstrap-server", cluster.bootstrap_servers]) == 0
    assert "no group with a commit" in capsys.readouterr().err
