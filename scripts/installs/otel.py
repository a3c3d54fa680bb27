"""Lag as gauges of OpenTelemetry, whose API does nothing without its SDK."""

import os

from kafka import KafkaAdminClient
from opentelemetry import metrics

from kafkaguard import guard, register_otel

admin = guard(KafkaAdminClient(bootstrap_servers=os.environ["KAFKA"]))
register_otel(metrics.get_meter("installs"), admin.lag)
admin.close()
