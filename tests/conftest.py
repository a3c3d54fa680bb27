"""Fixtures of our own tests; those of users come from the pytest plugin."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

# What a shell starts in the background ignores Ctrl-C, and all that it starts does, too.
signal.signal(signal.SIGINT, signal.default_int_handler)

# No deadline: how long an example takes says more about the machine than about us.
settings.register_profile("quick", max_examples=60, deadline=None)
settings.register_profile("exhaustive", max_examples=3000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One Spark with four attempts at each task; tests share the xdist group spark."""
    from kafkaguard.cli.spark_session import connector, spark_session

    settings = {"spark.jars.packages": connector(), "spark.sql.shuffle.partitions": "2"}
    with spark_session("kafkaguard tests", settings=settings) as session:
        yield session
