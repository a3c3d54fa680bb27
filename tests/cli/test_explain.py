"""`kafkaguard explain` and `kafkaguard errors`, as a person types them."""

from __future__ import annotations

import json
import subprocess
import sys

import aiokafka.errors
import pytest
from click.testing import CliRunner

from kafkaguard._errors.generated import BY_CODE
from kafkaguard.cli.commands.explain import explain
from kafkaguard.cli.group import cli


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
        (("-192",), -192),
        (("-1",), -1),
        (("INVALID_RECORD",), 87),
        (("invalid_record",), 87),
        (("_MSG_TIMED_OUT",), -192),
        (("NotCoordinatorError",), 16),
        (("KafkaError{code=_MSG_TIMED_OUT,val=-192,str=x}",), -192),
        (("NotLeaderForPartitionError",), 6),
        (("org.apache.kafka.common.errors.TopicAuthorizationException:", "no"), 29),
        (("Broker:", "Not", "leader", "for", "partition"), 6),
        (("Local:", "Queue", "full"), -184),
        (("kafka.errors.NotLeaderForPartitionError:", "[Error", "6]", "moved"), 6),
    ],
)
def test_what_a_person_types_is_understood(typed, code):
    """Numbers, names of every kind, and texts of exceptions."""
    assert code == json.loads(invoke("explain", "--json", *typed))["code"]


@pytest.mark.parametrize(
    ("name", "code", "action"),
    [
        ("InvalidRecordError", 87, "ABORT"),
        ("RequestTimedOutError", 7, "ABORT"),
        ("MessageTooLargeError", 10, "ABORT"),
        ("UnknownTopicOrPartitionError", 3, "REFRESH"),
        ("ProducerFencedError", 90, "FENCED"),
    ],
)
def test_a_code_in_a_transaction_is_judged_as_its_exception(name, code, action):
    """The client has given up the send, whether its class or its code is typed."""
    by_code = explained(str(code), "--transactional")
    assert action == by_code["verdict"]["action"]
    assert by_code == explained(name, "--transactional")


def test_no_error_in_a_transaction_is_no_error():
    """Code 0 with --transactional is no error."""
    assert explained("0") == explained("0", "--transactional")


def test_a_traceback_on_stdin_is_explained():
    """The last error named is the one that ended it."""
    trace = """Traceback (most recent call last):
  File "app.py", line 3, in <module>
kafka.errors.NotCoordinatorError: [Error 16] NotCoordinatorError
During handling of the above exception, another exception occurred:
kafka.errors.TopicAuthorizationFailedError: [Error 29] topic secret
"""
    assert explained("-", text=trace)["code"] == 29


@pytest.mark.parametrize(
    ("typed", "cls"),
    [
        ("aiokafka.errors.KafkaConnectionError: Unable to", "ClientConnectionError"),
        (
            "kafka.errors.KafkaTimeoutError: KafkaTimeoutError: Unable to bootstrap",
            "ClientNotConnectedError",
        ),
        ("NoBrokersAvailable", "ClientNotConnectedError"),
        ("CommitFailedError", "ClientGroupError"),
        ("BufferError: Local: Queue full", "ClientQueueFullError"),
        ("TimeoutError", "ClientTimeoutError"),
        ("ConnectionRefusedError: [Errno 111] refused", "ClientConnectionError"),
        ("ProducerFenced", "ClientFencedError"),
    ],
)
def test_errors_without_a_code_are_explained(typed, cls):
    """What a client says by itself has a class, a meaning and a next step."""
    found = explained(typed)
    assert found["class"] == f"kafkaguard.errors.{cls}"
    assert found["meaning"]


@pytest.mark.parametrize(
    "text",
    [
        (
            "kafka.errors.KafkaTimeoutError: KafkaTimeoutError: Failed to update metadata "
            "after 60.0 secs."
        ),
        (
            "org.apache.kafka.common.errors.TimeoutException: Topic t not present in "
            "metadata after 60000 ms."
        ),
    ],
)
def test_a_client_without_metadata_is_told_what_to_check(text):
    """The address and the topic's name; nothing was purged by librdkafka."""
    output = invoke("explain", "-", text=text)
    assert "a broker can be reached, that the topic exists" in " ".join(output.split())
    assert "librdkafka has purged" not in output


@pytest.mark.parametrize(
    "text",
    [
        (
            "kafka.errors.MessageSizeTooLargeError: [Error 10] MessageSizeTooLargeError: "
            "The message is 3000088 bytes when serialized which is larger than the "
            "maximum request size you have configured with the max_request_size "
            "configuration"
        ),
        (
            "org.apache.kafka.common.errors.RecordTooLargeException: The message is "
            "2000088 bytes when serialized which is larger than 1048576, which is the "
            "value of the max.request.size configuration."
        ),
    ],
)
def test_a_record_that_the_client_refuses_is_not_blamed_on_the_topic(text):
    """Another setting than the topic's is to be raised."""
    assert explained("-", text=text)["code"] == 10
    output = " ".join(invoke("explain", "-", text=text).split())
    assert "the client itself refuses a record of this size" in output


