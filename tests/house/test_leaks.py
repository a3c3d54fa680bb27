"""A test that leaves a client, a socket or a thread open fails, and no other one."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests import leaks

ROOT = Path(__file__).resolve().parents[2]


def blamed(opened):
    """Return what `check` says of what a function opens, which the caller closes."""
    before = leaks.look()
    kept = opened()
    try:
        with pytest.raises(pytest.fail.Exception) as caught:
            leaks.check(before)
    finally:
        kept.close()
    leaks.check(before)
    return str(caught.value)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    """Wait for nothing that ends by itself."""
    monkeypatch.setattr(leaks, "PATIENCE_S", 0.0)


def test_a_socket_is_named_by_its_address():
    """Its client is found by the port of the broker."""
    said = blamed(lambda: socket.create_server(("127.0.0.1", 0)))
    assert "the test leaves open: socket" in said
    assert "127.0.0.1" in said


def test_a_client_of_librdkafka_is_seen_without_a_connection(monkeypatch):
    """It has threads that Python does not know."""
    monkeypatch.setattr(leaks, "PATIENCE_S", 5.0)  # its threads end after its close
    said = blamed(lambda: Producer({"bootstrap.servers": "127.0.0.1:1"}))
    assert "client of librdkafka" in said


def test_a_thread_is_named():
    """One that ends in time is none."""
    end = threading.Event()
    before = leaks.look()
    thread = threading.Thread(target=end.wait, name="a-clients-thread")
    thread.start()
    with pytest.raises(pytest.fail.Exception, match="thread a-clients-thread"):
        leaks.check(before)
    end.set()
    thread.join()
    leaks.check(before)


LEAKING = """
import gc, socket

def test_leaves_a_socket_to_the_garbage_collector():
    gc.collect()
    gc.disable()
    class Client: pass
    client = Client()
    client.me = client
    client.socket = socket.create_server(("127.0.0.1", 0))

def test_collects_it():
    gc.enable()
    gc.collect()
"""


def test_the_test_that_opened_a_socket_is_blamed_and_not_the_one_that_collects_it(
    tmp_path,
):
    """Else a test fails beside others and passes alone."""
    (tmp_path / "conftest.py").write_text((ROOT / "tests/conftest.py").read_text())
    (tmp_path / "test_two.py").write_text(LEAKING)
    options = ("-p", "no:randomly", "-W", "error", "--no-java", "--leaks", "-rE", "-q")
    told = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout
    assert "2 passed, 1 error" in told
    assert re.search(r"ERROR .*::test_leaves_a_socket", told)
