"""Streams whose only broker goes away, again and again."""

from __future__ import annotations

import itertools
import json
import random
import re
import socket
import tempfile
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

import kafkaguard.spark
from kafkaguard.cli.spark_session import spark_session
from kafkaguard.testing import KafkaCluster
from tests.soak.counting import count, last_of_each
from tests.spark.spark_reading import values

#: Seconds that the broker is away, in turn.
OUTAGES_S = (5, 20, 60)
ROWS = 500
_SETTLE_S = 180


def streams(spark, cluster, folder):
    """Start a stream of each kind; return them with their topics and reports."""
    spark.streams.resetTerminated()
    made = {}
    for kind in ("foreach_batch", "data source"):
        topic, report = cluster.create_topic(partitions=2), folder / f"{kind}.jsonl"
        connection = cluster.client_config(client="spark")
        query = start(spark, kind, topic, connection, report)
        made[kind] = query, topic, report
    return made


def start(spark, kind, topic, connection, report, rows=ROWS):
    """Start a stream of numbers; its checkpoint stands beside its file of reports."""
    kafkaguard.spark.register(spark)
    source = spark.readStream.format("rate-micro-batch")
    numbers = source.option("rowsPerBatch", rows).option("numPartitions", 2).load()
    number = F.col("value").cast("string")
    writer = numbers.select(number.alias("key"), number.alias("value")).writeStream
    if kind == "foreach_batch":
        config = {k.removeprefix("kafka."): v for k, v in connection.items()}
        function = kafkaguard.spark.foreach_batch(
            topic,
            bootstrap_servers=config.pop("bootstrap.servers"),
            config=config,
            on_report=noting(report),
        )
        writer = writer.foreachBatch(function)
    else:
        writer = writer.format("kafkaguard").options(
            **connection, topic=topic, report=str(report)
        )
    writer = writer.option("checkpointLocation", str(report.with_suffix("")))
    return writer.trigger(processingTime="1 second").start()


def noting(file):
    """Make an ``on_report`` that writes what the data source writes."""

    def note(report, batch_id):
        with file.open("a") as lines:
            lines.write(json.dumps({"batch_id": batch_id, **report.to_dict()}) + "\n")

    return note


def read(report):
    """Read a file of reports."""
    if not report.exists():
        return []
    return [json.loads(line) for line in report.read_text().splitlines()]


@contextmanager
def ports_held(broker):
    """Keep the ports of a broker that is away from other programs."""
    settings = broker._properties.read_text()
    with ExitStack() as stack:
        for port in map(int, set(re.findall(r"127\.0\.0\.1:(\d+)", settings))):
            holder = stack.enter_context(socket.socket())
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with suppress(OSError):
                holder.bind(("127.0.0.1", port))
        yield


def waits(condition, seconds):
    """Wait until something holds; return whether it came to hold."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        threading.Event().wait(0.5)
    return condition()


def run(minutes, outages, seed):
    """Run streams for so many minutes; return what is wrong, in sentences.

    The broker is away for so many seconds, in turn.
    """
    draw = random.Random(seed)
    wrong = []
    with (
        tempfile.TemporaryDirectory() as name,
        KafkaCluster() as cluster,
        spark_session("soak") as spark,
    ):
        made = streams(spark, cluster, Path(name))
        waits(lambda: all(read(report) for _, _, report in made.values()), _SETTLE_S)
        end = time.monotonic() + 60 * minutes
        for away in itertools.cycle(outages):
            threading.Event().wait(draw.uniform(2, 10))
            if time.monotonic() > end:
                break
            print(f"the broker is away for {away:g} s", flush=True)
            draw.choice([cluster.broker(0).kill, cluster.broker(0).stop])()
            with ports_held(cluster.broker(0)):
                threading.Event().wait(away)
            cluster.broker(0).start()
        for kind, (query, topic, report) in made.items():
            before = len(read(report))
            went_on = waits(
                lambda report=report, before=before: len(read(report)) > before,
                _SETTLE_S,
            )
            if not (query.isActive and went_on):
                wrong.append(f"{kind}: the stream has ended: {query.exception()}")
            query.stop()
            lines = last_of_each(read(report))
            written = sum(line["delivered"] for line in lines)
            found = count(
                map(str, range(written)),
                values(cluster, topic),
                [line["maybe_twice"] for line in lines],
            )
            print(f"{kind}: {len(lines)} batches, {written:,} records, {found}")
            if not found.is_true:
                wrong.append(f"{kind}: {found}")
    return wrong
