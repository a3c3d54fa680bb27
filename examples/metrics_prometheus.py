"""Count the events of a guarded producer in Prometheus, and export consumer lag."""

from __future__ import annotations

from kafka import KafkaAdminClient, KafkaProducer
from prometheus_client import REGISTRY, Counter, generate_latest

from kafkaguard import guard
from kafkaguard.cluster import PrometheusLag
from kafkaguard.testing import KafkaCluster

EVENTS = Counter(
    "kafkaguard_events",
    "Events of guarded clients",
    ["event", "topic", "error"],
)


def count(event) -> None:
    """Count an event by its name, its topic and Kafka's name of the error."""
    error = getattr(event, "error", None)
    name = getattr(error, "name", error) or ""
    topic = getattr(event, "topic", None) or event.context.topic or ""
    EVENTS.labels(event.name, topic, name).inc()


POLICY = {"on_reject": "dead_letter", "dead_letter": {"topic": "{topic}.dlq"}}

with KafkaCluster() as cluster:
    topic = cluster.create_topic(config={"cleanup.policy": "compact"})
    cluster.create_topic(f"{topic}.dlq")
    servers = cluster.bootstrap_servers
    client = KafkaProducer(bootstrap_servers=servers)
    with guard(client, policy=POLICY, on_event=count) as producer:
        producer.send(topic, b"no key")
    # Lag is read once for each scrape.
    with guard(KafkaAdminClient(bootstrap_servers=servers)) as admin:
        REGISTRY.register(PrometheusLag(admin.lag))
        for line in generate_latest().decode().splitlines():
            if line.startswith("kafkaguard_events_total"):
                print(line)
