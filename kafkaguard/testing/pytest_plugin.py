"""pytest fixtures: a real broker, a topic, users, and faults.

pytest loads this plugin automatically if kafkaguard is installed. Kafka modules are
imported, and brokers started, only when a test requests a fixture.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import pytest

from kafkaguard._common.closest import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from kafkaguard.testing import FaultProxy, KafkaCluster

_TOPIC_MARK = (
    "kafka_topic(partitions=1, replication_factor=None, config=None): "
    "how the topic of the fixture kafka_topic is made"
)

_TOPIC_OPTIONS = frozenset({"partitions", "replication_factor", "config"})
_SHOWN_LINES = 50


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", _TOPIC_MARK)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the proxy's journal to the report of a failed test that uses faults."""
    report = yield
    faults = getattr(item, "funcargs", {}).get("kafka_faults")
    if faults is not None and report.when == "call" and report.failed:
        lines = str(faults.journal).splitlines()[-_SHOWN_LINES:]
        report.sections.append(("Kafka conversation", "\n".join(lines)))
    return report


@pytest.fixture(scope="session")
def kafka_options() -> dict[str, Any]:
    """Arguments of :class:`~kafkaguard.testing.KafkaCluster`; you can override this."""
    return {}


@pytest.fixture(scope="session")
def kafka_cluster(kafka_options: dict[str, Any]) -> Iterator[KafkaCluster]:
    """A real broker for the whole test run, or one for each parallel worker."""
    from kafkaguard.testing import KafkaCluster

    with KafkaCluster(**kafka_options) as cluster:
        yield cluster


@pytest.fixture
def kafka_topic(kafka_cluster: KafkaCluster, request: pytest.FixtureRequest) -> str:
    """An empty topic that no other test uses, with the settings of the marker."""
    marker = request.node.get_closest_marker("kafka_topic")
    return kafka_cluster.create_topic(**(_options(marker) if marker else {}))


def _options(marker: pytest.Mark) -> dict[str, Any]:
    """Read the marker's arguments; an error names the wrong one and its place."""
    unknown = sorted(set(marker.kwargs) - _TOPIC_OPTIONS)
    if marker.args or unknown:
        names = ", ".join([*map(repr, marker.args), *unknown])
        hint = did_you_mean(unknown[0], _TOPIC_OPTIONS) if unknown else ""
        raise pytest.UsageError(
            f"@pytest.mark.kafka_topic takes {', '.join(sorted(_TOPIC_OPTIONS))} by "
            f"name, not {names}{hint}"
        )
    return dict(marker.kwargs)


@pytest.fixture
def kafka_faults(kafka_cluster: KafkaCluster) -> Iterator[FaultProxy]:
    """A :class:`~kafkaguard.testing.FaultProxy` in front of the broker, without faults.

    If the test fails, the report shows the proxy's journal.
    """
    from kafkaguard.testing import FaultProxy

    with FaultProxy(kafka_cluster) as proxy:
        yield proxy


@pytest.fixture(scope="session")
def kafka_users() -> Iterator[KafkaCluster]:
    """A broker of its own with users: ``alice`` may do everything, ``bob`` nothing.

    ``kafka_users.client_config("SASL_PLAIN", user="bob")`` has a client's settings.
    """
    from kafkaguard.testing import KafkaCluster

    passwords = {name: secrets.token_urlsafe() for name in ("alice", "bob")}
    with KafkaCluster(users=passwords, super_users=["alice"]) as cluster:
        yield cluster
