"""Each recipe is a page of one screen, and its program does what the page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs/recipes").glob("*.md"))
PROGRAMS = ROOT / "examples/recipes"
TOPICS = (
    "orders",
    "orders.dlq",
    "clicks",
    "invoices",
    "shipments",
    "shipments.dlq",
    "payments-once",
    "payments.dlq",
    "ledger",
)
SAID = re.compile(r"^```text\n(.*?)^```", re.MULTILINE | re.DOTALL)
INCLUDED = re.compile(r"^```\{literalinclude\} (.*)$", re.MULTILINE)


@pytest.fixture(scope="module")
def environment(kafka_cluster):
    """The topics of the recipes, and the address of their broker."""
    for topic in TOPICS:
        kafka_cluster.create_topic(topic)
    kafka_cluster.create_topic("reports", partitions=4)
    kafka_cluster.create_topic("payments", config={"cleanup.policy": "compact"})
    return {"KAFKA": kafka_cluster.bootstrap_servers}


def _run(name, tmp_path, environment):
    """Run a program; return what it prints, and its page says that it prints."""
    done = subprocess.run(
        [sys.executable, PROGRAMS / f"{name}.py"],
        cwd=tmp_path,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=380,
    )
    assert done.returncode == 0, done.stderr
    assert "StackingWarning" not in done.stderr
    told = SAID.search((ROOT / f"docs/recipes/{name}.md").read_text())
    for line in told[1].splitlines() if told else ():
        assert line.removesuffix("...") in done.stdout
    return done.stdout


@pytest.mark.java
@pytest.mark.xdist_group("recipes")
@pytest.mark.parametrize(
    "name", sorted({p.stem for p in PROGRAMS.glob("*.py")} - {"wrong_password"})
)
def test_a_recipe_does_what_its_page_says(name, tmp_path, environment):
    """The program ends well, warns of nothing, and prints what the page shows."""
    assert _run(name, tmp_path, environment)


@pytest.mark.xdist_group("recipes")
def test_a_wrong_password_is_told_apart(tmp_path, kafka_users):
    """It needs a broker with users."""
    address = kafka_users.client_config("SASL_PLAIN", user="alice")["bootstrap_servers"]
    assert _run("wrong_password", tmp_path, {"KAFKA_SASL": address})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_recipe_is_one_screen_with_one_program(page):
    """The program is a tested one, and page and program together are short."""
    [program] = INCLUDED.findall(page.read_text())
    lines = (page.parent / program).read_text().splitlines()
    assert len(page.read_text().splitlines()) < 40
    assert len(lines) < 60 or page.stem == "faults_in_ci"
