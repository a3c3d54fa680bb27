"""The sink on a cluster of executor processes, one of which is killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.spark_reading import values

pytestmark = [
    pytest.mark.java,
    pytest.mark.usefixtures("spark_archive"),
    pytest.mark.xdist_group("spark-programs"),
]
PROGRAM = Path(__file__).with_name("spark_cluster_program.py")
ROWS = 60_000


@pytest.mark.timeout(330)
def test_killed_executor_loses_nothing_and_doubles_are_reported(
    kafka_cluster, kafka_topic, tmp_path
):
    """Spark repeats what the executor did; the report says how much may be double."""
    flag = tmp_path / "killed"
    arguments = [kafka_cluster.bootstrap_servers, kafka_topic, str(flag), str(ROWS)]
    done = subprocess.run(
        [sys.executable, str(PROGRAM), *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": str(PROGRAM.parent)},
    )
    assert done.returncode == 0, done.stderr[-5000:]
    assert int(flag.read_text()) > 1
    report = json.loads(done.stdout.splitlines()[-1])
    assert (report["read"], report["delivered"]) == (ROWS, ROWS)
    assert report["unaccounted"] == 0

    landed = values(kafka_cluster, kafka_topic)
    assert set(landed) == {str(number) for number in range(ROWS)}
    assert len(landed) > ROWS
    assert report["maybe_twice"] == len(landed) - ROWS
