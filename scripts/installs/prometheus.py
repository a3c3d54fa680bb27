"""Telemetry for Prometheus."""

import os
from importlib.resources import files

from kafka import KafkaAdminClient
from prometheus_client import generate_latest

from kafkaguard import guard, telemetry

admin = guard(KafkaAdminClient(bootstrap_servers=os.environ["KAFKA"]))
telemetry.prometheus().lag(admin.lag)
assert b"# TYPE kafkaguard_group_lag gauge" in generate_latest()
for name in ("alerts.yaml", "grafana.json"):
    assert (files("kafkaguard.telemetry") / name).is_file()
admin.close()
