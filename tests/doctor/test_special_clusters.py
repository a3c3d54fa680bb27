"""The doctor where there are users, TLS, tiered storage, old brokers, two disks."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Producer

from kafkaguard import errors
from kafkaguard._doctor import settings as doctor_settings
from kafkaguard.cli.group import run
from kafkaguard.cluster import Severity, diagnose
from kafkaguard.testing import FaultProxy, KafkaCluster
from tests.doctor.faults import (
    DISKS,
    GUARDED,
    GUARDED_CLUSTER,
    examine,
    execute,
    two_disks,
)


@pytest.fixture(scope="module")
def guarded():
    """A broker with users, TLS and tiered storage."""
    with KafkaCluster(**GUARDED_CLUSTER) as it:
        yield it


@pytest.fixture(scope="module")
def disks(tmp_path_factory):
    """A broker with two disks."""
    with two_disks(tmp_path_factory.mktemp("disks")) as it:
        yield it


@pytest.mark.java
@pytest.mark.parametrize("fault", GUARDED, ids=lambda fault: fault.name)
def test_fault_of_a_guarded_cluster_is_found(fault, guarded):
    """As this user, through this listener."""
    name = f"guarded-{GUARDED.index(fault)}"
    with fault.inject(guarded, name) as more:
        found = examine(fault, guarded, name, more)
        assert {each.severity for each in found} == {Severity(fault.severity)}
        assert all(each.evidence for each in found)


@pytest.mark.java
@pytest.mark.parametrize("listener", ["TLS", "SASL_PLAIN", "SASL_TLS"])
def test_healthy_cluster_with_tls_logins_and_tiered_topics_has_nothing_wrong(
    guarded, listener
):
    """Neither bad nor risky, nor is anything left unjudged."""
    topic = guarded.create_topic(config={"remote.storage.enable": "true"})
    producer = Producer({"bootstrap.servers": guarded.bootstrap_servers})
    producer.produce(topic, b"v", b"k")
    assert producer.flush(30) == 0
    user = None if listener == "TLS" else "alice"
    config = guarded.client_config(listener, client="confluent", user=user)
    diagnosis = diagnose(config | {"enable.idempotence": True}, topics=[topic])
    assert {each.severity for each in diagnosis.findings} == {Severity.FINE}


@pytest.mark.java
@pytest.mark.parametrize("fault", DISKS, ids=lambda fault: fault.name)
def test_fault_of_disks_and_of_unverified_transactions_is_found(
    fault, disks, monkeypatch
):
    """The abort of a transaction that hangs writes its markers."""
    monkeypatch.setattr(doctor_settings, "OLD_S", 0.0)
    name = f"disks-{DISKS.index(fault)}"
    with fault.inject(disks, name) as more:
        found = examine(fault, disks, name, more)
        assert {each.severity for each in found} == {Severity(fault.severity)}
        for command in {each.command for each in found} - {None}:
            execute(command)
            assert examine(fault, disks, name, more) == []


@pytest.mark.parametrize(
    ("listener", "setting", "value"),
    [
        ("SASL_PLAIN", "sasl.password", "wrong"),
        ("TLS", "security.protocol", "plaintext"),
    ],
)
def test_wrong_login_or_protocol_is_an_answer_in_time(
    guarded, listener, setting, value
):
    """Nothing can be looked at: the error says why."""
    user = "alice" if listener == "SASL_PLAIN" else None
    config = guarded.client_config(listener, client="confluent", user=user)
    start = time.monotonic()
    with pytest.raises(errors.KafkaGuardError) as caught:
        diagnose(config | {setting: value}, timeout=10)
    assert time.monotonic() - start < 12
    assert caught.value.verdict.action.name == "CONFIGURE"


def test_port_of_another_service_is_an_answer_in_time(capsys):
    """2, and what was there."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        start = time.monotonic()
        assert run(["doctor", "-b", address, "--timeout", "3"]) == 2
        assert time.monotonic() - start < 5
    assert address in capsys.readouterr().err


def test_cluster_that_dies_in_the_middle_is_an_answer_in_time(kafka_cluster):
    """What was seen before is told; the rest is not judged, or it is why none is."""
    with FaultProxy(kafka_cluster) as proxy:
        proxy.on("DescribeLogDirs").down(60, times=1)
        start = time.monotonic()
        diagnosis = diagnose({"bootstrap.servers": proxy.bootstrap_servers}, timeout=8)
        assert time.monotonic() - start < 10
    assert diagnosis.of(Severity.NOT_JUDGED)
