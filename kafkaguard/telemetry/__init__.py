"""Metrics and traces for OpenTelemetry and Prometheus.

>>> from kafkaguard import telemetry  # doctest: +SKIP
>>> producer = guard(client, on_event=telemetry.prometheus())  # doctest: +SKIP

The package has a dashboard for Grafana (``grafana.json``) and rules for Prometheus
(``alerts.yaml``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaguard._common.public import exports

if TYPE_CHECKING:
    from kafkaguard.telemetry._collecting import Telemetry as Telemetry
    from kafkaguard.telemetry._otel import otel as otel
    from kafkaguard.telemetry._prometheus import prometheus as prometheus

exports(
    __name__,
    {
        "kafkaguard.telemetry._collecting": "Telemetry",
        "kafkaguard.telemetry._otel": "otel",
        "kafkaguard.telemetry._prometheus": "prometheus",
    },
)
