"""What librdkafka tells only in its log is heard, and each line goes its usual way."""

from __future__ import annotations

import logging

import pytest

from kafkaguard._cluster.reports import TopicPartition
from kafkaguard_adapters.confluent.listening import ResetLog, prepare

LINE = (
    "[thrd:main]: my.topic-1 [7]: offset reset (at offset 500 (leader epoch -1), broker "
    "0) to offset BEGINNING (leader epoch -1): fetch failed due to requested offset not "
    "available on the broker: Broker: Offset out of range"
)


def log(one, line, facility="OFFSET", level=logging.WARNING):
    """Log a line as the client does."""
    one.log(level, "%s [%s] %s", facility, "rdkafka#consumer-1", line)


@pytest.fixture
def heard():
    """A log, and what the guard hears of it."""
    one, found = ResetLog(None), []
    one.hear = lambda place, position: found.append((place, position))
    return one, found


def test_a_reset_is_heard_with_its_place(heard):
    """Topic, partition, and the offset that was asked for."""
    one, found = heard
    log(one, LINE)
    assert [(TopicPartition("my.topic-1", 7), 500)] == found


@pytest.mark.parametrize(
    ("line", "facility"),
    [
        (LINE.replace("at offset 500", "at offset END"), "OFFSET"),
        (LINE, "FETCH"),
        ("[thrd:main]: t [0]: offset 3 committed", "OFFSET"),
    ],
    ids=["a logical offset", "another facility", "another line"],
)
def test_other_lines_are_none_of_the_guards_business(heard, line, facility):
    """A query for the start or the end that failed is no lost position."""
    one, found = heard
    log(one, line, facility)
    assert found == []


def test_lines_go_to_stderr_as_librdkafka_writes_them(heard, capsys):
    """A log line has level, time, facility, client and text, as without a guard."""
    one, _ = heard
    log(one, LINE)
    text = capsys.readouterr().err
    assert text.startswith("%4|")
    assert text.endswith(f"|OFFSET|rdkafka#consumer-1| {LINE}\n")


def test_lines_go_to_the_users_own_logger(caplog, capsys):
    """As they would without the guard, and nowhere else."""
    own = logging.getLogger("mine")
    log(ResetLog(own), LINE)
    assert [f"OFFSET [rdkafka#consumer-1] {LINE}"] == caplog.messages
    assert capsys.readouterr().err == ""


def test_what_the_guard_raises_does_not_end_the_poll(heard, caplog, capsys):
    """It is logged, and the line goes on."""
    one, _ = heard

    def broken(place, position):
        raise ValueError("a bug of the guard's")

    one.hear = broken
    log(one, LINE)
    assert "a bug of the guard's" in caplog.text
    assert LINE in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "used", "shown"), [(0, 4, ""), ("3", 4, ""), (4, 4, LINE), (7, 7, LINE)]
)
def test_a_reset_is_heard_with_any_log_level(given, used, shown, capsys):
    """The client logs as much as the guard needs, and the user sees what was asked."""
    prepared = prepare({"log_level": given})
    one, found = prepared["logger"], []
    one.hear = lambda place, position: found.append(position)
    log(one, LINE)
    assert (int(prepared["log_level"]), found) == (used, [500])
    assert (shown in capsys.readouterr().err) if shown else not capsys.readouterr().err
