"""The page of log lines has an entry for each line that the source can write."""

from __future__ import annotations

import ast
import json
import logging
import re
from pathlib import Path

import pytest

from kafkaguard._common.attributes import attribute
from kafkaguard._common.logs import Log

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/logs.md").read_text()
SOURCES = [
    file
    for package in ("kafkaguard", "policies", "adapters")
    for file in sorted((ROOT / package).rglob("*.py"))
]
#: The level of each method of ``Log``, and of the warnings of the delivery machine.
LEVELS = {
    "debug": "DEBUG",
    "info": "INFO",
    "warning": "WARNING",
    "error": "ERROR",
    "exception": "ERROR",
    "warn": "WARNING",
}
#: Where the loggers stand of texts that another file makes.
MACHINE = {"kafkaguard.producer", "kafkaguard.spark"}
ROW = re.compile(r"^\| `(\w+)` \| (\w+) \| (.*?) \| (.*?) \| (.*) \|$", re.MULTILINE)


class Lines(ast.NodeVisitor):
    """The lines of a file: the event, level and fields of each.

    Args:
        file: The file.
    """

    def __init__(self, file):
        self.file, self.found, self.loggers = file, [], set()
        self.visit(ast.parse(file.read_text()))

    def visit_Assign(self, node):
        """Note the logger."""
        if (
            isinstance(node.value, ast.Call)
            and getattr(node.value.func, "id", "") == "Log"
        ):
            self.loggers.add(f"kafkaguard.{node.value.args[0].value}")
        self.generic_visit(node)

    def visit_Call(self, node):
        """Note a call of a logger, or one that is put off by ``partial``."""
        functions = [
            (node.func, node.args),
            *((a, node.args[1:]) for a in node.args[:1]),
        ]
        for function, args in functions:
            if isinstance(function, ast.Attribute) and is_log(function):
                event = args[0].value if isinstance(args[0], ast.Constant) else None
                # Text of the machine, which names its event itself.
                if not (event is None and ast.unparse(args[0]).startswith("warning.")):
                    fields = {each.arg for each in node.keywords}
                    if function.attr == "exception":
                        fields.add("error")
                    if function.attr == "warn" and len(args) > 2:
                        fields.add("topic")
                    self.found.append((event, LEVELS[function.attr], fields))
        self.generic_visit(node)


def is_log(function):
    """Return whether an attribute is a method of a logger, or of the outbox."""
    owner = ast.unparse(function.value)
    if function.attr == "warn":
        return owner == "self._outbox"
    return owner in ("_log", "log") and function.attr in LEVELS


def lines():
    """Return all lines: loggers, levels and fields by event."""
    found = {}
    for file in SOURCES:
        read = Lines(file)
        for event, level, fields in read.found:
            assert event is not None, f"{file}: a line without the name of an event"
            loggers, levels, all_fields = found.setdefault(event, (set(), set(), set()))
            loggers |= read.loggers or MACHINE
            levels.add(level)
            all_fields |= fields
    return found


FOUND = lines()
ROWS = {row[0]: row[1:] for row in ROW.findall(PAGE)}


def test_every_line_has_an_entry():
    """And the page has no other."""
    assert set(ROWS) == set(FOUND)


@pytest.mark.parametrize("event", FOUND)
def test_an_entry_says_level_loggers_and_fields(event):
    """In its columns; the last one says what to do."""
    loggers, levels, fields = FOUND[event]
    level, on_page, fields_on_page, meaning = ROWS[event]
    assert {level} == levels
    assert set(re.findall(r"`([\w.]+)`", on_page)) == {
        each.removeprefix("kafkaguard.") for each in loggers
    }
    names = {attribute(field) for field in fields}
    assert set(re.findall(r"`([\w.]+)`", fields_on_page)) == names
    assert len(meaning) > 20


def test_no_file_writes_lines_past_the_helper():
    """A line that has no event and no fields cannot be found by them."""
    past = [
        str(file)
        for file in SOURCES
        if re.search(
            r"getLogger\(\"kafkaguard\.(?!spark\.librdkafka)", file.read_text()
        )
    ]
    assert past == []


def test_a_line_has_its_event_and_fields(caplog):
    """With the names that metrics have, ready for a formatter of JSON."""
    error = ValueError("no")
    Log("test").warning("event", "a %s", "b", topic="t", error=error, group=None, n=5)
    (record,) = caplog.records
    assert (record.name, record.message) == ("kafkaguard.test", "a b")
    assert record.filename == Path(__file__).name
    fields = {k: v for k, v in vars(record).items() if "." in k}
    assert json.loads(json.dumps(fields)) == {
        "kafkaguard.event": "event",
        "messaging.destination.name": "t",
        "error.type": "ValueError",
        "kafkaguard.n": 5,
    }
    assert record.exc_info is None


def test_an_error_has_the_traceback_of_its_exception(caplog):
    """Of the one that is handled, or the one that is given."""
    ours = Log("test")
    try:
        raise KeyError("k")
    except KeyError as error:
        ours.exception("event", "text")
        kept = error
    ours.error("event", "text", error=kept)
    ours.error("event", "text")
    assert [bool(each.exc_info) for each in caplog.records] == [True, True, False]
    assert [vars(each).get("error.type") for each in caplog.records] == [
        "KeyError",
        "KeyError",
        None,
    ]


def test_a_level_that_is_off_costs_no_fields(caplog):
    """Nothing is converted for a line that nobody reads."""

    class Costly:
        def __str__(self):
            raise AssertionError

    caplog.set_level(logging.INFO, "kafkaguard.test")
    Log("test").debug("event", "text", what=Costly())
    assert caplog.records == []
