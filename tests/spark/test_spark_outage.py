"""A broker that is away between two micro-batches, for longer than a look-up takes."""

from __future__ import annotations

import threading

import pytest

import kafkaguard.spark
from kafkaguard.testing import KafkaCluster
from tests.contracts.producer import until
from tests.spark.spark_reading import values

pytestmark = pytest.mark.xdist_group("spark")
AWAY_S = 9.0


def writers(stream, cluster, tmp_path):
    """Make a writer of each kind, with its topic and its report."""
    to = {"bootstrap_servers": cluster.bootstrap_servers}
    topics = cluster.create_topic(), cluster.create_topic()
    seen = []
    function = kafkaguard.spark.foreach_batch(
        topics[0], **to, on_report=lambda report, batch_id: seen.append(report)
    )
    source = stream.writeStream.format("kafkaguard").options(
        **{"kafka.bootstrap.servers": cluster.bootstrap_servers},
        topic=topics[1],
        report=str(tmp_path / "report.jsonl"),
    )
    return {
        topics[0]: stream.writeStream.foreachBatch(function),
        topics[1]: source,
    }, seen


@pytest.mark.timeout(300)
def test_streams_live_through_an_outage_between_batches(spark, tmp_path):
    """Both kinds go on, with what they know, and write each record once."""
    kafkaguard.spark.register(spark)
    folder = tmp_path / "input"
    folder.mkdir()
    (folder / "0.txt").write_text("before\n")
    stream = spark.readStream.text(str(folder))
    with KafkaCluster() as cluster:
        made, seen = writers(stream, cluster, tmp_path)
        queries = []
        for number, writer in enumerate(made.values()):
            place = str(tmp_path / f"checkpoint-{number}")
            placed = writer.option("checkpointLocation", place)
            queries.append(placed.trigger(processingTime="0 seconds").start())
        try:
            until(lambda: all(q.lastProgress for q in queries), 120)
            until(lambda: all(q.lastProgress["batchId"] >= 0 for q in queries))
            until(lambda: len(seen) == 1, 60)
            report = tmp_path / "report.jsonl"
            until(report.exists, 60)
            cluster.broker(0).kill()
            (folder / "1.txt").write_text("during\n")
            threading.Event().wait(AWAY_S)
            assert all(query.isActive for query in queries)
            cluster.broker(0).start()
            until(lambda: len(seen) == 2, 120)
            until(lambda: len(report.read_text().splitlines()) == 2, 120)
        finally:
            for query in queries:
                query.stop()
        for topic in made:
            assert values(cluster, topic) == ["before", "during"]
    assert [r.delivered for r in seen] == [1, 1]
