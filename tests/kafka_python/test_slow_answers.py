"""Answers that take seconds are awaited by calls without a limit of their own."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from kafka import KafkaProducer, OffsetAndMetadata, TopicPartition

from kafkaguard import guard
from tests.contracts.producer import read

SLOW_S = 1.0


def guarded(faults, **settings):
    """Guard a new producer."""
    servers = faults.bootstrap_servers
    return guard(KafkaProducer(bootstrap_servers=servers, **settings))


def test_flush_and_close_await_a_slow_broker(kafka_cluster, kafka_topic, kafka_faults):
    """Longer than the second that the client's thread has to end."""
    producers = [guarded(kafka_faults) for _ in range(2)]
    kafka_faults.on("Produce").delay(2.5)
    for producer in producers:
        producer.send(kafka_topic, b"v", b"k")
    with ThreadPoolExecutor(2) as pool:
        ends = [pool.submit(end) for end in (producers[0].flush, producers[1].close)]
        assert [end.result().delivered for end in ends] == [1, 1]
    producers[0].close()
    assert read(kafka_cluster, kafka_topic) == [(b"k", b"v")] * 2


def test_a_send_awaits_slow_metadata(kafka_topic, kafka_faults):
    """Also with a time of its own, of which it uses only a part."""
    with guarded(kafka_faults) as producer:
        kafka_faults.on("Metadata", topic=kafka_topic).delay(SLOW_S)
        assert producer.send(kafka_topic, b"v", b"k", timeout=10).get(10).offset == 0


def test_each_transactional_call_awaits_a_slow_coordinator(kafka_topic, kafka_faults):
    """One of each; the offsets and the record are committed."""
    kafka_faults.on("InitProducerId").delay(SLOW_S)
    offsets = {TopicPartition(kafka_topic, 0): OffsetAndMetadata(1, "", -1)}
    with guarded(kafka_faults, transactional_id=kafka_topic) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(kafka_topic, b"v", b"k")
        kafka_faults.on("EndTxn").delay(SLOW_S)
        kafka_faults.on("TxnOffsetCommit").delay(SLOW_S)
        producer.send_offsets_to_transaction(offsets, "g")
        producer.commit_transaction()
        producer.begin_transaction()
        producer.send(kafka_topic, b"v", b"k").get(10)
        producer.abort_transaction()
        assert producer.report().failed == 0
