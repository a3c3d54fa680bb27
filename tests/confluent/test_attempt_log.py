"""librdkafka's log tells which requests to a partition were sent again."""

from __future__ import annotations

import logging
import time

import pytest
from confluent_kafka import KafkaError

from kafkaguard_adapters.confluent.attempt_log import AttemptLog
from kafkaguard_adapters.confluent.producer_settings import ProducerSettings, prepare

#: Lines of librdkafka 2.16.0, with their facilities.
PLACE = "[thrd:127.0.0.1:9092/0]: my.topic-1 [7]"
ALIVE = "IDEMPSTATE", "[thrd:main]: Idempotent producer state change Init -> RequestPID"
NEW_ID = (
    "NEWPID",
    f"{PLACE} changed PID{{Invalid}} -> PID{{Id:0,Epoch:0}} with base MsgId 1",
)
RETRY = "DRAIN", f"{PLACE} beginning partition drain: drain before retrying"
NEW_LEADER = (
    "DRAIN",
    (
        f"{PLACE} beginning partition drain: wait for outstanding requests to finish before "
        "producing to new leader"
    ),
)
GAP = (
    "ERRSEQ",
    (
        f"[thrd:x]: 127.0.0.1:9092/0: ProduceRequest for {PLACE.partition(': ')[2]} with 1 "
        "message(s) failed due to skipped sequence numbers"
    ),
)
BUMP = (
    "DRAIN",
    (
        "[thrd:127.0.0.1:9092/0]: Beginning partition drain in state Assigned for PID{Id:0,"
        "Epoch:0} epoch bump for 1 partition(s) with in-flight requests: message gap"
    ),
)
FAILED = (
    f"{PLACE}: MessageSet with 3 message(s) (MsgId 0, BaseSeq -1) encountered error: "
    "Broker: x (actions {})"
)
UNSURE = "MSGSET", FAILED.format("Retry,MsgPossiblyPersisted")
CERTAIN = "MSGSET", FAILED.format("Retry,MsgNotPersisted")
REFUSED = "MSGSET", FAILED.format("Permanent,MsgPossiblyPersisted")


@pytest.fixture
def log():
    """A log whose lines go to nobody."""
    log = AttemptLog(None)
    log.most = 0
    return log


def write(log, *lines, level=logging.DEBUG):
    """Log lines as the client does, and read them."""
    for facility, line in lines:
        log.log(level, "%s [%s] %s", facility, "rdkafka#producer-1", line)
        log.hear()


@pytest.mark.parametrize(
    ("lines", "is_repeated"),
    [
        ([], False),
        ([NEW_ID, RETRY], True),
        ([NEW_LEADER, NEW_ID], False),
        ([NEW_LEADER, NEW_ID, NEW_LEADER], True),
        ([NEW_ID, GAP, RETRY], False),
        ([NEW_ID, GAP, RETRY, GAP, NEW_ID, RETRY], True),
        ([NEW_ID, BUMP], False),
        ([UNSURE], True),
        ([CERTAIN], False),
        ([REFUSED], False),
    ],
)
def test_a_repeated_request_is_found(log, lines, is_repeated):
    """A new leader counts if the partition was used before; a gap never does."""
    before = time.monotonic()
    write(log, ALIVE, *lines)
    assert log.has_repeated("my.topic-1", 7, before) is is_repeated
    assert not log.has_repeated("my.topic-1", 8, before)
    assert not log.has_repeated("my.topic-1", 7, time.monotonic() + 1)


def test_equal_lines_between_two_polls_are_told_from_one_line(log):
    """The second of two drains may be of another request than the gap's."""
    for lines, is_repeated in (([RETRY], False), ([RETRY, RETRY], True), ([], True)):
        before = time.monotonic()
        write(log, ALIVE, NEW_ID, GAP)
        for facility, line in lines:
            log.log(logging.DEBUG, "%s [%s] %s", facility, "p", line)
        log.hear()
        assert log.has_repeated("my.topic-1", 7, 0) is is_repeated
        if lines:
            assert log.has_repeated("my.topic-1", 7, before) is is_repeated


