"""kafka-python's producer, guarded: every wait ends, whatever the broker does."""

from __future__ import annotations

import time

import pytest
from kafka import KafkaProducer

from kafkaguard import errors, guard
from tests.contracts.producer import read

QUICK = {
    "request_timeout_ms": 500,
    "delivery_timeout_ms": 1500,
    "bootstrap_timeout_ms": 15_000,
    "max_block_ms": 10_000,
    "reconnect_backoff_max_ms": 200,
}
#: Above delivery_timeout_ms and the guard's margin by what a busy machine may add; the
#: client alone would wait for ever.
BOUND_S = 30.0


@pytest.fixture
def paused(kafka_cluster):
    """Freeze the broker on request; let it go on in the end."""
    broker = kafka_cluster.broker(0)
    yield broker.pause
    broker.resume()


@pytest.fixture
def make(kafka_cluster):
    """Build guarded producers that are closed in the end."""
    made = []

    def build(**settings):
        servers = {"bootstrap_servers": kafka_cluster.bootstrap_servers}
        made.append(guard(KafkaProducer(**servers, **QUICK, **settings)))
        return made[-1]

    yield build
    for producer in made:
        producer.close(5)


def failure(future):
    """Wait without a bound of one's own; return the error."""
    with pytest.raises(errors.KafkaGuardError) as caught:
        future.get()
    return caught.value


@pytest.mark.filterwarnings("ignore:retries = inf without:UserWarning")
@pytest.mark.parametrize("idempotent", [True, False])
def test_a_record_on_its_way_to_a_silent_broker_is_in_doubt_in_time(
    kafka_cluster, kafka_topic, make, paused, idempotent
):
    """The next record is delivered as soon as the broker is back."""
    producer = make(enable_idempotence=idempotent)
    assert producer.send(kafka_topic, b"0", b"k").get(10).offset == 0
    paused()
    start = time.monotonic()
    error = failure(producer.send(kafka_topic, b"1", b"k"))
    assert time.monotonic() - start < BOUND_S
    assert (error.name, error.topic) == ("CLIENT_TIMEOUT", kafka_topic)
    assert (error.verdict.action, error.verdict.written) == ("IN_DOUBT", "maybe")
    assert "no outcome within 1.5 s (delivery_timeout_ms); it was sent" in str(error)
    kafka_cluster.broker(0).resume()
    producer.send(kafka_topic, b"2", b"k").get(20)
    assert read(kafka_cluster, kafka_topic)[-1] == (b"k", b"2")


def test_a_record_that_never_left_has_failed_in_time(
    kafka_cluster, kafka_topic, kafka_faults, paused
):
    """The producer has no id yet: kafka-python would wait for one for ever."""
    kafka_faults.on("InitProducerId").fail("COORDINATOR_LOAD_IN_PROGRESS")
    servers = kafka_faults.bootstrap_servers
    client = KafkaProducer(bootstrap_servers=servers, **QUICK)
    with guard(client) as producer:
        start = time.monotonic()
        futures = [producer.send(kafka_topic, b"%d" % n, b"k") for n in range(3)]
        for future in futures:
            error = failure(future)
            assert (error.verdict.action, error.verdict.written) == ("RETRY", "no")
            assert "it was not written" in str(error)
        assert time.monotonic() - start < 3 * BOUND_S
        kafka_faults.clear()
        assert producer.send(kafka_topic, b"later", b"k").get(20).offset == 0
    assert read(kafka_cluster, kafka_topic) == [(b"k", b"later")]
