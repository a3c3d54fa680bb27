"""What comes from outside is text, and never markup, in tables, pictures and lines."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from rich.console import Console
from rich.text import Text

from kafkaguard._cluster.lag import GroupLag, LagReport, measure
from kafkaguard._cluster.reports import TopicPartition
from kafkaguard._common.text import plain, plain_lines
from kafkaguard.cli.group import COMMANDS, run
from kafkaguard.cli.lag_table import table
from kafkaguard.cli.output import PlainTable, console, say, styled
from kafkaguard.errors import GroupAuthorizationFailedError
from tests.asking.cluster_clients import commit
from tests.names import NAMES

PLACE = TopicPartition("t", 0)


@pytest.mark.parametrize("name", NAMES)
def test_plain_text_is_one_line_that_only_shows(name):
    """What can be seen stays as it is; what cannot is written out."""
    shown = plain(name)
    assert shown.isprintable()
    assert (name == shown) == name.isprintable()
    assert "\\x1b" in plain("\x1b")
    assert plain_lines(f"a\n{name}").startswith("a\n")


@pytest.fixture
def printed(capsys, monkeypatch):
    """Return what was printed, as it would go into a pipe."""
    monkeypatch.delenv("COLUMNS", raising=False)
    return lambda: capsys.readouterr().out


@pytest.mark.parametrize("name", NAMES)
def test_cell_of_a_table_shows_a_name_whole(printed, name):
    """Also with the colours of a terminal, and however long it is."""
    drawn = PlainTable("Name", title="[/x]")
    drawn.add_row(name)
    drawn.add_row(styled(name, "red"))
    drawn.add_row(Text("own"))
    console().print(drawn)
    out = printed()
    assert out.count(plain(name)) == 2
    assert "\x1b" not in out
    say(name)
    assert printed().rstrip("\n") == plain_lines(name)


def test_terminal_gets_no_control_of_a_names(monkeypatch):
    """On a terminal only our own styles are sent."""
    screen = Console(force_terminal=True, width=80, markup=False)
    drawn = PlainTable("Name")
    drawn.add_row("\x1b[31mred", styled("\x9b2J", "bold"))
    with screen.capture() as captured:
        screen.print(drawn)
    assert "\x1b[31m" not in captured.get()
    assert "\x9b" not in captured.get()


@pytest.mark.parametrize("name", NAMES)
def test_lag_table_shows_groups_whatever_they_are_called(printed, name):
    """Groups with odd names are in each form of the table, with a lag or an error."""
    groups = {
        name: GroupLag(name, name, partitions={PLACE: measure(PLACE, 1, 3)}),
        name + "2": GroupLag(name, error=GroupAuthorizationFailedError(name)),
    }
    report = LagReport(groups, 0.0)
    for partitions in (True, False):
        drawn = table(report, report, partitions=partitions, watched=True)
        console().print(drawn)
        assert printed().count(plain(name)) >= 3


def test_every_group_of_a_cluster_is_in_table_and_json(
    kafka_cluster, kafka_topic, printed
):
    """One oddly named group ends no report on the others."""
    address = kafka_cluster.bootstrap_servers
    names = [f"{name}{kafka_topic}" for name in NAMES if len(name) < 200]
    for name in names:
        commit(address, name, {(kafka_topic, 0): 0})
    asked = ["lag", "-b", address, "--topic", kafka_topic]
    for more in ([], ["--partitions"], ["--watch", "--looks", "2", "--interval", "0"]):
        assert run([*asked, *more]) == 0
        out = printed()
        assert all(plain(name) in out for name in names)
        assert "\x1b" not in out
    assert run([*asked, "--json"]) == 0
    assert set(names) == {g["group"] for g in json.loads(printed())["groups"]}


ARGUMENTS = {
    "broker": ["--brokers"],
    "decode": [],
    "demo": ["--flights"],
    "doctor": ["-b", "127.0.0.1:1", "--timeout", "0.5", "--topic"],
    "errors": ["--api"],
    "explain": ["--policy"],
    "lag": ["-b", "127.0.0.1:1", "--timeout", "0.5", "--"],
    "log-dirs": ["-b", "127.0.0.1:1", "--timeout", "0.5", "--topic"],
    "once": ["show", "-b", "127.0.0.1:1", "--timeout", "0.5", "--"],
    "pipeline": ["run"],
    "policy": ["check"],
    "proxy": ["--bootstrap-server"],
    "replay": ["-b", "127.0.0.1:1", "orders.dlq", "--fix"],
    "txn": ["list", "-b", "127.0.0.1:1", "--timeout", "0.5", "--older"],
}


def test_each_command_is_tried():
    """A new command is added to these."""
    assert set(COMMANDS) == set(ARGUMENTS)


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_command_that_is_given_an_odd_name_says_so_in_plain_text(command, capsys):
    """No traceback, nothing that a terminal acts on, whatever the argument is."""
    for name in NAMES:
        code = run([command, *ARGUMENTS[command], name])
        captured = capsys.readouterr()
        shown = captured.out + captured.err
        assert code in {1, 2}
        assert all(line.isprintable() for line in shown.split("\n"))


def test_names_are_not_folded_in_a_pipe():
    """In a pipe a long name stays in one line, so that grep finds it."""
    command = [sys.executable, "-m", "kafkaguard.cli", "errors"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    (found,) = [n for n in done.stdout.splitlines() if "NOT_LEADER_OR_FOLLOWER" in n]
    assert "REFRESH" in found
