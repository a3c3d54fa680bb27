"""Telemetry of guarded clients on a real broker, from a send to a replay."""

from __future__ import annotations

import asyncio

import confluent_kafka
import kafka
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

import aiokafka
from kafkaguard import guard, replay
from kafkaguard.telemetry import otel
from tests.contracts.producer import records
from tests.telemetry.exporting import Export
from tests.telemetry.test_spans import Tracing, linked

POLICY = {"on_reject": "dead_letter", "dead_letter": {"topic": "{topic}.dlq"}}


class Both(Export, Tracing):
    """Metrics and spans in memory."""

    def __init__(self):
        Tracing.__init__(self)
        self.kind, self.reader = "otel", InMemoryMetricReader()
        self.provider = MeterProvider([self.reader])
        self.telemetry = otel(self.provider, self.tracer_provider)


@pytest.fixture
def both():
    """Telemetry with metrics and spans."""
    made = Both()
    yield made
    made.close()


def run_kafka_python(servers, topic, group, hook, handle):
    """Send three records, and handle them."""
    with guard(
        kafka.KafkaProducer(bootstrap_servers=servers), on_event=hook
    ) as producer:
        for n in range(3):
            producer.send(topic, b"%d" % n, key=b"k")
    config = {"bootstrap_servers": servers, "group_id": group}
    client = kafka.KafkaConsumer(
        topic, auto_offset_reset="earliest", enable_auto_commit=False, **config
    )
    with guard(client, policy=POLICY, on_event=hook) as consumer:
        consumer.process(lambda record: handle(record.value), until_end=True)


def run_confluent(servers, topic, group, hook, handle):
    """Send three records, and handle them as batches of one."""
    config = {"bootstrap.servers": servers}
    idempotent = config | {"enable.idempotence": True}
    producer = guard(factory=confluent_kafka.Producer, config=idempotent, on_event=hook)
    for n in range(3):
        producer.produce(topic, b"%d" % n, key=b"k")
    producer.close()
    config |= {"group.id": group, "auto.offset.reset": "earliest"}
    consumer = guard(
        factory=confluent_kafka.Consumer, config=config, policy=POLICY, on_event=hook
    )
    consumer.subscribe([topic])
    consumer.process(lambda batch: handle(batch[0].value()), until_end=True, batch=1)
    consumer.close()


def run_aiokafka(servers, topic, group, hook, handle):
    """Send three records, and handle them."""

    async def run():
        client = aiokafka.AIOKafkaProducer(
            bootstrap_servers=servers, enable_idempotence=True
        )
        async with guard(client, on_event=hook) as producer:
            for n in range(3):
                await producer.send_and_wait(topic, b"%d" % n, key=b"k")
        config = {"bootstrap_servers": servers, "group_id": group}
        reader = aiokafka.AIOKafkaConsumer(
            topic, auto_offset_reset="earliest", enable_auto_commit=False, **config
        )

        async def handler(record):
            handle(record.value)

        async with guard(reader, policy=POLICY, on_event=hook) as consumer:
            await consumer.process(handler, until_end=True)

    asyncio.run(run())


def handle(value):
    """Refuse the second record."""
    if value == b"1":
        raise ValueError(value)


@pytest.mark.parametrize("run", [run_kafka_python, run_confluent, run_aiokafka])
def test_a_record_is_counted_and_traced_from_its_send_to_its_replay(
    kafka_cluster, both, run
):
    """Its dead letter and its replay are linked to the trace that has sent it."""
    topic = kafka_cluster.create_topic()
    letters = kafka_cluster.create_topic(f"{topic}.dlq")
    servers = kafka_cluster.bootstrap_servers
    run(servers, topic, f"group-{topic}", both.telemetry, handle)
    where = {"topic": topic, "group": f"group-{topic}"}
    sent, consumed = (
        "messaging.client.sent.messages",
        "messaging.client.consumed.messages",
    )
    assert both.value(sent, topic=topic, outcome="delivered") == 3
    assert both.value(consumed, outcome="processed", **where) == 2
    assert both.value(consumed, outcome="dead_lettered", **where) == 1
    assert both.value("kafkaguard.process.committed", **where) == 3
    assert both.value("kafkaguard.dead_letters", topic=topic, error="ValueError") == 1
    durations = [
        value
        for (name, _), value in both.values().items()
        if name == "messaging.process.duration"
    ]
    ((count, seconds),) = durations
    assert count >= 1
    assert 0 < seconds < 60

    spans = both.spans()
    sends = {f"{span.context.trace_id:032x}" for span in spans[f"send {topic}"]}
    assert len(sends) == 3
    handled = [each for span in spans[f"process {topic}"] for each in linked(span)]
    assert set(handled) == sends
    (letter,) = spans[f"send {letters}"]
    second = [trace_of(record) for record in records(kafka_cluster, topic)][1]
    assert linked(letter) == [second]

    config = {"bootstrap.servers": servers}
    assert replay(letters, config, on_event=both.telemetry).replayed == 1
    again = [span for span in both.spans()[f"send {topic}"] if span.links]
    assert [linked(span) for span in again] == [[second]]
    assert [trace_of(record) for record in records(kafka_cluster, topic)][3:4] == [
        second
    ]


def trace_of(record):
    """Return the trace that a record's headers name."""
    ((_, parent),) = [h for h in record.headers if h[0] == "traceparent"]
    return parent.split(b"-")[1].decode()
