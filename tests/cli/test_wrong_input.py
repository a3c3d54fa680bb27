"""What a newcomer got wrong at the command line, and what the answer must be."""

from __future__ import annotations

import json
import socket
import subprocess
import sys

import pytest

from kafkaguard.cli.group import run

#: More digits than Python turns into a number.
DIGITS = "9" * 5_000


@pytest.mark.parametrize(
    "arguments",
    [
        ["explain", DIGITS],
        ["explain", f"[Error {DIGITS}]"],
        ["explain", "87", "--api", DIGITS],
        ["errors", "--api", DIGITS],
        ["decode", "--api", DIGITS, "00"],
        ["decode", "--api", "\u00b2", "00"],
        ["decode", "--api", "Produce", "--version", DIGITS, "00"],
        ["lag", "-b", "127.0.0.1:1", "--watch", "--looks", DIGITS[:400]],
        ["lag", "-b", "127.0.0.1:1", "--timeout", "nan"],
        ["lag", "-b", f"127.0.0.1:{DIGITS}"],
        ["log-dirs", "-b", "127.0.0.1:\u00b2"],
        ["policy", "preview", "default", "--runs", DIGITS[:400]],
        ["policy", "preview", "default", "--limit", "0"],
        ["policy", "preview", "default", "--seed", DIGITS],
        ["broker", "--brokers", DIGITS],
        ["broker", "--topic", f"t:{DIGITS}"],
        ["proxy", "--bootstrap-server", f"127.0.0.1:{DIGITS}"],
        ["proxy", "--bootstrap-server", "127.0.0.1:1", "--for", DIGITS],
        [
            "proxy",
            "--bootstrap-server",
            "127.0.0.1:1",
            "--listen",
            f"127.0.0.1:{DIGITS}",
        ],
    ],
    ids=lambda arguments: " ".join(each[:12] for each in arguments),
)
def test_numbers_out_of_all_bounds_are_wrong_input(arguments, capsys):
    """Each command says so with exit code 2, and starts nothing."""
    assert run(arguments) == 2
    printed = capsys.readouterr()
    assert "Error: " in printed.err
    assert printed.out == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["lga"], "No such command 'lga'; did you mean 'lag'?"),
        (["polic"], "No such command 'polic'; did you mean 'policy'?"),
        (["policy", "chek", "x"], "No such command 'chek'; did you mean 'check'?"),
        (["pipeline", "rnu"], "No such command 'rnu'; did you mean 'run'?"),
        (["xyzzy"], "No such command 'xyzzy'; there are broker, decode, demo,"),
        (["lag", "--topc", "x"], "No such option '--topc'; did you mean '--topic'?"),
        (["lag", "--jsno"], "No such option '--jsno'; did you mean '--json'?"),
        (
            ["lag", "--group", "x"],
            "No such option '--group'; GROUPS is given without an option",
        ),
        (["lag", "--xyzzyx"], "No such option '--xyzzyx'."),
    ],
)
def test_a_misspelt_command_or_option_is_told_with_the_closest(arguments, said, capsys):
    """Exit code 2, for people and as JSON."""
    assert run(arguments) == 2
    assert f"Error: {said}" in capsys.readouterr().err
    assert run([*arguments, "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"].startswith(said)


def test_a_misspelt_setting_is_quoted_with_its_line(tmp_path, capsys):
    """A name of which a space is a part can be seen to have one."""
    path = tmp_path / "client.properties"
    path.write_text("bootstrap.servers=x:1\nacks\\ =1\n")
    assert run(["lag", "--config", str(path)]) == 2
    said = capsys.readouterr().err
    assert f"{path}, line 2: " in said
    assert "'acks ': Kafka's client has no such setting; did you mean 'acks'?" in said


def test_a_broker_that_there_is_not_is_no_lost_record(kafka_cluster, capsys):
    """`log-dirs --broker 99` speaks of brokers, not of a record to send again."""
    arguments = ["-b", kafka_cluster.bootstrap_servers, "--broker", "99"]
    assert run(["log-dirs", *arguments]) == 1
    told = capsys.readouterr().err
    assert "the cluster has no broker 99; it has 0" in told
    assert "record" not in told


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("errors --json", 0),
        ("explain 87", 0),
        ("decode --api Produce", 2),
        ("policy check nope --json", 2),
        ("proxy --bootstrap-server 127.0.0.1:{port} --for 0.01", 0),
    ],
)
def test_a_closed_stream_changes_nothing_but_what_is_seen(command, code, closed):
    """Who closes an output wants the exit code only; no traceback ends the command."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        arguments = command.format(port=listener.getsockname()[1])
        line = f"exec {sys.executable} -m kafkaguard.cli {arguments} {closed}"
        ended = subprocess.run(
            ["sh", "-c", line], input="", capture_output=True, text=True, timeout=60
        )
    assert ended.returncode == code
    assert "Traceback" not in ended.stderr


def test_a_fenced_producer_may_have_timed_out(capsys):
    """Explain 90 names both causes, and how to tell them apart (KAFKA-20785)."""
    assert run(["explain", "90"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    for words in ("another instance", "transaction.timeout.ms", "no other instance"):
        assert words in told


def test_the_schema_takes_json_as_every_command(capsys):
    """It is the same with and without."""
    assert run(["policy", "schema"]) == run(["policy", "schema", "--json"]) == 0
    once, twice = capsys.readouterr().out.split("\n{", 1)
    assert json.loads(once) == json.loads("{" + twice)


@pytest.mark.parametrize("command", [["explain", "9"], ["errors"]])
def test_a_request_is_named_by_its_number_too(command, capsys):
    """As `decode --api` takes it; what resembles nothing is not guessed at."""
    assert run([*command, "--api", "1", "--json"]) == 0
    by_number = capsys.readouterr().out
    assert run([*command, "--api", "fetch", "--json"]) == 0
    assert by_number == capsys.readouterr().out
    for wrong in ("Nope", "999"):
        assert run([*command, "--api", wrong]) == 2
        assert "did you mean" not in capsys.readouterr().err
    assert run([*command, "--api", "Produec"]) == 2
    assert "did you mean 'Produce'?" in capsys.readouterr().err
