"""`kafkaguard explain` and `kafkaguard errors`, as a person types them."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner

from kafkaguard.cli._main import cli
from kafkaguard.errors import BY_CODE


def invoke(*arguments, text=None, code=0):
    """Run the command line and return what it printed."""
    result = CliRunner().invoke(cli, arguments, input=text)
    assert result.exit_code == code, result.output
    return result.output


def explained(*arguments, text=None):
    """The JSON form of an explanation."""
    return json.loads(invoke("explain", *arguments, "--json", text=text))


@pytest.mark.parametrize(
    ("typed", "code"),
    [
        (("87",), 87),
        (("--", "-192"), -192),
        (("INVALID_RECORD",), 87),
        (("invalid_record",), 87),
        (("_MSG_TIMED_OUT",), -192),
        (("NotCoordinatorError",), 16),
        (("KafkaError{code=_MSG_TIMED_OUT,val=-192,str=x}",), -192),
        (("kafka.errors.NotLeaderForPartitionError:", "[Error", "6]", "moved"), 6),
    ],
)
def test_what_a_person_types_is_understood(typed, code):
    """Numbers, names of every kind, and texts of exceptions."""
    assert code == json.loads(invoke("explain", "--json", *typed))["code"]


def test_a_traceback_on_stdin_is_explained():
    """The last error named is the one that ended it."""
    trace = """Traceback (most recent call last):
  File "app.py", line 3, in <module>
kafka.errors.NotCoordinatorError: [Error 16] NotCoordinatorError
During handling of the above exception, another exception occurred:
kafka.errors.TopicAuthorizationFailedError: [Error 29] topic secret
"""
    assert explained("-", text=trace)["code"] == 29


def test_explanation_says_meaning_step_reason_and_source():
    """All that a person needs, in the first lines."""
    output = invoke("explain", "87")
    for words in ("INVALID_RECORD", "REJECT", "record-refused", "KIP-467", "written"):
        assert words in output


def test_explanation_shows_what_the_verdict_depends_on():
    """87 with and without a key are two things."""
    when = {d["rule"]: d for d in explained("87")["depends"]}
    assert when["null-key-on-compacted-topic"]["when"] == "record without a key"
    assert when["batch-mate-refused"]["action"] == "RETRY"
    metadata = {d["rule"]: d["when"] for d in explained("9")["depends"]}
    assert metadata["replica-down-in-metadata"] == "Metadata"


def test_context_on_the_command_line_decides():
    """The options are those of classify()."""
    given = explained("7", "--api", "produce", "--idempotent")
    assert given["verdict"]["rule"] == "sequence-protects"
    given = explained("9", "--api", "list_offsets", "--tiered")
    assert given["verdict"]["error_class"] == "RemoteStorageNotReadyError"


def test_a_code_from_the_future_is_explained_too():
    """Its number is kept, and nothing crashes."""
    assert explained("999")["name"] == "UNRECOGNISED_999"
    assert "does not have" in invoke("explain", "999")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("explain", "NOT_CORDINATOR"), "Did you mean NOT_COORDINATOR?"),
        (("explain", "hello"), "no Kafka error found in 'hello'"),
        (("explain", "6", "--api", "Produse"), "did you mean Produce?"),
        (("errors", "--api", "Fetsh"), "did you mean Fetch?"),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_2(arguments, words):
    """What is wrong, and what is right."""
    output = invoke(*arguments, code=2)
    assert words in output
    assert "Traceback" not in output


def test_table_of_all_errors():
    """137 rows, as a table and as JSON, and filtered."""
    rows = json.loads(invoke("errors", "--json"))
    assert [row["code"] for row in rows] == sorted(BY_CODE)
    fenced = json.loads(invoke("errors", "--json", "--action", "fenced"))
    assert {row["code"] for row in fenced} == {82, 90, 111}
    assert "NOT_COORDINATOR" in invoke("errors")


def test_every_code_can_be_explained():
    """No code breaks the picture."""
    for code in BY_CODE:
        assert BY_CODE[code].name in invoke("explain", "--", str(code))


def test_without_the_extra_the_command_says_what_to_install():
    """Click is an extra; its absence is no traceback."""
    script = """
import sys
sys.modules["click"] = None
from kafkaguard.cli import main
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert done.stderr.strip() == (
        "kafkaguard: the command line needs click: pip install 'kafkaguard[cli]'"
    )
