"""The house itself: what importing costs, what is public, what the wheel holds."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from _pytest.assertion.rewrite import AssertionRewritingHook

import kafkaguard

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("kafka", "confluent_kafka", "aiokafka", "pydantic", "pyspark", "tenacity")


def run(script):
    """Run Python code in a process of its own and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("what", ["kafkaguard", "kafkaguard.errors"])
def test_import_loads_no_client_no_pydantic_no_pyspark(what):
    """The front door is light, and so are the errors."""
    script = f"""
import sys, {what}
print([m for m in {HEAVY!r} if m in sys.modules])
"""
    assert run(script) == "[]"


def test_classifying_a_code_loads_no_client():
    """classify() of a number imports no client library."""
    script = f"""
import sys, kafkaguard
kafkaguard.classify(6, api="Produce")
print([m for m in {HEAVY!r} if m in sys.modules])
"""
    assert run(script) == "[]"


def test_every_room_of_the_core_is_held_by_the_contract():
    """A new private room must be named where import-linter holds the core."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = settings["tool"]["importlinter"]["contracts"]
    held = set(contracts[1]["source_modules"])
    rooms = {
        f"kafkaguard.{path.name}"
        for path in (ROOT / "kafkaguard").glob("_*")
        if path.is_dir() and not path.name.startswith("__")
    }
    assert {"kafkaguard._verdicts", "kafkaguard._delivery"} <= rooms
    assert rooms <= held


def test_no_module_is_named_like_a_lazily_exported_function():
    """A module kafkaguard/retry.py would replace kafkaguard.retry on its second use."""
    modules = {path.stem for path in (ROOT / "kafkaguard").iterdir()}
    functions = {
        each for each in kafkaguard.__all__ if callable(getattr(kafkaguard, each))
    }
    assert not modules & functions


#: ``noqa`` without codes and a reason, and ``type: ignore`` likewise.
UNREASONED = re.compile(
    r"#\s*(?:ruff: )?noqa(?!: [A-Z]+\d+(?:, ?[A-Z]+\d+)* - \S)"
    r"|#\s*type: ignore(?!\[[a-z-]+(?:, ?[a-z-]+)*\]  # \S)"
)


@pytest.mark.parametrize(
    ("line", "is_reasoned"),
    [
        ("x  # noqa: E731 - short", True),
        ("x  # noqa: E731, B018 - short", True),
        ("x  # noqa: E731", False),
        ("x  # noqa", False),
        ("x  # type: ignore[misc]  # untyped", True),
        ("x  # type: ignore[misc]", False),
        ("x  # type: ignore  # untyped", False),
    ],
)
def test_a_reason_is_recognised(line, is_reasoned):
    """The next test rests on this pattern."""
    assert is_reasoned is not bool(UNREASONED.search(line))


def test_every_exemption_from_a_check_has_its_code_and_its_reason():
    """Whoever meets one knows whether it still holds."""
    listed = subprocess.run(
        ["git", "ls-files", "*.py", "*.pyi"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    bare = [
        f"{name}:{number}"
        for name in listed.stdout.split()
        if name != "tests/house/test_house.py"
        for number, line in enumerate((ROOT / name).read_text().splitlines(), 1)
        if UNREASONED.search(line)
    ]
    assert not bare


def test_every_documented_install_is_tried(load_script):
    """Each extra alone, and what README, docs and examples name, is in the table."""
    assert set() == load_script("check_installs").untried()


@pytest.mark.xdist_group("together")
def test_tests_of_a_group_stay_on_one_worker(request):
    """On several workers, each would start a Spark and play the demo."""
    is_grouped = getattr(request.config.option, "loadgroup", False)
    assert request.node.nodeid.endswith("@together") is is_grouped


HELPERS = [
    path
    for path in sorted((ROOT / "tests").rglob("*.py"))
    if not path.name.startswith(("test_", "conftest"))
    and re.search(r"^\s+assert ", path.read_text(), re.MULTILINE)
]


def test_failed_helpers_of_tests_show_the_values_they_compared():
    """Pytest rewrites their assertions, as it does those of the tests themselves."""
    modules = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts) for path in HELPERS
    ]
    assert "tests.contracts.producer" in modules
    bare = [
        module
        for module in modules
        if not isinstance(
            importlib.util.find_spec(module).loader, AssertionRewritingHook
        )
    ]
    assert bare == []
