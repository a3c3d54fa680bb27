"""``kafkaguard explain -`` of lines as they stand in people's logs, and of our own."""

from __future__ import annotations

import io
import json
import sys
import time

import pytest

from kafkaguard import errors as e
from kafkaguard._errors.java_texts import JAVA_TEXTS
from kafkaguard.cli.group import run
from kafkaguard.cli.lookup import find_error, find_errors

FAIL = "%3|1725429216.481|FAIL|rdkafka#producer-1| [thrd:b:9092/bootstrap]: b:9092/1: "
JAVA = "org.apache.kafka.common.errors."
LINES = {
    FAIL + "SSL handshake failed: error:0A000086:SSL routines::certificate verify "
    "failed: broker certificate could not be verified (after 39ms)": -181,
    FAIL + "Connect to ipv4#10.0.0.7:9092 failed: Connection refused (after 3ms in "
    "state CONNECT)": e.ClientNotConnectedError,
    FAIL + "Failed to resolve 'kafka:29092': Name or service not known": -193,
    FAIL + "SASL authentication error: Authentication failed during authentication": 58,
    FAIL + "Disconnected while requesting ApiVersion: might be caused by incorrect "
    "security.protocol configuration": e.ClientConfigurationError,
    FAIL + "1 request(s) timed out: disconnect (after 60s)": e.ClientTimeoutError,
    "%4|1683659271.105|MAXPOLL|rdkafka#consumer-1| [thrd:main]: Application maximum "
    "poll interval (300000ms) exceeded by 255ms: leaving group": -147,
    "%7|1683659271.105|REQERR|rdkafka#consumer-1| [thrd:main]: GroupCoordinator/11: "
    "OffsetCommitRequest failed: Broker: Group authorization failed": 30,
    JAVA + "TimeoutException: Topic orders not present in metadata after "
    "60000 ms.": e.ClientMetadataError,
    JAVA + "TimeoutException: Expiring 3 record(s) for orders-0:120002 ms has passed "
    "since batch creation": -192,
    JAVA + "UnknownMemberIdException: Failed altering consumer group offsets": 25,
    "java.lang.IllegalStateException: Cannot fetch offset 13 (GroupId: g, "
    "TopicPartition: orders-1). Some data may have been lost": 1,
    "[2024-05-01 10:00:00,000] WARN [Producer clientId=p] Connection to node -1 "
    "(kafka/10.0.0.7:9092) could not be established. Node may not be "
    "available.": e.ClientNotConnectedError,
    "org.apache.spark.SparkException: Task 1 failed 4 times: "
    + JAVA.removesuffix("errors.")
    + "InvalidRecordException: Compacted topic cannot accept message without key in "
    "topic partition comp-2": e.InvalidRecordKeyError,
    "KafkaJSProtocolError: The coordinator is not aware of this member": 25,
    '{"error":"This server is not the leader for that topic-partition","code":6}': 6,
    "kafka server: Request was for a topic or partition that does not exist on this "
    "broker": 3,
    "Got exception: IllegalStateError(\"Partition TopicPartition(topic='t', "
    'partition=40) is not assigned")': e.ClientGroupError,
    "confluent_kafka.error.ValueDeserializationError: KafkaError{"
    "code=_VALUE_DESERIALIZATION,val=-159,str=\"('Connection aborted.', "
    "ConnectionResetError(104, 'Connection reset by peer'))\"}": e.ClientConnectionError,
    'KafkaError{code=_VALUE_SERIALIZATION,val=-161,str="an int is needed"}': -161,
    "OffsetCommit failed for group billing due to group error ([Error 25] "
    "UnknownMemberIdError: billing), will rejoin": 25,
}


@pytest.mark.parametrize(("line", "key"), LINES.items())
def test_line_of_a_log(line, key):
    """What it is about, in whichever client's words."""
    assert key == find_error(line + "\n").key


def test_every_text_of_javas_is_known():
    """Each default text of Java's client is recognised, alone and within a line."""
    for text, code in JAVA_TEXTS.items():
        assert code == find_error(f"ERROR [Foo] Request failed: {text}. (kafka)").key


