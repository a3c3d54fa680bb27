"""arroyo and FastStream on the same records, with a handler that does nothing.

Both commit by themselves, at most once a second (arroyo) and each five seconds
(FastStream, its default). FastStream decodes values and checks types by default; "raw"
is without both.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import sys
from pathlib import Path

from benchmarks._process_loops import Meter

BATCH = 100
#: Where ``make bench`` installs them.
PACKAGES = Path(__file__).parents[1] / ".bench"


def arroyo(servers, topic, group, count, *, batch):
    """Measure a stream processor of arroyo, which has confluent-kafka's consumer."""
    from arroyo.backends.kafka import KafkaConsumer
    from arroyo.backends.kafka.configuration import build_kafka_consumer_configuration
    from arroyo.commit import ONCE_PER_SECOND
    from arroyo.processing import StreamProcessor
    from arroyo.processing.strategies import BatchStep, CommitOffsets, RunTask
    from arroyo.processing.strategies.abstract import ProcessingStrategyFactory
    from arroyo.types import Topic

    meter = Meter(count)

    def handle(message):
        if meter.count(len(message.payload) if batch else 1):
            processor.signal_shutdown()
        return message.payload

    class Factory(ProcessingStrategyFactory):
        def create_with_partitions(self, commit, partitions):  # noqa: ARG002 - arroyo's
            task = RunTask(handle, CommitOffsets(commit))
            return BatchStep(BATCH, 1.0, task) if batch else task

    config = build_kafka_consumer_configuration(
        {}, group_id=group, bootstrap_servers=[servers], enable_auto_commit=False
    )
    consumer = KafkaConsumer(config)
    processor = StreamProcessor(consumer, Topic(topic), Factory(), ONCE_PER_SECOND)
    processor.run()
    return meter.result


def faststream(module, servers, topic, group, count, *, batch, raw):
    """Measure a subscriber of FastStream; ``module`` is the client's: one of two."""
    broker_class = importlib.import_module(f"faststream.{module}").KafkaBroker

    async def decode(message):
        return message.body

    async def run():
        meter, over = Meter(count), asyncio.Event()
        broker = broker_class(servers, apply_types=not raw, logger=None)
        wish = {"batch": True, "max_records": BATCH} if batch else {}
        if raw:
            wish["decoder"] = decode

        async def handle_record(body: bytes):  # noqa: ARG001 - FastStream's
            if meter.count(1):
                over.set()

        async def handle_batch(body: list[bytes]):
            if meter.count(len(body)):
                over.set()

        subscriber = broker.subscriber(
            topic, group_id=group, auto_offset_reset="earliest", **wish
        )
        subscriber(handle_batch if batch else handle_record)
        await broker.start()
        await over.wait()
        await broker.stop()
        return meter.result

    logging.disable(logging.INFO)
    return asyncio.run(run())


def other(name, servers, topic, group, count, *, batch):
    """Measure a tool, in a process of its own."""
    sys.path.append(str(PACKAGES))
    if name == "arroyo":
        return arroyo(servers, topic, group, count, batch=batch)
    module = "kafka" if "aiokafka" in name else "confluent"
    return faststream(
        module, servers, topic, group, count, batch=batch, raw="raw" in name
    )
