"""What people who met the guarded producer for the first time ran into."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from kafka import KafkaProducer

from kafkaguard import Action, CallbackError, DeliveryFailed, guard
from kafkaguard.errors import ClientConfigurationError
from kafkaguard.policies import StackingWarning


def producer_of(cluster, **settings):
    """A guarded producer with settings of one's own."""
    return guard(KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, **settings))


def test_flush_in_several_threads_waits_for_what_was_sent_before(
    kafka_cluster, kafka_topic
):
    """Records that other threads send meanwhile are not pending records of this flush."""
    with producer_of(kafka_cluster) as producer:

        def work(_):
            for _ in range(15):
                sent = [producer.send(kafka_topic, b"x" * 50) for _ in range(30)]
                producer.flush()
                assert all(future.is_done for future in sent)
            return True

        with ThreadPoolExecutor(4) as pool:
            assert all(pool.map(work, range(4)))


def test_pending_records_are_in_doubt(kafka_faults, kafka_topic):
    """They may be written yet: whoever sends them again may write them twice."""
    kafka_faults.on("Produce", topic=kafka_topic).delay(3.0, before=False)
    with producer_of(kafka_faults) as producer:
        producer.send(kafka_topic, b"late")
        with pytest.raises(DeliveryFailed) as caught:
            producer.flush(0.3)
        assert caught.value.report.pending == 1
        assert caught.value.verdict.action is Action.IN_DOUBT
        assert caught.value.verdict.written == "maybe"


def test_a_callback_that_raises_says_nothing_against_the_record(
    kafka_cluster, kafka_topic
):
    """The record was written; sending it again would write it twice."""
    producer = producer_of(kafka_cluster)
    producer.send(kafka_topic, b"1").add_callback(lambda _: 1 / 0)
    with pytest.raises(CallbackError) as caught:
        producer.flush()
    assert caught.value.verdict.written == "yes"
    producer.close()


def test_acks_0_is_warned_of_and_strict_refuses_it(kafka_cluster):
    """What the broker refuses would count as delivered."""
    settings = {"acks": 0, "enable_idempotence": False, "retries": 0}
    with pytest.warns(StackingWarning, match="acks=0"):
        producer_of(kafka_cluster, **settings).close()
    with (
        KafkaProducer(
            bootstrap_servers=kafka_cluster.bootstrap_servers, **settings
        ) as client,
        pytest.raises(ClientConfigurationError, match="acks=0"),
    ):
        guard(client, strict=True)


def test_declared_facts_of_a_wrong_type_are_refused(kafka_cluster):
    """True is not TopicFacts(compacted=True)."""
    with (
        KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers) as client,
        pytest.raises(TypeError, match="takes TopicFacts"),
    ):
        guard(client, topics={"t": True})
