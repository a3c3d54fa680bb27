"""Telemetry for OpenTelemetry; the API does nothing without the SDK."""

import os

from kafka import KafkaAdminClient
from opentelemetry import metrics

from kafkaguard import guard, telemetry

admin = guard(KafkaAdminClient(bootstrap_servers=os.environ["KAFKA"]))
telemetry.otel(metrics.get_meter_provider()).lag(admin.lag)
admin.close()
