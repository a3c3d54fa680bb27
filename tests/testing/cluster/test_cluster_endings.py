"""Whatever happens, no process and no folder is left behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile

import pytest

from kafkaguard.testing import ClusterError, KafkaCluster, StartError
from kafkaguard.testing.cluster import listeners
from kafkaguard.testing.cluster.listeners import HOST, free_ports
from kafkaguard.testing.cluster.requests import wait_for

pytestmark = [pytest.mark.xdist_group("endings"), pytest.mark.java]

RUN = """
import sys
from kafkaguard.testing import KafkaCluster
with KafkaCluster() as cluster:
    cluster.broker(0).pause() if "pause" in sys.argv else None
    print("ready", flush=True)
    sys.stdin.read()
"""
FORK = """
import multiprocessing, sys, time
from kafkaguard.testing import KafkaCluster
with KafkaCluster() as cluster:
    child = multiprocessing.get_context("fork").Process(target=sys.stdin.read)
    child.start()
    print("ready", flush=True)
    child.join()
"""


@pytest.fixture
def temporary_folder(tmp_path, monkeypatch):
    """Let clusters of this test, in whatever process, make their folders here."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def processes_in(folder):
    """List the processes whose command line names something in a folder."""
    listed = subprocess.run(
        ["ps", "-A", "-ww", "-o", "args="], capture_output=True, text=True, check=True
    )
    return [line for line in listed.stdout.splitlines() if str(folder) in line]


def is_clean(folder):
    """Ask whether neither a process nor a file is left."""
    return not processes_in(folder) and not list(folder.iterdir())


def run(script, *arguments):
    """Start a Python process with a cluster, in a process group of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )


@pytest.mark.parametrize(
    ("name", "mode"), [("SIGINT", "run"), ("SIGTERM", "run"), ("SIGKILL", "pause")]
)
def test_a_killed_run_leaves_nothing(temporary_folder, name, mode):
    """However the run ends, the broker ends, even a paused one, and its folder goes."""
    with run(RUN, mode) as process:
        assert process.stdout.readline() == "ready\n"
        assert len(processes_in(temporary_folder)) == 2
        os.killpg(process.pid, signal.Signals[name])
        process.wait(30)
    assert wait_for(lambda: is_clean(temporary_folder), 30)


def test_a_run_killed_while_it_starts_leaves_nothing(temporary_folder):
    """There is no moment at which a process is nobody's."""
    with run(RUN) as process:
        assert wait_for(lambda: len(processes_in(temporary_folder)) > 1, 30)
        process.kill()
    assert wait_for(lambda: is_clean(temporary_folder), 30)


def test_a_forked_child_does_not_keep_the_broker(temporary_folder):
    """The end of the process that started the cluster counts, not its children's."""
    with run(FORK) as process:
        assert process.stdout.readline() == "ready\n"
        os.kill(process.pid, signal.SIGKILL)
        assert wait_for(lambda: is_clean(temporary_folder), 30)
        process.stdin.close()


def test_an_exception_leaves_nothing_and_the_cluster_can_start_again(
    temporary_folder,
):
    """The error passes through; nothing remains of the former life."""
    cluster = KafkaCluster()
    with pytest.raises(ZeroDivisionError):
        create_and_fail(cluster)
    assert is_clean(temporary_folder)
    with pytest.raises(ClusterError, match="is not running"):
        cluster.broker(0)
    with cluster:
        cluster.create_topic("orders")
    cluster.stop()
    assert is_clean(temporary_folder)


def create_and_fail(cluster):
    """Create a topic, then fail inside the with statement."""
    with cluster:
        cluster.create_topic("orders")
        _ = 1 / 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num.io.threads": "many"}, "(?s)refused.*many.*num.io.threads"),
        ({"metric.reporters": "no.Such"}, "(?s)broker 0 ended with code 1.*no.Such"),
    ],
)
def test_a_bad_setting_is_named(temporary_folder, settings, message):
    """The error carries Kafka's own words, and nothing is left."""
    with pytest.raises(StartError, match=message):
        KafkaCluster(settings=settings).start()
    assert is_clean(temporary_folder)


def test_a_start_that_takes_too_long_is_given_up(temporary_folder):
    """The error says how long, and what the broker printed so far."""
    message = r"(?s)does not see the brokers \[0\] as alive after 0.1 s.*Its log ends"
    with pytest.raises(StartError, match=message):
        KafkaCluster().start(timeout=0.1)
    assert is_clean(temporary_folder)


def test_a_taken_port_is_replaced(temporary_folder, monkeypatch):
    """Somebody who takes a port in between costs time, not the start."""
    with socket.create_server((HOST, 0)) as taken:
        ports = [[taken.getsockname()[1], *free_ports(1)], free_ports(2)]
        monkeypatch.setattr(listeners, "free_ports", lambda _: ports.pop(0))
        with KafkaCluster() as cluster:
            assert not ports
            cluster.create_topic()
    assert is_clean(temporary_folder)
