"""Export what a guarded producer does, and consumer lag, to Prometheus."""

from __future__ import annotations

from kafka import KafkaAdminClient, KafkaProducer
from prometheus_client import generate_latest

from kafkaguard import guard, telemetry
from kafkaguard.testing import KafkaCluster

POLICY = {"on_reject": "dead_letter", "dead_letter": {"topic": "{topic}.dlq"}}

metrics = telemetry.prometheus()
with KafkaCluster() as cluster:
    topic = cluster.create_topic(config={"cleanup.policy": "compact"})
    cluster.create_topic(f"{topic}.dlq")
    servers = cluster.bootstrap_servers
    client = KafkaProducer(bootstrap_servers=servers)
    with guard(client, policy=POLICY, on_event=metrics) as producer:
        producer.send(topic, b"no key")
    with guard(KafkaAdminClient(bootstrap_servers=servers)) as admin:
        metrics.lag(admin.lag)  # read once for each scrape
        for line in generate_latest().decode().splitlines():
            if line.startswith(("messaging_client_sent", "kafkaguard_dead_letters")):
                print(line)
