"""Lag as Prometheus gauges."""

import os

from kafka import KafkaAdminClient
from prometheus_client import REGISTRY, generate_latest

from kafkaguard import guard
from kafkaguard.cluster import PrometheusLag

admin = guard(KafkaAdminClient(bootstrap_servers=os.environ["KAFKA"]))
REGISTRY.register(PrometheusLag(admin.lag))
assert b"# TYPE kafkaguard_group_lag gauge" in generate_latest()
admin.close()
