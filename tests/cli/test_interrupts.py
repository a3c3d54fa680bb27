"""Ctrl-C and SIGTERM end each command that runs long, without a traceback."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

from kafkaguard.cli.group import cli, run

TERM, INT = signal.SIGTERM, signal.SIGINT
#: A command that waits; the line that it prints says that it runs.
WAITING = """
import signal, time
import click
from kafkaguard.cli import group, main
@click.command()
def wait():
    click.echo("ready")
    time.sleep(60)
group.LazyGroup.get_command = lambda *_: wait
main()
"""


def ended(*arguments, by, first="stdout"):
    """Start a command, send a signal once it has printed a line; return its end."""
    process = subprocess.Popen(
        [sys.executable, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        said = getattr(process, first).readline()
        process.send_signal(by)
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    assert said, err
    assert "Traceback" not in err
    return process.returncode, out


@pytest.mark.parametrize(("number", "code"), [(INT, 130), (TERM, 143)])
def test_interrupted_command_has_the_exit_code_of_its_signal(number, code):
    """As a shell reports it: 128 and the number of the signal."""
    returned, _ = ended("-c", WAITING, "errors", by=number)
    assert code == returned


@pytest.mark.parametrize("number", [INT, TERM])
def test_proxy_prints_its_counts_however_it_is_ended(kafka_cluster, number):
    """It runs until it is ended, so that is no failure."""
    at = "--bootstrap-server", kafka_cluster.bootstrap_servers
    command = "-m", "kafkaguard.cli", "proxy", *at, "--json"
    code, out = ended(*command, by=number, first="stderr")
    assert (code, json.loads(out)["requests"]) == (0, {})


@pytest.mark.parametrize("number", [INT, TERM])
def test_watched_lag_ends_with_the_code_of_its_last_measurement(kafka_cluster, number):
    """It runs until it is ended, so that is no failure."""
    at = "--bootstrap-server", kafka_cluster.bootstrap_servers
    command = "-m", "kafkaguard.cli", "lag", *at, "--watch", "--json"
    code, _ = ended(*command, by=number)
    assert code in (0, 1)  # other tests may leave groups that cannot be measured


def test_end_by_sigterm_is_told_apart_within_the_command(monkeypatch):
    """SIGTERM and Ctrl-C have different exit codes, though click aborts for both."""
    from kafkaguard.cli.interrupts import Terminated

    def end(*_, **__):
        raise Terminated

    monkeypatch.setattr(cli, "invoke", end)
    assert run(["errors"]) == 143
