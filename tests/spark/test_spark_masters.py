"""The same on each kind of Spark: local, Connect, and a cluster of executors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.spark_reading import committed_values, read, values, why

pytestmark = [
    pytest.mark.java,
    pytest.mark.usefixtures("spark_archive"),
    pytest.mark.xdist_group("spark-programs"),
]
PROGRAM = Path(__file__).with_name("spark_master_program.py")
COMPACTED = {"cleanup.policy": "compact"}
KEYED = {str(number) for number in range(1000) if number != 500}


@pytest.mark.timeout(620)
@pytest.mark.parametrize(
    "master", ["local[2,4]", "remote(local[2,4])", "local-cluster[2,1,1024]"]
)
def test_sink_is_the_same_on_each_master(kafka_cluster, tmp_path, master):
    """A write, failures, the data source, guard_sink and foreachBatch.

    In Connect the hook runs on the server, so what it learns does not come back.
    """
    topic = kafka_cluster.create_topic(partitions=2, config=COMPACTED)
    dead = kafka_cluster.create_topic()
    folder = tmp_path / "spark"
    once = kafka_cluster.create_topic(partitions=2)
    arguments = [kafka_cluster.bootstrap_servers, topic, dead, "guarded", str(folder)]
    arguments.append(once)
    done = subprocess.run(
        [sys.executable, str(PROGRAM), master, *arguments],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
    )
    assert done.returncode == 0, done.stderr[-5000:]
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["write"] == {"delivered": 999, "dead": {"NULL_KEY": 1}, "twice": 0}
    assert said["failure"] == ["InvalidRecordKeyError", 87, topic]
    assert said["source_failure"] == ["InvalidRecordKeyError", 87, topic]
    hint = "there is no column keyy; did you mean 'key'?; the columns are key, value"
    assert said["order"] == f"order_by: {hint}"
    assert said["guarded"] == {"guarded": 999, dead: 1}
    is_remote = master.startswith("remote")
    assert bool(said["seen"]) is not is_remote
    # The data source that failed has no barrier: what other tasks wrote stays there.
    landed = values(kafka_cluster, topic)
    assert set(landed) == KEYED
    assert len(landed) >= 3 * 999
    assert [why(m)["reason"] for m in read(kafka_cluster, dead)] == ["NULL_KEY"] * 3
    assert said["once"] == 999
    assert sorted(committed_values(kafka_cluster, once)) == sorted([*KEYED, *KEYED])
