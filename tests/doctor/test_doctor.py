"""The doctor on a real cluster: injected faults are found, a healthy one is fine."""

from __future__ import annotations

import pytest

from kafkaguard._doctor import settings as doctor_settings
from kafkaguard.cli.group import run
from kafkaguard.cluster import Severity, diagnose
from tests.doctor.faults import FAULTS, examine, execute


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    """An open transaction counts as old at once."""
    monkeypatch.setattr(doctor_settings, "OLD_S", 0.0)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_injected_fault_is_found_and_its_command_removes_it(
    fault, kafka_cluster, request
):
    """With its place and evidence; advice that is no command is in words."""
    name = f"doctor-{FAULTS.index(fault)}"
    with fault.inject(kafka_cluster, name):
        found = examine(fault, kafka_cluster, name)
        assert {each.severity for each in found} == {Severity(fault.severity)}
        assert all(each.evidence for each in found)
        if fault.severity != "not judged":
            assert all(each.leads_to and each.advice for each in found)
        commands = {each.command for each in found} - {None}
        assert bool(commands) is fault.remedied
        for command in commands:
            execute(command)
        if commands:
            assert examine(fault, kafka_cluster, name) == []


def test_healthy_topic_and_group_have_nothing_wrong(kafka_cluster, kafka_topic):
    """All areas are fine, and nothing is bad or risky."""
    config = {
        "bootstrap.servers": kafka_cluster.bootstrap_servers,
        "enable.idempotence": True,
    }
    diagnosis = diagnose(config, topics=[kafka_topic])
    assert diagnosis.of(Severity.BAD) == diagnosis.of(Severity.RISKY) == ()
    assert {each.check for each in diagnosis.of(Severity.FINE)} == {
        *("reach", "topics", "groups", "transactions", "rights", "settings", "disks")
    }


def test_only_some_areas_are_looked_at(kafka_cluster):
    """The others cost nothing."""
    config = {"bootstrap.servers": kafka_cluster.bootstrap_servers}
    diagnosis = diagnose(config, only=["reach"])
    assert [each.check for each in diagnosis.findings] == ["reach"]


def test_user_without_rights_gets_what_is_not_judged(kafka_users):
    """Nothing fails; the missing operation is named."""
    kafka_users.create_topic("secret")
    config = kafka_users.client_config("SASL_PLAIN", user="bob", client="confluent")
    diagnosis = diagnose(config)
    assert diagnosis.of(Severity.BAD) == ()
    said = " ".join(each.evidence for each in diagnosis.of(Severity.NOT_JUDGED))
    assert "Describe" in said


def test_command_prints_findings_and_exits_by_the_worst(
    kafka_cluster, kafka_topic, capsys
):
    """0 fine, 1 risky, 2 no cluster, 3 bad."""
    server = ["-b", kafka_cluster.bootstrap_servers, "--topic", kafka_topic]
    only = ["--only", "topics"]
    assert run(["doctor", *server, *only]) == 0
    assert "fine: topics" in capsys.readouterr().out
    kafka_cluster.alter_topic(kafka_topic, {"unclean.leader.election.enable": "true"})
    assert run(["doctor", *server, *only]) == 1
    printed = capsys.readouterr().out
    assert f"risky: topic {kafka_topic}" in printed
    assert "$ python -m kafka.admin" in printed
    assert run(["doctor", *server, *only, "--topic", "no-such"]) == 3
    assert run(["doctor", "-b", "127.0.0.1:1", "--timeout", "3"]) == 2
    assert "cannot be reached" in capsys.readouterr().err
