"""``kafkaguard lag`` and ``kafkaguard log-dirs``, as a person or a script calls them."""

from __future__ import annotations

import json
import re

import pytest
from kafka import KafkaProducer

from kafkaguard.cli.group import run
from tests.groups import joining


@pytest.fixture
def group(kafka_cluster, kafka_topic):
    """A group, named as its topic, that has read 1 of 4 records."""
    bootstrap = kafka_cluster.bootstrap_servers
    with KafkaProducer(bootstrap_servers=bootstrap) as producer:
        for _ in range(4):
            producer.send(kafka_topic, b"x")
    with joining(
        kafka_topic,
        bootstrap_servers=bootstrap,
        group_id=kafka_topic,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        consumer_timeout_ms=20_000,
        max_poll_records=1,
    ) as consumer:
        next(consumer)
        consumer.commit()
    return kafka_topic


@pytest.fixture
def call(kafka_cluster, capsys, monkeypatch):
    """Call a command for the cluster; return its exit code and what it printed."""
    monkeypatch.setenv("COLUMNS", "200")

    def call(command, *arguments):
        address = kafka_cluster.bootstrap_servers
        code = run([command, "-b", address, *arguments])
        return code, capsys.readouterr()

    return call


def test_lag_as_a_table(call, group):
    """Group, lag and state; with --partitions each partition and what was asked."""
    code, printed = call("lag", group)
    assert code == 0
    assert re.search(rf"{group}\s+│\s+3", printed.out)
    code, printed = call("lag", group, "--column", "time")
    assert f"{group}-0" in printed.out
    assert "s behind" in printed.out


def test_columns_that_were_asked_for_show_on_a_narrow_terminal(
    call, group, monkeypatch
):
    """They imply a row for each partition, and are lines where the table does not fit."""
    columns = [
        w for c in ("log_start", "last_stable", "facts") for w in ("--column", c)
    ]
    _, printed = call("lag", group, *columns)
    for text in ("log start 0", "last stable 4", "not compacted", "not tiered"):
        assert text in printed.out
    monkeypatch.setenv("COLUMNS", "60")
    _, printed = call("lag", group, *columns)
    shown = " ".join(printed.out.split())
    for text in ("log start 0", "last stable 4", "not compacted", "not tiered"):
        assert text in shown
    assert "…" not in printed.out


def test_lag_as_json_with_limits_for_scripts(call, group):
    """One object; exit code 3 where a group is further behind than allowed."""
    code, printed = call("lag", group, "--json", "--max", "3")
    assert code == 0
    (found,) = json.loads(printed.out)["groups"]
    assert (found["group"], found["total"], found["unknown"]) == (group, 3, 0)
    assert found["partitions"][0]["committed"] == 1
    code, _ = call("lag", group, "--json", "--max", "2")
    assert code == 3


def test_watch_compares_looks(call, group):
    """Each look is a line of JSON; from the second on there is a state."""
    code, printed = call(
        "lag", group, "--json", "--watch", "--looks", "2", "--interval", "0"
    )
    assert code == 0
    first, second = map(json.loads, printed.out.splitlines())
    assert first["groups"][0]["lag_state"] is None
    assert second["groups"][0]["lag_state"] in ("STALLED", "STOPPED")


def test_watch_in_the_terminal(call, group):
    """The table is drawn anew and ends with the last look."""
    code, printed = call("lag", group, "--watch", "--looks", "2", "--interval", "0")
    assert code == 0
    assert group in printed.out


def test_log_dirs_as_a_table_and_as_json(call, group):
    """Disks with sizes; exit code 3 where one is fuller than allowed."""
    code, printed = call("log-dirs", "--topic", group)
    assert code == 0
    assert "data-0" in printed.out
    code, printed = call("log-dirs", "--topic", group, "--json", "--full", "0")
    assert code == 3
    (broker,) = json.loads(printed.out)["brokers"]
    (log_dir,) = broker["dirs"]
    assert log_dir["total_bytes"] > log_dir["usable_bytes"] > 0
    assert [each["topic"] for each in log_dir["replicas"]] == [group]


def test_without_rights_each_broker_says_so(kafka_users, capsys, tmp_path):
    """Exit code 1, what to grant on stderr, and no password anywhere."""
    config = kafka_users.client_config("SASL_PLAIN", client="confluent", user="bob")
    path = tmp_path / "client.properties"
    lines = [f"{name}={value}" for name, value in config.items()]
    path.write_text("\n".join(["# how to come in", "", *lines]))
    assert run(["log-dirs", "--config", str(path)]) == 1
    printed = capsys.readouterr()
    assert "Describe on the resource Cluster" in printed.err
    assert config["sasl.password"] not in printed.out + printed.err


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "no cluster is named"),
        (["-b", "127.0.0.1:1", "--timeout", "5"], "cannot be reached"),
        (["-b", "host:port"], "host:port"),
    ],
)
def test_clusters_that_cannot_be_asked_are_one_line(
    capsys, monkeypatch, arguments, text
):
    """Exit code 2; with --json the problem is JSON, too."""
    monkeypatch.delenv("KAFKAGUARD_BOOTSTRAP_SERVER", raising=False)
    for command in ("lag", "log-dirs"):
        assert run([command, *arguments]) == 2
        assert text in capsys.readouterr().err
        assert run([command, *arguments, "--json"]) == 2
        assert text in json.loads(capsys.readouterr().out)["error"]


def test_settings_file_with_a_broken_line_names_it(capsys, tmp_path):
    """The line's number, and how to write it."""
    path = tmp_path / "client.properties"
    path.write_text("bootstrap.servers=x:1\nnonsense\n")
    assert run(["lag", "--config", str(path)]) == 2
    assert "line 2" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [("GROUP",), ("GROUP", "--topic", "no-topic")])
def test_what_is_not_there_is_null_in_json_and_blank_in_a_table(
    call, kafka_topic, arguments
):
    """No 0 stands for the lag of a group or a topic that there is not."""
    arguments = [each.replace("GROUP", kafka_topic) for each in arguments]
    code, printed = call("lag", *arguments, "--json")
    found = json.loads(printed.out)
    (group,) = found["groups"]
    assert code == 1
    assert f"there is no group {kafka_topic}" in found["remarks"][0]
    assert (group["total"], group["state"]) == (None, "unknown")
    partitions = [(each["lag"], each["reason"]) for each in group["partitions"]]
    if "--topic" in arguments:
        assert (partitions, group["reason"]) == ([(None, "gone")], None)
    else:
        assert (partitions, group["reason"]) == ([], "no group")
    _, printed = call("lag", *arguments)
    assert re.search(rf"{kafka_topic}\s+│\s+│ unknown\s+│", printed.out)


def test_topic_that_is_not_there_is_a_remark_of_log_dirs_in_json(call):
    """log-dirs --json has a remark for a topic that does not exist."""
    code, printed = call("log-dirs", "--topic", "no-topic", "--json")
    (remark,) = json.loads(printed.out)["remarks"]
    assert code == 1
    assert "topic no-topic: there is none" in remark
