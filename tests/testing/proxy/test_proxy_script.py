"""Faults from a file, and the command that runs them."""

from __future__ import annotations

import json
import socket
import subprocess
import sys

import pytest
from click.testing import CliRunner
from kafka.protocol.consumer import HeartbeatRequest

from kafkaguard.cli.commands.proxy import proxy as command
from kafkaguard.testing import FaultProxy, FaultSpecError, ProxyError
from kafkaguard.testing.proxy import actions
from tests.testing.proxy.raw_client import RawClient

HEARTBEAT = HeartbeatRequest(version=4, group_id="g", generation_id=1, member_id="m")
EVERY_WORD = """
rate: 0.5
seed: 3
faults:
  - on: Produce
    topic: orders-*
    partition: 2
    fail: NOT_LEADER_OR_FOLLOWER
    times: 3
    written: true
    at: partition
    message: on purpose
    records: [1, 2]
  - {on: [Fetch, ListOffsets], broker: 1, delay: 0.5, before: true}
  - {client_id: me, nth: 4, throttle: 2}
  - {on: Produce, skip: 2, drop: true}
  - {on: Produce, rate: 0.1, seed: 9, close: true, written: true}
  - {on: Produce, reset: true}
  - {on: Produce, cut: 7}
  - {on: Produce, garble: true}
  - {on: Metadata, empty: true}
  - {on: Produce, down: 5}
  - {on: Produce, cap: 7, min_version: 3}
  - {on: DescribeLogDirs, hide: true}
  - {on: Heartbeat, fail: 27}
"""


@pytest.fixture
def script(tmp_path):
    """Write a file of faults."""

    def write(text):
        path = tmp_path / "faults.yaml"
        path.write_text(text)
        return path

    return write


def test_every_word_of_the_language(script, monkeypatch):
    """A file says what the methods say."""
    failures = []

    def fail(code, fields, **more):
        failures.append((fields, more))
        return make_failure(code, fields, **more)

    make_failure = actions.fail
    monkeypatch.setattr(actions, "fail", fail)
    faults = FaultProxy("localhost:9092").load(script(EVERY_WORD))
    assert [str(fault) for fault in faults] == [
        "fail with NOT_LEADER_OR_FOLLOWER(6) after the broker did the work",
        "delay the request by 0.5 s",
        "throttle by 2 s",
        "drop after the broker did the work",
        "close after the broker did the work",
        "reset before the broker did the work",
        "cut after the broker did the work",
        "garble after the broker did the work",
        "answer empty",
        "take the broker away for 5 s",
        "offer versions 3 to 7",
        "hide the API",
        "fail with REBALANCE_IN_PROGRESS(27)",
    ]
    first, second, third = faults[:3]
    assert (first.match.topic, first.match.partition) == ("orders-*", 2)
    assert (first.times, first.rate, first.seed) == (3, 0.5, 3)
    assert second.match.broker == 1
    assert failures[0] == (
        {"error_message": "on purpose", "record_errors": (1, 2)},
        {"written": True, "at": "partition"},
    )
    assert (third.match.client_id, third.skip, third.times) == ("me", 3, 1)
    assert [fault.seed for fault in faults[:5]] == [3, 4, 5, 6, 9]
    assert faults[4].rate == 0.1


def test_rate_and_seed_from_outside(script):
    """They go before the file's, not before a fault's own."""
    text = "rate: 0.5\nfaults:\n- {fail: 1}\n- {fail: 2, rate: 0.25, seed: 1}\n"
    faults = FaultProxy("localhost:9092").load(script(text), rate=0.75, seed=40)
    assert [(fault.rate, fault.seed) for fault in faults] == [(0.75, 40), (0.25, 1)]


@pytest.mark.parametrize(
    ("text", "place", "hint"),
    [
        (
            "faults:\n- {on: Produce, fial: 6}",
            ":2",
            "unknown word 'fial'; did you mean 'fail'?",
        ),
        ("faults:\n- on: Produce\n  fail: NOT_LEADR", ":3", "'NOT_LEADER_OR_FOLLOWER'"),
        ("faults:\n- on: Prodcue\n  fail: 6", ":3", "did you mean 'Produce'?"),
        (
            "faults:\n- on: Produce\n  tpoic: a\n  fail: 6",
            ":3",
            "did you mean 'topic'?",
        ),
        ("faults:\n- fail: 6\n  wirtten: true", ":3", "did you mean 'written'?"),
        ("faults:\n- fail: 6\n  times: often", ":2", "times takes a whole number"),
        ("faults:\n- fail: 6\n  times: true", ":2", "times takes a whole number"),
        (
            "faults:\n- delay: soon",
            ":2",
            "seconds takes a number (int or float), not str",
        ),
        ("faults:\n- fail: 6\n  delay: 1", ":3", "one thing, not fail and delay"),
        (
            "faults:\n- on: Produce\n  times: 3",
            ":2",
            "no action is named; name one of: fail,",
        ),
        ("faults:\n- fail: 6\n  fail: 7", ":3", "stands twice"),
        ("faults:\n- fail: 6\n  rate: 2", ":2", "(0, 1]"),
        ("fautls:\n- fail: 6", ":1", "did you mean 'faults'?"),
        ("rate: much\nfaults: [{fail: 6}]", ":2", "rate takes a number"),
        ("faults:\n- {topic: 5, fail: 6}", ":2", "topic takes text, not int"),
        ("rate: 1", ":1", "expected the key 'faults' with a list"),
        ("faults: 3", ":1", "expected the key 'faults' with a list"),
        ("faults:\n- fail", ":2", "fault 1 is not a mapping"),
        ("faults:\n- {}", ":2", "fault 1 is not a mapping"),
        ("", ":1", "must be a mapping of settings, not nothing"),
        ("a: [", ":1", "not well-formed YAML"),
        ("- 1", ":1", "must be a mapping of settings, not a list"),
    ],
)
def test_a_wrong_file(text, place, hint, script):
    """The message has the file, the line and the right word; no fault is set."""
    proxy = FaultProxy("localhost:9092")
    with pytest.raises(FaultSpecError) as caught:
        proxy.load(script(text))
    assert str(caught.value).startswith(f"{script(text)}{place}: ")
    assert hint in str(caught.value)
    assert proxy.faults == ()