CHAINED = """Traceback (most recent call last):
  File "a.py", line 1, in <module>
    raise kafka.errors.TopicAuthorizationFailedError("t")
{first}

{between}:

Traceback (most recent call last):
  File "a.py", line 2, in <module>
    raise TopicAuthorizationFailedError
{second}
"""
CAUSE = "The above exception was the direct cause of the following exception"
CONTEXT = "During handling of the above exception, another exception occurred"
DENIED = "kafka.errors.TopicAuthorizationFailedError: [Error 29] denied"


@pytest.mark.parametrize(
    ("between", "second", "code"),
    [
        (CAUSE, "kafka.errors.KafkaTimeoutError: 60 s", 29),
        (CONTEXT, "kafka.errors.KafkaTimeoutError: 60 s", 29),
        (CAUSE, "RuntimeError: in the application", 29),
    ],
)
def test_a_traceback_is_read_as_classify_reads_the_exception(between, second, code):
    """The last exception counts, and its causes where they say more."""
    trace = CHAINED.format(first=DENIED, between=between, second=second)
    assert code == explained("-", text=trace)["code"]


def test_a_bug_in_a_handler_is_not_the_error_that_was_handled():
    """A name in a line of source code is not an error either."""
    trace = CHAINED.format(first=DENIED, between=CONTEXT, second="ValueError: y")
    assert "no Kafka error found" in invoke("explain", "-", text=trace, code=2)


def test_an_exceptions_text_is_past_the_clients_own_repeats():
    """A bare code may be repeated by who repeats the batch; a report may not."""
    bare = explained("7", "--api", "Produce", "--idempotent")
    assert bare["verdict"]["action"] == "RETRY"
    text = "kafka.errors.RequestTimedOutError: [Error 7] after 2499 ms"
    told = explained(text, "--api", "Produce", "--idempotent")
    assert told["verdict"]["action"] == "IN_DOUBT"


def shell(script):
    """Run a line of bash with the command line in it."""
    return subprocess.run(
        ["bash", "-c", script.replace("KG", f"{sys.executable} -m kafkaguard")],
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize(
    ("script", "code", "said"),
    [
        ("KG explain - <&-", 2, "nothing to explain"),
        ("KG errors > /dev/full", 2, "cannot write the output"),
        ("LC_ALL=C PYTHONIOENCODING=ascii KG errors", 0, ""),
        ("KG errors | head -1; exit ${PIPESTATUS[0]}", 0, ""),
        ("head -c 3000 /dev/urandom | KG explain -", 2, "is not UTF-8 text"),
        ("KG explain - < /dev/null", 2, "nothing to explain"),
    ],
)
def test_streams_that_misbehave_are_no_traceback(script, code, said):
    """Closed, full, of another encoding, cut short, binary or empty."""
    done = shell(script)
    assert code == done.returncode, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_problem_is_json_where_json_is_asked_for():
    """A script gets its answer in the form that it asked for."""
    done = shell("KG explain nope --json")
    assert done.returncode == 2
    assert "no Kafka error found" in json.loads(done.stdout)["error"]


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
    """The options of explain change the verdict as the arguments of classify() do."""
    given = explained("7", "--api", "produce", "--idempotent")
    assert given["verdict"]["rule"] == "sequence-protects"
    given = explained("9", "--api", "list_offsets", "--tiered")
    assert given["verdict"]["error_class"] == (
        "kafkaguard.errors.RemoteStorageNotReadyError"
    )


def test_a_code_from_the_future_is_explained_too():
    """Its number is kept, and nothing crashes."""
    assert explained("999")["name"] == "UNRECOGNISED_999"
    assert "does not have" in invoke("explain", "999")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("explain", "NOT_CORDINATOR"), "Did you mean NOT_COORDINATOR?"),
        (("explain", "hello"), "no Kafka error found in 'hello'"),
        (("explain", "6", "--api", "Produse"), "did you mean 'Produce'?"),
        (("errors", "--api", "Fetsh"), "did you mean 'Fetch'?"),
        (("errors", "--action", "FOO"), "is not one of"),
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
    """Explain prints a table for each of Kafka's and librdkafka's codes."""
    for code in BY_CODE:
        assert BY_CODE[code].name in invoke("explain", "--", str(code))


def test_explanation_says_what_each_client_does_with_it():
    """As the atlas has it, for the request that was answered; Java's as its table says."""
    (row,) = explained("7", "--api", "Produce")["clients"]
    assert row["api"] == "Produce"
    assert row["kafka-python"].startswith("once: asks again, and succeeds")
    assert row["aiokafka"].startswith("once: asks again, and succeeds; written 2 times")
    assert row["Java, Spark"].startswith("retriable: tries again")
    output = " ".join(
        invoke("explain", "REQUEST_TIMED_OUT", "--api", "Produce").split()
    )
    assert "What each client does with it by itself, as an answer to Produce:" in output
    assert "kafka-python once: asks again, and succeeds" in output
    assert "with time limits of 4 s: answered once, and for 6 s" in output


