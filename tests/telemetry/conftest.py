"""Telemetry of both kinds."""

from __future__ import annotations

import pytest

from tests.telemetry.exporting import exporting


@pytest.fixture(params=["otel", "prometheus"])
def export(request):
    """Telemetry of each kind."""
    with exporting(request.param) as made:
        yield made
