"""kafka-python's idempotent producer, guarded: it gets no producer id, or loses it."""

from __future__ import annotations

import time

import pytest
from kafka import KafkaProducer

from kafkaguard import Action, errors, guard
from kafkaguard._delivery.client_life import MOST_DEATHS
from kafkaguard._retries.events import RecreateEvent
from tests.contracts.producer import read

QUICK = {
    "request_timeout_ms": 1_000,
    "delivery_timeout_ms": 30_000,
    "max_block_ms": 30_000,
}
#: Far below ``delivery_timeout_ms``.
AT_ONCE_S = 10.0


@pytest.mark.parametrize("code", [None, 35, 53, 42, -1, 76])
def test_a_producer_that_gets_no_id_says_so_at_once(kafka_topic, kafka_faults, code):
    """CONFIGURE, with the answer and the setting; no other producer is built."""
    on = kafka_faults.on("InitProducerId")
    name = "not offered"
    if code is None:
        on.hide()
    else:
        on.fail(code)
        name = f"{errors.for_code(code).name} ({code})"
    client = KafkaProducer(bootstrap_servers=kafka_faults.bootstrap_servers, **QUICK)
    events = []
    with guard(client, on_event=events.append) as producer:
        for _ in range(2):  # also after the first is known to have failed
            start = time.monotonic()
            with pytest.raises(errors.ClientConfigurationError) as caught:
                producer.send(kafka_topic, b"v", b"k").get(60)
            assert time.monotonic() - start < AT_ONCE_S
            error = caught.value
            assert (error.verdict.action, error.verdict.written) == (
                Action.CONFIGURE,
                "no",
            )
            assert error.topic == kafka_topic
            assert f"no id (InitProducerId: {name})" in str(error)
            assert "Set enable_idempotence=False" in str(error)
        report = producer.flush()
        assert (report.failed, report.pending) == (2, 0)
    assert not [event for event in events if isinstance(event, RecreateEvent)]


def test_a_producer_whose_successors_get_no_answer_either_is_not_replaced_for_ever(
    kafka_cluster, kafka_topic, kafka_faults
):
    """Its record was not written; the next one is sent as soon as the brokers answer."""
    fault = kafka_faults.on("InitProducerId").drop()
    client = KafkaProducer(
        bootstrap_servers=kafka_faults.bootstrap_servers,
        **{**QUICK, "request_timeout_ms": 200},
    )
    events = []
    with guard(client, on_event=events.append) as producer:
        with pytest.raises(errors.KafkaGuardError) as caught:
            producer.send(kafka_topic, b"v", b"k").get(60)
        assert caught.value.verdict.written == "no"
        assert "producers in a row died before they delivered" in str(caught.value)
        replaced = [event for event in events if isinstance(event, RecreateEvent)]
        assert len(replaced) == MOST_DEATHS + 1
        fault.remove()
        assert producer.send(kafka_topic, b"later", b"k").get(60).offset == 0
        producer.flush()
    assert read(kafka_cluster, kafka_topic) == [(b"k", b"later")]
