"""What ``kafkaguard.testing`` shows, and what importing it costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kafkaguard import testing


def test_every_public_name_is_there():
    """All names can be imported, and no other is offered."""
    assert dir(testing) == testing.__all__ == sorted(testing.__all__)
    assert all(getattr(testing, name) for name in testing.__all__)


def test_an_unknown_name_is_an_attribute_error():
    """Misspelt names fail as they do in any module."""
    with pytest.raises(AttributeError, match="no attribute 'KafkaClutser'"):
        _ = testing.KafkaClutser


def test_importing_it_loads_no_client():
    """A pytest plugin may import it: nothing heavy comes along."""
    script = "import sys, kafkaguard.testing; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout.split()
    heavy = {"kafka", "confluent_kafka", "aiokafka", "click", "pydantic", "pyspark"}
    assert not heavy & set(loaded)
    assert "kafkaguard.testing.cluster.cluster" not in loaded
