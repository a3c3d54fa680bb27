"""What a listener is told of micro-batches."""

from __future__ import annotations

import json

import pytest

from kafkaguard.spark import ReportListener, WriteReport
from kafkaguard_adapters.spark.driver.counting import warn_once
from kafkaguard_adapters.spark.report import describe_collapsed


def report(delivered, collapsed_keys=0):
    """Make a report of a batch."""
    return WriteReport(
        topic="t",
        dead_letter_topic="d",
        read=delivered + 3,
        delivered=delivered,
        dead_lettered={"NULL_KEY": 2},
        in_doubt={"CLIENT_TIMEOUT": 1},
        resent=0,
        retried_tasks=0,
        appended=None,
        seconds=0.5,
        warnings=("why", "2 records have the key {}"),
        collapsed_keys=collapsed_keys,
    )


def test_report_is_the_same_after_it_was_written_down():
    """What is worked out is worked out again."""
    once = report(7, collapsed_keys=5)
    written = json.loads(json.dumps(once.to_dict()))
    assert WriteReport.from_dict(written) == once
    assert written["warnings"] == list(once.warnings)
    assert len(written["warnings"]) == 2


@pytest.fixture
def file(tmp_path):
    """A report file of a data source, with a batch of an earlier run."""
    path = tmp_path / "report.jsonl"
    path.write_text(line(0, 1))
    return path


def line(batch_id, delivered):
    """Return what the data source writes."""
    return json.dumps({"batch_id": batch_id, **report(delivered).to_dict()}) + "\n"


def test_listener_tells_each_batch_once(file, caplog):
    """It waits for the rest of a line, and goes on when the hook raises."""
    seen = []

    def hook(told, batch_id):
        seen.append((batch_id, told.delivered))
        raise ZeroDivisionError

    listener = ReportListener(str(file), hook)
    listener.onQueryProgress(None)
    with file.open("a") as report_file:
        report_file.write(line(1, 7) + line(2, 8) + line(3, 9)[:20])
    listener.onQueryProgress(None)
    with file.open("a") as report_file:
        report_file.write(line(3, 9)[20:])
    listener.onQueryTerminated(None)
    assert seen == [(1, 7), (2, 8), (3, 9)]
    assert caplog.text.count("on_report raised an exception") == 3
    assert (
        ReportListener(str(file.with_name("gone")), hook).onQueryProgress(None) is None
    )


def test_collapsed_keys_are_told_once_with_their_number():
    """A topic has one warning, whichever report tells it first."""
    told = []
    topic = f"collapsed-{id(told)}"
    for count in (1, 3, 4):
        if said := describe_collapsed(count):
            warn_once(topic, said, told.append)
    (said,) = told
    assert said.startswith("3 records have the key {}: to_json omits")
