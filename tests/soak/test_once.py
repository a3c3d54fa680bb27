"""Ten kills under a batch job and a stream that write exactly once."""

from __future__ import annotations

import json

import pytest

from tests.soak import once

pytestmark = [
    pytest.mark.java,
    pytest.mark.usefixtures("spark_archive"),
    pytest.mark.xdist_group("spark-programs"),
]


@pytest.mark.timeout(3000)
def test_rows_are_written_once_whoever_is_killed(tmp_path):
    """Tasks, executors, drivers and brokers die, also between marker and commit."""
    state = tmp_path / "rounds.json"
    assert once.run(10, seed=1, state=state, rows=20_000) == []
    assert sum(each["kills"] for each in json.loads(state.read_text())) >= 10


def test_rounds_that_are_done_are_not_run_again(tmp_path, monkeypatch):
    """A second call has nothing to do, and reports what the first one found."""
    monkeypatch.setattr(once, "KafkaCluster", _NoCluster)
    state = tmp_path / "rounds.json"
    found = [{"seed": 1, "kills": 5, "wrong": ["3 rows lost, 0 twice"]}]
    state.write_text(json.dumps(found))
    assert once.run(5, 1, state) == ["round 0: 3 rows lost, 0 twice"]


class _NoCluster:
    def __init__(self, brokers):
        """Take what a cluster takes."""

    def __enter__(self):
        """Start nothing."""

    def __exit__(self, *_):
        """End nothing."""