KAFKA = "org.apache.kafka.common."
MATE = (
    "KafkaException: Failed to append record because it was part of a batch which had "
    "one more more invalid records"
)


@pytest.mark.parametrize(
    ("cause", "key"),
    [
        (f"{KAFKA}errors.UnknownTopicOrPartitionException: This server ...", 3),
        (
            f"{KAFKA}errors.TimeoutException: Timed out waiting for a node assignment.",
            e.ClientTimeoutError,
        ),
        (KAFKA + MATE, e.BatchMateRefusedError),
    ],
)
def test_cause_in_javas_stack_trace_after_a_traceback_counts(cause, key):
    """As a failed job of Spark prints it: Python's frames, then Java's."""
    text = (
        'Traceback (most recent call last):\n  File "job.py", line 3, in <module>\n'
        "py4j.protocol.Py4JJavaError: An error occurred while calling o63.save.\n"
        ": java.util.concurrent.ExecutionException: failed\n\tat a.B.c(B.java:1)\n"
        f"Caused by: {cause}\n\tat a.B.c(B.java:1)\n\t... 1 more\n"
    )
    assert key == find_error(text).key


EXPIRED = (
    f"{KAFKA}errors.TimeoutException: Expiring 5 record(s) for orders-0:120000 ms has "
    "passed since batch creation\n"
    "\tat org.apache.kafka.clients.producer.internals.ProducerBatch.expirationDone\n"
    f"Caused by: {KAFKA}errors.NotLeaderOrFollowerException: For requests intended "
    "only for the leader, this error indicates that the broker is not the leader.\n"
)


def test_of_several_errors_in_a_text_the_worst_is_explained_and_all_are_listed(
    monkeypatch, capsys
):
    """Records that have expired may be written, whatever kept their answers away."""
    assert [each.key for each in find_errors(EXPIRED)] == [-192, 6]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(EXPIRED.encode())))
    assert run(["explain", "-"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("_MSG_TIMED_OUT (-192)")
    assert "next step  IN_DOUBT" in out
    assert "NOT_LEADER_OR_FOLLOWER (6)" in out
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(EXPIRED.encode())))
    assert run(["explain", "-", "--json"]) == 0
    (further,) = json.loads(capsys.readouterr().out)["further"]
    assert (further["code"], further["action"]) == (6, "REFRESH")


def test_a_traceback_of_python_has_one_error_to_act_on():
    """A timeout that hides a refusal is not the one, though it is worse by itself."""
    text = (
        "Traceback (most recent call last):\n  File 'x'\n"
        "kafka.errors.TopicAuthorizationFailedError: [Error 29] flights\n\n"
        "The above exception was the direct cause of the following exception:\n\n"
        "Traceback (most recent call last):\n  File 'y'\n"
        "kafka.errors.KafkaTimeoutError: no answer\n"
    )
    assert [each.key for each in find_errors(text)] == [29, e.ClientTimeoutError]


