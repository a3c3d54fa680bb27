"""Fixtures of our own tests; those of users come from the pytest plugin."""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import Phase, settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

    from pyspark.sql import SparkSession

# What a shell starts in the background ignores Ctrl-C, and all that it starts does, too.
signal.signal(signal.SIGINT, signal.default_int_handler)

# No deadline: how long an example takes says more about the machine than about us.
settings.register_profile("quick", max_examples=60, deadline=None)
settings.register_profile("exhaustive", max_examples=3000, deadline=None)
# The same examples for each small wrong change, and no search for the smallest one.
settings.register_profile(
    "mutation",
    settings.get_profile("quick"),
    derandomize=True,
    database=None,
    phases=(Phase.explicit, Phase.generate),
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


@pytest.fixture(scope="session")
def load_script() -> Callable[[str], ModuleType]:
    """Import a script of the folder scripts/ by its name."""

    def load(name: str) -> ModuleType:
        path = Path(__file__).resolve().parents[1] / "scripts" / f"{name}.py"
        spec = importlib.util.spec_from_file_location(name, path)
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One Spark with four attempts at each task; tests share the xdist group spark."""
    from kafkaguard.cli.spark_session import connector, spark_session

    settings = {"spark.jars.packages": connector(), "spark.sql.shuffle.partitions": "2"}
    with spark_session("kafkaguard tests", settings=settings) as session:
        yield session
