"""Telemetry for Prometheus."""

import os

from kafka import KafkaAdminClient
from prometheus_client import generate_latest

from kafkaguard import guard, telemetry

admin = guard(KafkaAdminClient(bootstrap_servers=os.environ["KAFKA"]))
telemetry.prometheus().lag(admin.lag)
assert b"# TYPE kafkaguard_group_lag gauge" in generate_latest()
admin.close()
