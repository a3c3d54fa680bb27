"""Words that do not fit are refused where they are written, and name the argument."""

from __future__ import annotations

import socket

import pytest

from kafkaguard.cli.group import run
from kafkaguard.testing import FaultProxy
from kafkaguard.testing.proxy.language import FaultSpecError
from kafkaguard.testing.proxy.script import read_faults


@pytest.mark.parametrize(
    ("name", "set_fault"),
    [
        ("seconds", lambda when: when.delay("x")),
        ("seconds", lambda when: when.throttle(None)),
        ("seconds", lambda when: when.down(float("inf"))),
        ("times", lambda when: when.fail(6, times="3")),
        ("max_version", lambda when: when.cap("2")),
        ("keep", lambda when: when.cut(keep="half")),
    ],
)
def test_number_that_is_none_is_refused(name, set_fault):
    """With the name of the argument, and before anything happens."""
    proxy = FaultProxy("127.0.0.1:1")
    with pytest.raises(FaultSpecError, match=name):
        set_fault(proxy.on("Produce"))
    assert not proxy.faults


@pytest.mark.parametrize("words", [{"rate": "0.5"}, {"nth": 1.5}, {"skip": "all"}])
def test_choice_that_is_none_is_refused(words):
    """A wrong value in on() raises FaultSpecError."""
    with pytest.raises(FaultSpecError, match=next(iter(words))):
        FaultProxy("127.0.0.1:1").on("Produce", **words)


def test_command_says_that_no_broker_is_there(capsys):
    """The proxy does not start if no broker accepts a connection."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    assert run(["proxy", "--bootstrap-server", f"127.0.0.1:{port}", "--for", "1"]) == 2
    assert f"127.0.0.1:{port}" in capsys.readouterr().err


def test_each_wrong_fault_of_a_file_is_named(tmp_path):
    """With its line, in one error."""
    file = tmp_path / "faults.yaml"
    file.write_text(
        "faults:\n"
        "  - {on: Produse, fail: 6}\n"
        "  - {on: Fetch, fail: 6}\n"
        "  - {on: Fetch, fale: 6}\n"
    )
    with pytest.raises(FaultSpecError) as caught:
        read_faults(file)
    first, second = str(caught.value).splitlines()
    assert first.startswith(f"{file}:2: unknown API 'Produse'")
    assert second.startswith(f"{file}:4: unknown word 'fale'")
