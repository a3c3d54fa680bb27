"""What people see: tables that fit, no style where none is wanted, tracebacks on demand."""

from __future__ import annotations

import io
import re

import click
import pytest

from kafkaguard._errors.generated import BY_CODE
from kafkaguard._verdicts.rules import RULES
from kafkaguard.cli import group
from kafkaguard.cli.group import run
from kafkaguard.cli.output import PlainTable, console

WIDTHS = (60, 80, 120)


@pytest.fixture
def show(monkeypatch, capsys):
    """Run a command in a terminal of a width; return its lines."""

    def run_in(width, *arguments):
        monkeypatch.setenv("COLUMNS", str(width))
        assert run(list(arguments)) == 0
        return capsys.readouterr().out.splitlines()

    return run_in


@pytest.mark.parametrize("width", WIDTHS)
def test_errors_are_readable_in_each_width(show, width):
    """No line is longer than the terminal, and each name stands whole in its row."""
    lines = show(width, "errors")
    assert max(map(len, lines)) <= width
    for code, cls in BY_CODE.items():
        assert any(re.search(rf"^ *{code}  {cls.name}\b", line) for line in lines)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    "arguments", [("explain", "87"), ("policy", "show"), ("errors", "--api", "Fetch")]
)
def test_no_word_is_broken(show, width, arguments):
    """Every word of the wide output is in the narrow one, too."""
    words = re.compile(r"[\w.-]+\w")
    wide = set(words.findall("\n".join(show(500, *arguments))))
    narrow = set(words.findall("\n".join(show(width, *arguments))))
    left_out = {"Rule", "Java", "retries"} | {rule.info.id for rule in RULES}
    assert wide - narrow <= left_out


@pytest.mark.parametrize("width", range(50, 130, 3))
def test_no_setting_is_cut_in_the_table_of_a_policy(show, width):
    """Whole words in lines that are no longer than the terminal, in each width."""
    lines = show(width, "policy", "check", "default")
    assert max(map(len, lines)) <= width
    assert "…" not in "".join(lines)
    wide = " ".join(show(500, "policy", "check", "default"))
    assert set(wide.split()) <= {*" ".join(lines).split(), "Use", "Obeys", "Ignores"}


def test_a_table_that_fits_nowhere_is_written_as_blocks():
    """Each row is a block of lines, and the names in it stay whole."""
    drawn = PlainTable("Group", "Topic")
    drawn.add_row("a-group-with-a-long-name", "a-topic-with-a-long-name")
    drawn.add_row("billing", "orders")
    screen = console()
    screen.file, screen.width = io.StringIO(), 40
    screen.print(drawn)
    assert screen.file.getvalue().splitlines() == [
        "Group: a-group-with-a-long-name",
        "Topic: a-topic-with-a-long-name",
        "",
        "Group: billing",
        "Topic: orders",
    ]


def test_optional_columns_go_first_and_are_named():
    """The first one named goes first; the output says what is missing."""
    drawn = PlainTable("Name", "Rule", "Java", box=None, pad_edge=False)
    drawn.add_row("N" * 30, "R" * 20, "retries")
    drawn.leave_out("Rule", "Java")
    screen = console()
    screen.file, screen.width = io.StringIO(), 60
    screen.print(drawn)
    said = screen.file.getvalue()
    assert "retries" in said
    assert "RRR" not in said
    assert "Not shown in this width: Rule." in said


def test_no_color_means_no_style_at_all(monkeypatch):
    """With NO_COLOR a terminal gets neither color nor bold."""
    drawn = {}
    for value in ("1", ""):
        monkeypatch.setenv("NO_COLOR", value)
        monkeypatch.setenv("FORCE_COLOR", "1")
        screen = console()
        screen.file = io.StringIO()
        screen.print("text", style="bold red")
        drawn[value] = screen.file.getvalue()
    assert drawn["1"] == "text\n"
    assert "\x1b[" in drawn[""]


@pytest.fixture
def failing(monkeypatch):
    """Let the command ``errors`` fail as it is told."""

    def fail_with(exception):
        def fail():
            raise exception

        command = click.Command("errors", callback=fail)
        monkeypatch.setattr(group.LazyGroup, "get_command", lambda *_: command)

    return fail_with


def test_a_bug_is_one_line_that_says_how_to_see_more(failing, capsys):
    """Exit code 70, no traceback, and the way to it."""
    failing(KeyError("topic"))
    assert run(["errors"]) == 70
    said = capsys.readouterr().err
    assert said.startswith("kafkaguard: unexpected KeyError: 'topic'")
    assert "--debug" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("exception", [KeyError("topic"), group.Problem("no cluster")])
@pytest.mark.parametrize("arguments", [["--debug", "errors"], ["errors", "--debug"]])
def test_debug_prints_the_traceback(failing, capsys, exception, arguments):
    """Wherever the option stands, and whatever ended the command."""
    failing(exception)
    assert run(arguments) in (2, 70)
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_the_variable_does_the_same(failing, capsys, monkeypatch):
    """KAFKAGUARD_DEBUG=1 prints the traceback, and KAFKAGUARD_DEBUG=0 does not."""
    failing(KeyError("topic"))
    monkeypatch.setenv("KAFKAGUARD_DEBUG", "0")
    run(["errors"])
    assert "Traceback" not in capsys.readouterr().err
    monkeypatch.setenv("KAFKAGUARD_DEBUG", "1")
    run(["errors"])
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "proposed"),
    [
        (("la",), "lag"),
        (("demo", "--js"), "--json"),
        (("policy", "show", "low"), "low-latency"),
    ],
)
def test_the_shell_completes(monkeypatch, capsys, words, proposed):
    """Commands, options and the names of presets, as bash asks for them."""
    monkeypatch.setenv("_KAFKAGUARD_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", " ".join(["kafkaguard", *words]))
    monkeypatch.setenv("COMP_CWORD", str(len(words)))
    with pytest.raises(SystemExit):
        run([])
    assert proposed in [
        line.partition(",")[2] for line in capsys.readouterr().out.splitlines()
    ]
