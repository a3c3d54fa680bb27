"""A plain cluster: topics and records."""

from __future__ import annotations

from kafka import KafkaConsumer, KafkaProducer


def test_a_record_comes_back(kafka_cluster, kafka_topic):
    """What is written to the broker can be read from it."""
    with KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers) as producer:
        producer.send(kafka_topic, b"hello").get(10)
    with KafkaConsumer(
        kafka_topic,
        bootstrap_servers=kafka_cluster.bootstrap_servers,
        auto_offset_reset="earliest",
        consumer_timeout_ms=10_000,
    ) as consumer:
        assert next(consumer).value == b"hello"
