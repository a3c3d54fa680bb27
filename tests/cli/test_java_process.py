"""The Java that a command starts ends with it, whenever Ctrl-C comes."""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
import time
from threading import Thread
from types import SimpleNamespace

import pytest
from pyspark import SparkContext, java_gateway

from kafkaguard.cli import spark_session
from kafkaguard.cli.spark_session import interrupts_wait, java_ends

pytestmark = pytest.mark.java


DEAF = 'trap "" TERM; echo $$; while :; do sleep 1; done'
PROGRAM = """
from kafkaguard.cli.spark_session import spark_session
with spark_session("never starts"):
    pass
"""


def start(script):
    """Start a process as PySpark does; return it when it runs."""
    command = ["bash", "-c", script]
    process = java_gateway.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    )
    with process.stdout:
        process.stdout.readline()
    return process


def test_process_of_pyspark_ends_with_an_interrupted_block():
    """It is asked to, and PySpark starts processes as before then."""
    former = java_gateway.Popen
    started = []

    def block():
        with java_ends():
            started.append(start("echo $$; exec sleep 600"))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        block()
    assert started[0].returncode == -signal.SIGTERM
    assert java_gateway.Popen is former


def test_java_of_the_block_is_forgotten_and_one_from_before_is_not(monkeypatch):
    """The next session starts another one, or goes on with the one that there is."""

    def failing(own):
        with java_ends():
            process = start("echo $$; exec sleep 600")
            proc = process if own else None
            monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=proc))
            monkeypatch.setattr(SparkContext, "_jvm", "Java")
            raise InterruptedError

    for own, left in ((False, "Java"), (True, None)):
        with pytest.raises(InterruptedError):
            failing(own)
        assert SparkContext._jvm == left


def test_process_that_does_not_end_is_killed(monkeypatch):
    """At the exit of the program, after the time that it is given."""
    monkeypatch.setattr(spark_session, "_GRACE_S", 0.1)
    registered = []
    monkeypatch.setattr(atexit, "register", lambda *call: registered.append(call))
    with java_ends():
        process = start(DEAF)
    ((at_exit, *arguments),) = registered
    assert process.poll() is None
    at_exit(*arguments)
    assert process.returncode == -signal.SIGKILL


def test_second_ctrl_c_does_not_save_the_process(monkeypatch):
    """It ends the wait, not what is waited for."""
    waits, started = [], []

    def interrupted(self, timeout=None):
        waits.append(timeout)
        if timeout is not None:
            raise KeyboardInterrupt
        return subprocess.Popen.wait(self)

    def block():
        with java_ends():
            started.append(start(DEAF))
            monkeypatch.setattr(type(started[0]), "wait", interrupted)
            raise InterruptedError

    with pytest.raises(KeyboardInterrupt):
        block()
    assert waits == [10, None]
    assert started[0].returncode == -signal.SIGKILL


@pytest.fixture
def handler():
    """Handle Ctrl-C as Python does; a session of Spark in this process does not."""
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield signal.default_int_handler
    signal.signal(signal.SIGINT, former)


def test_ctrl_c_waits_until_the_process_is_known(handler):
    """It comes, but after the block."""
    done = []

    def block():
        with interrupts_wait():
            signal.raise_signal(signal.SIGINT)
            done.append("the block")

    with pytest.raises(KeyboardInterrupt):
        block()
    assert done == ["the block"]
    assert signal.getsignal(signal.SIGINT) is handler


def test_other_threads_are_never_interrupted(handler):
    """So nothing waits there, and no handler is touched."""
    seen = []

    def block():
        with interrupts_wait():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = Thread(target=block)
    thread.start()
    thread.join(10)
    assert seen == [handler]


def test_ctrl_c_while_spark_starts_leaves_no_java_behind(tmp_path):
    """A Spark that never reports back is known by its number, and is gone."""
    submit = tmp_path / "bin" / "spark-submit"
    submit.parent.mkdir()
    note = tmp_path / "pid"
    submit.write_text(
        f"#!/bin/sh\necho $$ > {note}.new\nmv {note}.new {note}\nexec sleep 600\n"
    )
    submit.chmod(0o755)
    command = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "SPARK_HOME": str(tmp_path)},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        until = time.monotonic() + 60
        while not note.exists():
            assert command.poll() is None, command.stderr.read()
            assert time.monotonic() < until
        command.send_signal(signal.SIGINT)
        _, said = command.communicate(timeout=30)
    finally:
        command.kill()
        command.wait()
    assert "KeyboardInterrupt" in said
    with pytest.raises(ProcessLookupError):
        os.kill(int(note.read_text()), 0)
