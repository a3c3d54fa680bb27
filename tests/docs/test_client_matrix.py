"""The page on what each producer does has each scenario of the contract, and no other."""

from __future__ import annotations

import re

from scripts import generate_client_matrix as matrix


def test_each_scenario_of_the_contract_has_a_row():
    """A new test, or a new sentence of one, needs the page to be made again."""
    rows = re.findall(
        r"^\| \*\*(.+?)\*\*: (.*?) \|", matrix.PAGE.read_text(), re.MULTILINE
    )
    told = [(matrix.words(test), said) for _, test, said in matrix.scenarios()]
    assert [(name, said.replace("|", "/")) for name, said in told] == rows


def test_each_guarded_client_keeps_the_contract():
    """Its columns say so, or that the client has no such thing."""
    lines = matrix.PAGE.read_text().splitlines()
    rows = [line.split(" | ") for line in lines if line.startswith("| **")]
    assert len(rows) > 50
    for row in rows:
        assert {cell.strip() for cell in row[1::2][:3]} <= {"✓", "—"}, row[0]
