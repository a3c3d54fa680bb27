"""What ``kafkaguard broker`` says when its brokers end by themselves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kafkaguard.cli.commands import broker as command
from kafkaguard.cli.group import run


class Node:
    """A broker that ends with a code after some looks."""

    def __init__(self, folder, number, code, looks=0):
        self.id, self.exit_code, self.looks = number, code, looks
        self.address = f"127.0.0.1:{9000 + number}"
        self.pid, self.log = 100 + number, folder / f"broker-{number}.log"
        self.log.write_text(f"log of {number}")

    @property
    def is_running(self):
        """Whether there are looks left."""
        self.looks -= 1
        return self.looks >= 0


class Cluster:
    """Brokers in place of Java processes; their logs go away with it."""

    version, cluster_id, authority, listeners = "4.4.0", "c", None, ()
    bootstrap_servers = controller_bootstrap = "127.0.0.1:9000"

    def __init__(self, brokers):
        self.brokers = brokers

    def start(self):
        """Start nothing."""

    def stop(self):
        """Remove the logs."""
        for each in self.brokers:
            each.log.unlink()


@pytest.fixture
def ended(monkeypatch, tmp_path, capsys):
    """Run the command until its brokers have ended; return what it printed."""
    monkeypatch.setattr(command, "_CHECK_EVERY_S", 0)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def call(*endings, options=()):
        nodes = [Node(tmp_path, n, *each) for n, each in enumerate(endings)]
        monkeypatch.setattr(command, "KafkaCluster", lambda **_: Cluster(nodes))
        assert run(["broker", *options]) == 1
        return capsys.readouterr()

    return call


def test_the_error_says_which_broker_ended_and_how(ended):
    """Its number and address, the signal or the code, and how to go on."""
    said = ended((-9,)).err
    assert "broker 0 (127.0.0.1:9000) was killed by signal 9; its log is kept" in said
    assert "run the command again for an empty cluster" in said
    assert "cluster.broker(0).kill(), then .start()" in said
    assert "broker 0 (127.0.0.1:9000) ended with code 1; its" in ended((1,)).err
    assert "broker 0 (127.0.0.1:9000) ended with code 0; its" in ended((0,)).err


def test_the_log_of_a_broker_that_ended_is_kept(ended):
    """The cluster removes its own; the copy is where the error says."""
    printed = ended((137,), options=["--json"]).out.splitlines()[-1]
    first = json.loads(printed)["error"].splitlines()[0]
    kept = Path(first.rpartition(" is kept in ")[2])
    assert kept.read_text() == "log of 0"


def test_the_end_of_one_of_several_brokers_is_told_at_once(ended):
    """The command goes on with the others, and at the end names each."""
    said = [line for line in ended((-9,), (1, 2)).err.splitlines() if "broker " in line]
    told = [line.removeprefix("Error: ").partition(" (")[0] for line in said[:3]]
    assert told == ["broker 0", "broker 0", "broker 1"]