def test_equal_lines_are_told_once_only(log):
    """One line after a second gap is one line, whatever came before."""
    write(log, ALIVE, NEW_ID, GAP)
    for _ in range(2):
        log.log(logging.DEBUG, "%s [%s] %s", RETRY[0], "p", RETRY[1])
    log.hear()
    log.forget()
    write(log, ALIVE, NEW_ID, GAP, RETRY)
    assert not log.has_repeated("my.topic-1", 7, 0)


def test_lines_are_read_once_and_in_their_order(log):
    """A new id after a gap ends it; the other way round there is a gap."""
    log.most = 7
    told = []
    log.own = type("Own", (), {"log": lambda _, *line: told.append(line[4])})()
    for facility, line in (GAP, NEW_ID, RETRY):
        log.log(logging.DEBUG, "%s [%s] %s", facility, "p", line)
    log.hear()
    log.hear()
    assert told == [GAP[1], NEW_ID[1], RETRY[1]]
    assert not log.unread
    assert log.has_repeated("my.topic-1", 7, 0)


def test_a_refused_producer_id_is_kept_with_its_code_until_there_is_one(log):
    """The log has the text of the error only."""
    text = KafkaError(35).str()
    write(log, ALIVE, ("GETPID", f"[thrd:main]: b/0: Failed to acquire PID: {text}"))
    assert log.refused_id.code() == 35
    assert log.is_heard
    assert not log.has_id
    write(log, ("GETPID", "[thrd:main]: Acquired PID{Id:0,Epoch:0}"))
    assert log.has_id
    assert log.refused_id is None


def test_another_client_starts_anew(log):
    """What a dead client has told is not true of its successor."""
    write(log, ALIVE, NEW_ID, RETRY)
    log.forget()
    assert not log.is_heard
    assert not log.has_repeated("my.topic-1", 7, 0)


@pytest.mark.parametrize(
    ("settings", "shown"),
    [
        ({}, {30}),
        ({"log_level": 3}, set()),
        ({"log_level": 7}, {10, 30}),
        ({"debug": "broker"}, {10, 30}),
    ],
)
def test_the_application_sees_the_lines_that_it_would_see_without_the_guard(
    settings, shown, capsys
):
    """On stderr, as librdkafka writes them; the others are counted as hidden."""
    prepared = prepare({"bootstrap.servers": "b:1", **settings})
    log = prepared.attempt_log
    for level in (10, 30):
        write(log, ("FAIL", f"line of level {level}"), level=level)
    text = capsys.readouterr().err
    assert {level for level in (10, 30) if f"level {level}" in text} == shown
    assert len(log.hidden) == 2


def test_a_logger_in_the_settings_gets_the_lines_and_may_raise(caplog):
    """The line is not hidden; what the logger raises stops no report."""
    told = []

    class Own:
        def log(self, *line):
            told.append(line)
            raise ValueError(line)

    log = prepare({"logger": Own()}).attempt_log
    write(log, ("FAIL", "text"), level=30)
    assert told == [(30, "%s [%s] %s", "FAIL", "rdkafka#producer-1", "text")]
    assert not log.hidden
    assert "the logger in the settings" in caplog.text


@pytest.mark.parametrize(
    ("config", "debug"),
    [
        ({"enable.idempotence": True}, "eos"),
        ({"enable.idempotence": True, "debug": "broker"}, "broker,eos"),
        ({}, "msg"),
        ({"transactional.id": "x"}, None),
    ],
)
def test_an_idempotent_producer_logs_nothing_while_no_request_fails(config, debug):
    """Another one logs two lines for each batch; a transactional one needs none."""
    prepared = prepare(config)
    assert prepared.get("debug") == debug
    assert ProducerSettings(prepared).attempt_log is prepared.attempt_log
    assert (prepared.attempt_log is None) is (debug is None)