def test_of_a_code_of_many_requests_the_requests_are_listed():
    """Then one of them must be named."""
    output = " ".join(invoke("explain", "7").split())
    _, _, listed = output.partition(
        "--api says what each client does with it by itself: "
    )
    assert {"Fetch", "Produce"} <= {name.strip(",") for name in listed.split()}
    assert "once:" not in output
    assert len(explained("7")["clients"]) > 3


def test_what_was_not_recorded_is_said_to_be_so():
    """No guess: the clients' lines say it, and Java's table still speaks."""
    (row,) = explained("56", "--api", "JoinGroup")["clients"]
    assert row["aiokafka"] == row["confluent-kafka"] == "not recorded"
    assert row["Java, Spark"].startswith("retriable")
    (row,) = explained("999")["clients"]
    assert {"not recorded"} == {does for name, does in row.items() if name != "api"}
    assert explained("ProducerClosed")["clients"] == []


def test_bytes_that_are_no_text_are_refused():
    """Nothing is found by chance in them."""
    result = CliRunner().invoke(cli, ["explain", "-"], input=bytes(range(256)) * 99)
    assert (result.exit_code, "is not UTF-8 text" in result.output) == (2, True)


AIOKAFKA_TRACEBACK = """Traceback (most recent call last):
  File "app.py", line 9, in main
    await producer.send_and_wait("orders", b"value")
aiokafka.errors.UnknownError: [Error -1] UnknownError
"""


@pytest.mark.parametrize(
    "text", [AIOKAFKA_TRACEBACK, AIOKAFKA_TRACEBACK.splitlines()[-1], "UnknownError"]
)
def test_an_unknown_error_of_aiokafka_may_hide_another_code(text):
    """The explanation says so, names a frequent cause, and what to do."""
    found = explained("-", text=text)
    assert (found["code"], found["verdict"]["rule"]) == (-1, "code-not-kept")
    for words in (
        "aiokafka raises UnknownError for every code that it does not know",
        "a record without a key for a compacted topic",
        "Guard the client (kafkaguard.guard), or look at the broker's log",
    ):
        assert words in found["caution"]
    shown = " ".join(invoke("explain", "-", text=text).split())
    assert f"caution {found['caution']}" in shown


@pytest.mark.parametrize(
    "text",
    [
        "-1",
        "UNKNOWN_SERVER_ERROR",
        "kafka.errors.UnknownError: [Error -1] no such thing",
        "aiokafka.errors.NotCoordinatorError: [Error 16] NotCoordinatorError",
    ],
)
def test_other_errors_have_no_such_caution(text):
    """A broker's own -1, and a client that knows the codes."""
    assert explained("-", text=text)["caution"] is None
    assert "caution" not in invoke("explain", "-", text=text)


def test_the_caution_has_the_numbers_of_this_version_of_aiokafka():
    """63 of 137 codes, by aiokafka 0.14."""
    told = explained("UnknownError")["caution"]
    # Without those that kafkaguard adds when it guards a producer.
    known = {
        code
        for code, kind in aiokafka.errors.kafka_errors.items()
        if kind.__module__ == "aiokafka.errors"
    }
    unknown = BY_CODE.keys() - known
    assert f"({len(unknown)} of Kafka's {len(BY_CODE)}," in told


def test_a_file_is_named_as_one(tmp_path, monkeypatch):
    """It is read on standard input; its name is no text of an error."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "java.txt").write_text("NOT_COORDINATOR")
    said = invoke("explain", "java.txt", code=2)
    assert "java.txt is a file: `kafkaguard explain - < java.txt`" in said


def test_a_text_that_no_file_can_be_named_is_no_file():
    """90 characters of four bytes are too long for a name: it was an OSError."""
    assert "no Kafka error found" in invoke("explain", "\N{GRINNING FACE}" * 90, code=2)


@pytest.mark.parametrize("width", [60, 80])
def test_the_head_fits_the_terminal(width, monkeypatch):
    """Lines are wrapped beside their label, and no name is broken."""
    monkeypatch.setenv("COLUMNS", str(width))
    head = invoke("explain", "87").partition("\n\n")[0].splitlines()
    assert max(map(len, head)) <= width
    assert any(line.startswith(" " * 11) for line in head)
    assert any("InvalidConfigurationError" in line for line in head)


def test_names_of_errors_are_completed():
    """As the shell asks for them."""
    (argument, *_) = explain.params
    found = argument.shell_complete(None, "not_co")
    names = {each.value for each in found}
    assert {"NOT_COORDINATOR", "NOT_CONTROLLER"} <= names
    assert all(name.startswith("NOT_CO") for name in names)
