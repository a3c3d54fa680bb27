"""What a pipeline wrote, and what it said."""

from __future__ import annotations

from confluent_kafka import Consumer, TopicPartition


def records(cluster, topic, count):
    """Read that many records of a topic with one partition."""
    config = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "reader"}
    consumer = Consumer(config)
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        return consumer.consume(count, 20)
    finally:
        consumer.close()


def refused(result):
    """Check that a run was refused as people deserve; return what was said."""
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    assert isinstance(result.exception, SystemExit)
    return result.output
