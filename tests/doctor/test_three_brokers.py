"""The doctor on three brokers: replication, brokers that are down, nothing wrong."""

from __future__ import annotations

import pytest

from kafkaguard.cluster import Severity, diagnose
from kafkaguard.testing import KafkaCluster
from tests.doctor.faults import THREE, examine, execute, one_down


@pytest.fixture(scope="module")
def cluster():
    """Three brokers."""
    with KafkaCluster(brokers=3) as it:
        yield it


STANDING = [fault for fault in THREE if fault.inject is not one_down]
#: What is found of one broker that is down.
DOWN = [fault for fault in THREE if fault.inject is one_down]


@pytest.mark.parametrize("fault", STANDING, ids=lambda fault: fault.name)
def test_fault_of_three_brokers_is_found(fault, cluster):
    """Replication is judged from three brokers on."""
    name = f"three-{THREE.index(fault)}"
    with fault.inject(cluster, name):
        found = examine(fault, cluster, name)
        assert {each.severity for each in found} == {Severity(fault.severity)}
        for command in {each.command for each in found} - {None}:
            execute(command)
            assert examine(fault, cluster, name) == []


def test_broker_that_is_down_is_found_with_all_that_follows(cluster):
    """Each of its partitions has the finding that fits its replicas."""
    with one_down(cluster, "down"):
        for fault in DOWN:
            found = examine(fault, cluster, "down")
            assert {each.severity for each in found} == {Severity(fault.severity)}, (
                fault
            )


def test_healthy_cluster_of_three_has_nothing_wrong(cluster):
    """With a topic as it should be."""
    cluster.create_topic(
        "healthy", 3, replication_factor=3, config={"min.insync.replicas": 2}
    )
    diagnosis = diagnose(
        {"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True},
        topics=["healthy"],
    )
    assert diagnosis.of(Severity.BAD) == diagnosis.of(Severity.RISKY) == ()
