"""Guarded consumers whose client is traced by OpenTelemetry's own packages."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack, contextmanager

import confluent_kafka
import pytest
from kafka import KafkaConsumer, TopicPartition
from opentelemetry.instrumentation.aiokafka import AIOKafkaInstrumentor
from opentelemetry.instrumentation.confluent_kafka import ConfluentKafkaInstrumentor
from opentelemetry.instrumentation.kafka import KafkaInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

import aiokafka
from kafkaguard import guard
from tests.contracts.consumer import fill


@contextmanager
def active(instrumentor, provider):
    """Activate a package."""
    instrumentor.instrument(tracer_provider=provider)
    try:
        yield
    finally:
        instrumentor.uninstrument()


def read_by_kafka_python(servers, topic, activate):
    """Iterate; the package's method is in the class, so it does not matter when."""
    settings = {"bootstrap_servers": servers, "auto_offset_reset": "earliest"}
    with guard(KafkaConsumer(group_id=None, **settings)) as consumer:
        activate()
        consumer.assign([TopicPartition(topic, 0)])
        return next(consumer).value


def read_by_aiokafka(servers, topic, activate):
    """Get one."""

    async def read():
        consumer = guard(
            aiokafka.AIOKafkaConsumer(
                bootstrap_servers=servers, auto_offset_reset="earliest"
            )
        )
        activate()
        consumer.assign([aiokafka.TopicPartition(topic, 0)])
        async with consumer:
            return (await consumer.getone()).value

    return asyncio.run(read())


def read_by_confluent(servers, topic, activate):
    """Poll; a consumer that is there already is traced by a proxy of the package's."""
    guarded = guard(
        confluent_kafka.Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": topic,
                "auto.offset.reset": "earliest",
            }
        )
    )
    consumer = activate(guarded)
    guarded.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    try:
        for _ in range(60):
            if (message := consumer.poll(1.0)) is not None:
                return message.value()
    finally:
        consumer.close()
    return None


CLIENTS = {
    "kafka-python": (KafkaInstrumentor, read_by_kafka_python),
    "aiokafka": (AIOKafkaInstrumentor, read_by_aiokafka),
    "confluent-kafka": (ConfluentKafkaInstrumentor, read_by_confluent),
}


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("client", CLIENTS)
def test_what_is_read_has_a_span(kafka_cluster, kafka_topic, client, when):
    """Whether the package is activated before the consumer is guarded, or after."""
    kind, read = CLIENTS[client]
    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    fill(kafka_cluster, kafka_topic, 1, partitions=[0])
    with ExitStack() as stack:

        def activate(consumer=None):
            if when == "before":
                return consumer
            if isinstance(consumer, confluent_kafka.Consumer):
                return kind.instrument_consumer(consumer, provider)
            stack.enter_context(active(kind(), provider))
            return consumer

        if when == "before":
            stack.enter_context(active(kind(), provider))
        value = read(kafka_cluster.bootstrap_servers, kafka_topic, activate)
    assert value == b"0"
    kinds = [span.kind for span in spans.get_finished_spans()]
    assert SpanKind.CONSUMER in kinds