def _run(*arguments):
    program = "from kafkaguard.cli.commands.proxy import proxy; proxy()"
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_command_lets_faults_happen(kafka_cluster, script, tmp_path):
    """Faults of a file, the kill switch, and the counts at the end."""
    faults = script("faults:\n- {on: Heartbeat, fail: REBALANCE_IN_PROGRESS}")
    pause = tmp_path / "pause"
    process = _run(
        *(
            "--bootstrap-server",
            kafka_cluster.bootstrap_servers,
            "--faults",
            str(faults),
        ),
        *("--pause-file", str(pause), "--for", "6", "--json"),
    )
    address = process.stderr.readline().split()[-1]
    with RawClient(address) as client:
        assert client.ask(HEARTBEAT).error_code == 27
        pause.touch()
        asked = 1
        while client.ask(HEARTBEAT).error_code == 27:
            asked += 1
    out, err = process.communicate(timeout=30)
    counts = json.loads(out)
    assert (process.returncode, err) == (0, "")
    assert asked + 1 == counts["requests"]["Heartbeat"]
    assert counts["faults"] == [
        {"fault": "fail with REBALANCE_IN_PROGRESS(27)", "fired": asked}
    ]
    times = {error["name"]: error["times"] for error in counts["errors"]}
    assert times["REBALANCE_IN_PROGRESS"] == asked


def test_the_command_for_people(kafka_cluster, script):
    """It says where to connect, and sums up at the end."""
    faults = script("faults:\n- {on: Heartbeat, fail: REBALANCE_IN_PROGRESS}")
    process = _run(
        *(
            "--bootstrap-server",
            kafka_cluster.bootstrap_servers,
            "--faults",
            str(faults),
        ),
        *("--for", "2"),
    )
    address = process.stdout.readline().split()[-1]
    with RawClient(address) as client:
        client.ask(HEARTBEAT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (0, "")
    assert "Heartbeat: 1  REBALANCE_IN_PROGRESS: 1" in out
    assert "fail with REBALANCE_IN_PROGRESS(27): 1" in out


@pytest.mark.parametrize(
    ("arguments", "code", "hint"),
    [
        (["--bootstrap-server", "nowhere"], 2, "an upstream broker is host:port"),
        (["--bootstrap-server", "a:0"], 2, "a port up to 65535"),
        (["--bootstrap-server", "a:99999"], 2, "a port up to 65535"),
        (["--bootstrap-server", "a:1", "--listen", "a"], 2, "give host:port"),
        (["--bootstrap-server", "a:1", "--listen", "a:99999"], 2, "a port up to 65535"),
        (["--bootstrap-server", "a:1", "--for", "-1"], 2, "not in the range 0.001<=x"),
        (["--bootstrap-server", "a:1", "--for", "nan"], 2, "is not a number"),
        (["--bootstrap-server", "a:1", "--for", "inf"], 2, "not in the range 0.001<=x"),
        (["--bootstrap-server", "a:1", "--rate", "nan"], 2, "--rate"),
        (["--bootstrap-server", "a:1", "--rate", "2"], 2, "--rate"),
        ([], 2, "--bootstrap-server"),
    ],
)
def test_wrong_options(arguments, code, hint):
    """What was given is at fault: exit code 2 and what would be right."""
    result = CliRunner().invoke(command, arguments)
    assert code == result.exit_code
    assert hint in result.output


def test_a_port_in_use_is_wrong_input(kafka_cluster):
    """An address that is in use ends the command with code 2."""
    address = kafka_cluster.bootstrap_servers
    result = CliRunner().invoke(
        command, ["--bootstrap-server", address, "--listen", address]
    )
    assert result.exit_code == 2
    assert "cannot listen" in result.output


@pytest.mark.parametrize("port", [-1, 65536, 99999])
def test_a_port_that_there_is_not(port):
    """The library says so too, before it starts."""
    with pytest.raises(ProxyError, match="1 to 65535"):
        FaultProxy("127.0.0.1:1", port=port)


def test_a_file_of_faults_that_is_no_text(tmp_path):
    """What cannot be read is said to be that."""
    file = tmp_path / "faults.yaml"
    file.write_bytes(b"\xff\xfe\x00")
    arguments = ["--bootstrap-server", "a:1", "--faults", str(file)]
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 2
    assert "not a text file" in result.output


def test_a_wrong_file_of_faults(script):
    """A misspelt fault ends the command with code 2."""
    path = str(script("faults:\n- {on: Produce, fial: 6}"))
    result = CliRunner().invoke(
        command, ["--bootstrap-server", "a:1", "--faults", path]
    )
    assert result.exit_code == 2
    assert "did you mean 'fail'?" in " ".join(result.output.split())


def test_an_address_that_is_not_this_machines_is_refused():
    """The broker is there, and the proxy cannot listen where it was told to."""
    with socket.create_server(("127.0.0.1", 0)) as broker:
        upstream = f"127.0.0.1:{broker.getsockname()[1]}"
        arguments = ["--bootstrap-server", upstream, "--listen", "192.0.2.1:1"]
        result = CliRunner().invoke(command, arguments)
    assert (result.exit_code, "cannot listen" in result.output) == (2, True)
