"""Lag as OpenTelemetry gauges; the API does nothing without the SDK."""

import os

from kafka import KafkaAdminClient
from opentelemetry import metrics

from kafkaguard import guard
from kafkaguard.cluster import register_otel

admin = guard(KafkaAdminClient(bootstrap_servers=os.environ["KAFKA"]))
register_otel(metrics.get_meter("installs"), admin.lag)
admin.close()
