"""Guarded clients that are inherited by a fork, abandoned, or asked at the very end."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.java

BEFORE = """
import asyncio, atexit, gc, logging, os, sys, threading, time
from kafka import KafkaAdminClient
from aiokafka.admin import AIOKafkaAdminClient
from kafkaguard import guard
logging.getLogger("kafka").setLevel(60)
brokers = sys.argv[1]
def admin():
    return guard(KafkaAdminClient(bootstrap_servers=brokers))
def aio():
    return guard(AIOKafkaAdminClient(bootstrap_servers=brokers))
"""
FORKS = {
    "child only exits": "if os.fork() == 0: sys.exit(0)\nos.wait()",
    "child asks": (
        "if os.fork() == 0:\n"
        "    assert a.lag(timeout=30).complete; sys.exit(0)\n"
        "assert os.wait()[1] == 0"
    ),
    "multiprocessing": (
        "import multiprocessing\n"
        "with multiprocessing.get_context('fork').Pool(1) as pool:\n"
        "    assert pool.apply(lag)"
    ),
}
ENDS = {
    "never closed": "a = admin(); a.lag()",
    "collected": "def f():\n    a = admin(); a.lag()\nf(); gc.collect()",
    "collected in a thread": (
        "held = [admin()]; held[0].lag()\n"
        "t = threading.Thread(target=lambda: (held.clear(), gc.collect()))\n"
        "t.start(); t.join()"
    ),
    "loop closed, then collected": (
        "loop = asyncio.new_event_loop()\n"
        "async def m():\n    a = aio(); await a.lag(); return a\n"
        "a = loop.run_until_complete(m()); loop.close(); del a; gc.collect()"
    ),
    "on another loop": (
        "held = []\n"
        "async def m():\n    held.append(aio()); await held[0].lag()\n"
        "async def n():\n    await held[0].lag(); await held[0].close()\n"
        "asyncio.run(m()); asyncio.run(n()); gc.collect()"
    ),
    "asked by a daemon at exit": (
        "a = admin(); a.lag()\n"
        "def ask():\n    while True: a.lag()\n"
        "threading.Thread(target=ask, daemon=True).start(); time.sleep(0.5)"
    ),
    "asked at exit": "a = admin(); atexit.register(lambda: a.lag())",
}


def run(cluster, source):
    """Run a program of its own; return its exit code and all that it printed."""
    command = [sys.executable, "-c", BEFORE + source, cluster.bootstrap_servers]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("way", FORKS)
def test_fork_leaves_the_parents_client_alone(kafka_cluster, way):
    """Whatever the child does, the parent goes on at once."""
    source = f"""
a = admin()
def lag():
    return a.lag(timeout=30).complete
assert lag()
{FORKS[way]}
began = time.monotonic()
assert lag()
assert time.monotonic() - began < 15
"""
    assert run(kafka_cluster, source) == (0, "")


@pytest.mark.parametrize("way", ENDS)
def test_nothing_is_printed_at_the_end(kafka_cluster, way):
    """Forgetting to close costs no line, at a collection and at exit."""
    assert run(kafka_cluster, ENDS[way]) == (0, "")


def test_command_prints_nothing_but_its_answer(kafka_cluster):
    """Also where the broker is reached by another name than it gives."""
    port = kafka_cluster.bootstrap_servers.rpartition(":")[2]
    command = [sys.executable, "-m", "kafkaguard.cli", "log-dirs"]
    for _ in range(3):
        done = subprocess.run(
            [*command, "-b", f"localhost:{port}", "--json"],
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert (done.returncode, done.stderr) == (0, "")