@pytest.mark.parametrize(
    "text",
    [
        "SSL handshake failed: error:0A000086: certificate verify failed",
        "ssl.SSLCertVerificationError: [SSL] certificate verify failed (_ssl.c:992)",
        "SSLHandshakeException: PKIX path building failed",
    ],
)
def test_a_certificate_that_is_not_trusted_speaks_of_the_ca(text, capsys):
    """In the words of each client's setting."""
    assert run(["explain", text]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "the CA that signed the broker's certificate" in out
    assert "ssl.ca.location" in out


@pytest.mark.parametrize(
    ("code", "api"),
    [("7", "Produce"), ("29", "Produce"), ("10", "Produce"), ("3", "Produce")],
)
def test_what_clients_do_is_known_for_frequent_failures(code, api, capsys):
    """TLS, a record that expired, one that is too large, a topic that is missing."""
    assert run(["explain", "--json", "--", code]) == 0
    rows = json.loads(capsys.readouterr().out)["clients"]
    (row,) = (row for row in rows if row["api"] == api)
    python = ("kafka-python", "confluent-kafka", "aiokafka")
    assert "not recorded" not in {row[name] for name in python}


OURS = [
    e.InvalidRecordKeyError("no key", api="Produce", topic="t", partition=3),
    e.ClientTimeoutError("no answer within 3 s", api="Metadata", broker=1),
    e.ClientMetadataError(),
    e.RemoteStorageNotReadyError(code=9, api="ListOffsets"),
    e.NotLeaderOrFollowerError(api="Fetch", topic="[x]"),
    e.UnrecognisedCodeError(code=999),
    e.for_code(87)("said: X -> RETRY: no", api="Produce"),
    e.BatchMateRefusedError(api="Produce"),
]


@pytest.mark.parametrize("error", OURS, ids=lambda each: each.name)
def test_whatever_we_print_can_be_pasted_back(error):
    """Alone, in a log line, at the end of a traceback: the same error and request."""
    cls = type(error)
    for text in (
        str(error),
        f"WARNING:kafkaguard:{error}",
        f'Traceback (most recent call last):\n  File "x"\n{cls.__name__}: {error}',
    ):
        found = find_error(text)
        assert found.error_class.code in {error.code, None}
        assert error.api == found.api
        assert found.error_class.name.startswith(error.name)
    if error.name != "UNRECOGNISED":
        assert find_error(error.name).error_class.name == error.name


@pytest.mark.parametrize(
    "part", ["AB [x]: ", "A1 (1) [x]: -> A", "AB [", "AB -> X: ", "Caused by: "]
)
def test_a_long_line_is_read_at_once(part):
    """The time of ``explain`` grew with the cube of a line: 20 s for 3,200 letters."""
    find_errors("warm up")
    start = time.process_time()
    find_errors(part * 2000)
    find_errors(part * 2000 + " -> RETRY: again")
    assert time.process_time() - start < 3


def test_what_stands_before_the_last_arrow_of_a_line_is_the_error():
    """An arrow within the words of an error is no verdict."""
    text = "x INVALID_RECORD (87) [Produce, t]: a -> b] -> REJECT: no\n6 -> RETRY: x"
    found = find_error(text)
    assert (found.key, found.api) == (87, "Produce")
    assert find_error("RETRY: x -> nothing") is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Invalid receive (size = 1195725856 larger than 104857600)", "HTTP"),
        ("InvalidReceiveException: Invalid receive (size = 352518912)", "TLS"),
        ("Invalid response size 1213486160 (0..1000000000)", "HTTP"),
        ("GET / HTTP/1.1\r\nHost: broker", "HTTP"),
    ],
)
def test_bytes_of_another_protocol_are_named(text, said, capsys, monkeypatch):
    """A size that is none says who knocks."""
    stdin = io.TextIOWrapper(io.BytesIO(text.encode()))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert run(["explain", "-"]) == 0
    out = capsys.readouterr().out
    assert said in out
    assert "CONFIGURE" in out


def test_size_that_is_one_is_no_other_protocol():
    """A large size in a log line is not taken for another protocol."""
    assert find_error("Invalid receive (size = 104857601)") is None


@pytest.mark.parametrize(
    "given", ["474554202f20485454502f312e31", "16030100f1010000ed0303", "GET / HTTP"]
)
def test_decode_names_other_protocols(given, capsys):
    """Decode recognises TLS and HTTP, as digits and as bytes."""
    assert run(["decode", given]) == 2
    assert "not a Kafka message" in capsys.readouterr().err


def test_source_of_what_was_not_recorded_claims_no_recording(capsys):
    """The line below the table says where the table comes from."""
    assert run(["explain", "CLIENT_TIMEOUT"]) == 0
    assert run(["explain", "119"]) == 0
    out = capsys.readouterr().out
    assert "not recorded" in out
    assert "answered once" not in out
    assert run(["explain", "6", "--json"]) == 0
    assert "answered once" in json.loads(capsys.readouterr().out)["clients_source"]
