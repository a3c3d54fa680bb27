"""What telemetry costs a guarded producer, on a real broker.

kafka-python: the CPU time of the sending thread, as in ``kafka_python_producer``.
confluent-kafka: the CPU time of the thread that produces 200,000 records and calls
their callbacks. Producers with telemetry are compared with guarded ones without. The
time of a scrape is shown by itself.
"""

from __future__ import annotations

import random
import statistics
import time

from kafka import KafkaProducer
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from prometheus_client import CollectorRegistry, generate_latest
from rich.console import Console
from rich.table import Table

from benchmarks import confluent_producer, kafka_python_producer
from benchmarks._fresh import in_fresh_processes
from kafkaguard import guard, telemetry
from kafkaguard.testing import KafkaCluster

PAIRS, RUNS = 3, 3
#: Metrics have a limit; spans only have a figure, since they are opt-in.
LIMIT = 1.02
KEYS = kafka_python_producer.KEYS["with a key"]


def hooks():
    """Return what each kind of producer has as ``on_event``, and how to scrape it."""
    registry, reader = CollectorRegistry(), InMemoryMetricReader()
    made = {
        "none": None,
        "Prometheus": telemetry.prometheus(registry),
        "OpenTelemetry": telemetry.otel(MeterProvider([reader])),
        "spans": telemetry.otel(MeterProvider(), TracerProvider()),
    }
    return made, {
        "Prometheus": lambda: generate_latest(registry),
        "OpenTelemetry": reader.get_metrics_data,
    }


def sends(servers, topic):
    """Return the costs of a send of kafka-python by kind, in this process."""
    made, scrapes = hooks()

    def maker(hook):
        return lambda **config: guard(KafkaProducer(**config), on_event=hook)

    kinds = {kind: maker(hook) for kind, hook in made.items()}
    config = {"bootstrap_servers": servers, **kafka_python_producer.AT_REST}
    costs = kafka_python_producer.measure(config, topic, KEYS, kinds)
    seconds = {}
    for kind, scrape in scrapes.items():
        start = time.perf_counter()
        scrape()
        seconds[kind] = time.perf_counter() - start
    return costs, seconds


def deliveries(servers, topic):
    """Return the seconds of confluent-kafka's records by kind, measured in turn."""
    made, _ = hooks()
    confluent_producer.HOOKS.update(made)
    found = {kind: [] for kind in made}
    for _ in range(PAIRS):
        for kind in random.sample(list(made), len(made)):
            start = time.thread_time()
            confluent_producer.seconds(kind, servers, topic)
            found[kind].append(time.thread_time() - start)
    return found


def ratio_of(runs, kind):
    """Return the median ratio of a kind to producers without telemetry."""
    pairs = (zip(run[kind], run["none"], strict=True) for run in runs)
    return statistics.median(mine / none for run in pairs for mine, none in run)


def main() -> bool:
    """Print the table; return True if a limit is missed."""
    table = Table("Client", "Telemetry", "us a record", "Of none", "At most", "Scrape")
    with KafkaCluster() as cluster:
        servers, topic = cluster.bootstrap_servers, cluster.create_topic()
        sent = in_fresh_processes(sends, servers, topic, runs=RUNS)
        delivered = in_fresh_processes(deliveries, servers, topic, runs=RUNS)
    scrapes = [run[1] for run in sent]
    per_record = 1e6 / confluent_producer.RECORDS
    measured = {
        "kafka-python, send": ([run[0] for run in sent], 1.0),
        "confluent-kafka, all": (delivered, per_record),
    }
    missed = False
    for client, (runs, factor) in measured.items():
        for kind in runs[0]:
            cost = statistics.median(each for run in runs for each in run[kind])
            ratio = ratio_of(runs, kind)
            is_limited = kind not in ("none", "spans")
            missed |= is_limited and ratio > LIMIT
            took = [each[kind] * 1e3 for each in scrapes if kind in each]
            table.add_row(
                client,
                kind,
                f"{cost * factor:.2f}",
                f"{ratio:.3f}",
                f"{LIMIT}" if is_limited else "",
                f"{statistics.median(took):.1f} ms" if took else "",
            )
    Console().print(table)
    return missed
