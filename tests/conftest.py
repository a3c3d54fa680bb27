"""Fixtures of our own tests; those of users come from the pytest plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One Spark with four attempts at each task; tests share the xdist group spark."""
    from kafkaguard.cli._session import connector, spark_session

    settings = {"spark.jars.packages": connector(), "spark.sql.shuffle.partitions": "2"}
    with spark_session("kafkaguard tests", settings=settings) as session:
        yield session
