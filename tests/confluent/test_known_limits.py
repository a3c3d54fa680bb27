"""Records that a broker would refuse for their size are refused before they are sent."""

from __future__ import annotations

import logging

import pytest
from confluent_kafka import KafkaException, Producer

from kafkaguard import guard
from kafkaguard.errors import DeliveryFailed, MessageTooLargeError
from kafkaguard_adapters.confluent.producer_settings import ProducerSettings
from tests.contracts.producer import read
from tests.own_log import own_records

LIMIT = 2_000


@pytest.mark.parametrize("on_reject", ["raise", "drop"])
def test_only_the_first_one_is_refused_by_the_broker(
    kafka_cluster, kafka_faults, on_reject
):
    """Its refusal makes the guard look up the limit; the others never leave."""
    topic = kafka_cluster.create_topic(config={"max.message.bytes": LIMIT})
    config = {
        "bootstrap.servers": kafka_faults.bootstrap_servers,
        "enable.idempotence": True,
        "batch.size": LIMIT,
    }
    policy = {"on_reject": on_reject}
    told = []
    with guard(factory=Producer, config=config, policy=policy) as producer:
        producer.produce(topic, b"x" * LIMIT, b"k")
        try:
            producer.flush(30)
        except DeliveryFailed as failed:
            assert on_reject == "raise"
            assert failed.report.failed == 1
        seen = len(kafka_faults.requests("Produce"))

        def tell(error, _):
            told.append(error and error.error)

        def produce_large():
            producer.produce(topic, "x" * LIMIT, b"k", on_delivery=tell)

        if on_reject == "raise":
            with pytest.raises(
                MessageTooLargeError, match="nothing was sent"
            ) as caught:
                produce_large()
            assert isinstance(caught.value, KafkaException)
            assert caught.value.verdict.written == "no"
        else:
            produce_large()
        assert len(kafka_faults.requests("Produce")) == seen
        for number in range(200):
            producer.produce(topic, b"%d" % number, b"k", headers={"h": b"v"})
        assert producer.flush(30) == 0
        report = producer.report()
        assert (report.delivered, report.maybe_twice) == (200, 0)
    assert all(isinstance(each, MessageTooLargeError) for each in told)
    assert len(told) == (on_reject == "drop")
    assert len(read(kafka_cluster, topic)) == 200


def test_batches_that_a_topic_may_refuse_are_warned_of_once(caplog):
    """With both numbers and a value that works; not where all batches fit."""
    with caplog.at_level(logging.WARNING, "kafkaguard.producer"):
        for size in (LIMIT, LIMIT + 1):
            settings = ProducerSettings({"batch.size": str(size)})
            for topic in "ab":
                settings.warn_of_batch_size(topic, LIMIT)
    (record,) = own_records(caplog)
    assert "batch.size (2001) is larger than" in record.getMessage()
    assert "(2000) of topic a" in record.getMessage()
    assert "batch.size = 2000 works" in record.getMessage()
