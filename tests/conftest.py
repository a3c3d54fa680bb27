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

from kafkaguard.testing.cluster import java
from tests import leaks, quick_spark

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from types import ModuleType

    from pyspark.sql import SparkSession

# A helper that fails shows the values that it compared, as a test does.
pytest.register_assert_rewrite(
    "tests.groups",
    *(
        f"tests.{path.name}"
        for path in Path(__file__).parent.iterdir()
        if path.is_dir()
    ),
)

# What a shell starts in the background ignores Ctrl-C, and all that it starts does, too.
signal.signal(signal.SIGINT, signal.default_int_handler)

# No deadline: how long an example takes says more about the machine than about us.
settings.register_profile("quick", max_examples=15, deadline=None)
settings.register_profile("full", max_examples=60, deadline=None)
settings.register_profile("exhaustive", max_examples=3000, deadline=None)
# The same examples for each small wrong change, and no search for the smallest one.
settings.register_profile(
    "mutation",
    settings.get_profile("full"),
    derandomize=True,
    database=None,
    phases=(Phase.explicit, Phase.generate),
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "full"))


#: Whoever asks for one of these needs Java. Tests that start brokers or Spark by
#: themselves say so with ``pytest.mark.java``.
NEED_JAVA = frozenset(
    {"kafka_cluster", "kafka_topic", "kafka_faults", "kafka_users", "spark"}
)

_OPEN = pytest.StashKey[leaks.Open]()
#: The folders whose tests must close what they open; ``--leaks`` checks all. Spark keeps
#: clients for its next tasks, and threads of its own.
_CLOSING = ("adapters", "consuming", "wire")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option of ``make quick``."""
    parser.addoption(
        "--no-java",
        action="store_true",
        help="run the tests that need neither Java nor Spark, with no Java in reach",
    )
    parser.addoption(
        "--browser",
        action="store_true",
        help="also run tests/site, which need a Chromium and the built site",
    )
    parser.addoption(
        "--leaks",
        action="store_true",
        help="fail each test that leaves a socket, a thread or a client open, not only "
        f"those of {', '.join(_CLOSING)}",
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave the tests of the built site to ``make site``, which installs a browser."""
    is_site = collection_path == Path(__file__).parent / "site"
    return True if is_site and not config.getoption("--browser") else None


def pytest_configure(config: pytest.Config) -> None:
    """Take Java away, so that a test that needs it and does not say so fails.

    Where Java stays, a Spark of a test is one that starts fast.
    """
    config.addinivalue_line("markers", "java: needs Java: a broker, a jar or Spark")
    config.addinivalue_line("markers", "types: runs type checkers, for half a minute")
    if config.getoption("--no-java"):
        os.environ["JAVA_HOME"] = "/no/java/with/--no-java"
        java._candidates = lambda: iter(())
    else:
        quick_spark.set_up()


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Mark what needs Java by its fixtures; leave it out where that is asked for."""
    for item in items:
        if NEED_JAVA & set(getattr(item, "fixturenames", ())):
            item.add_marker("java")
    if config.getoption("--no-java"):
        needs = [item for item in items if item.get_closest_marker("java")]
        config.hook.pytest_deselected(items=needs)
        items[:] = [item for item in items if not item.get_closest_marker("java")]


def pytest_exception_interact(call: pytest.CallInfo[None]) -> None:
    """Keep later tests from reading the answer that an interrupted test did not read."""
    if not isinstance(call.excinfo.value, Exception):
        quick_spark.leave_connection()


@pytest.fixture(autouse=True)
def open_before(request: pytest.FixtureRequest) -> None:
    """Look what is open before a test, beside what outlives it."""
    folder = request.path.relative_to(Path(__file__).parent).parts[0]
    if folder in _CLOSING or request.config.getoption("--leaks"):
        request.node.stash[_OPEN] = leaks.look()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, bool, bool]:
    """Fail a test that leaves a socket, a thread or a client of librdkafka open.

    That can be told only when pytest holds neither its fixtures nor its log any more.
    It holds all that a failed test has used.
    """
    failed = item.session.testsfailed
    done = yield
    before = item.stash.get(_OPEN, None)
    if before is not None and item.session.testsfailed == failed:
        call = pytest.CallInfo.from_call(lambda: leaks.check(before), "teardown")
        if call.excinfo is not None:
            report = pytest.TestReport.from_item_and_call(item, call)
            item.ihook.pytest_runtest_logreport(report=report)
    return done


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
def spark_archive() -> None:
    """Have Java start fast in tests that start a Spark of their own."""
    quick_spark.use_archive()


@pytest.fixture(scope="session")
def spark(spark_archive: None) -> Iterator[SparkSession]:
    """One Spark with four attempts at each task; tests share the xdist group spark."""
    from kafkaguard.cli.spark_session import connector, spark_session

    # Not every version of PySpark has a connector of its own.
    packages = os.environ.get("SPARK_CONNECTOR", connector())
    settings = {"spark.jars.packages": packages, "spark.sql.shuffle.partitions": "2"}
    with spark_session("kafkaguard tests", settings=settings) as session:
        yield session
