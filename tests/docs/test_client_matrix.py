"""The page on what each producer does has each scenario of the contract, and no other."""

from __future__ import annotations

import re

import pytest

from scripts import generate_client_matrix as matrix


def test_each_scenario_of_the_contract_has_a_row():
    """A new test, or a new sentence of one, needs the page to be made again."""
    page = matrix.PAGE.read_text()
    rows = re.findall(r"^[|-] \*\*(.+?)\*\*: (.*?)(?: \||$)", page, re.MULTILINE)
    told = {matrix._told(test, said) for _, test, said in matrix.scenarios()}
    assert len(rows) == len(told)
    assert all(any(line in each for each in page.splitlines()) for line in told)


def test_the_page_shows_the_results_of_the_last_run():
    """Each scenario was run with each guarded client that has it."""
    assert matrix.PAGE.read_text() == matrix.page(matrix.kept())
    for client in matrix.CLIENTS:
        assert set(matrix.kept()[client, False].values()) == {"✓"}


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        ("✓", "as guarded"),
        ("hangs", "no end"),
        ("raises nothing", "not told"),
        ("`ProducerFenced`", "`ProducerFenced`"),
        ("`AttributeError`", ""),
        ("has no `report`", ""),
        ("differs", ""),
    ],
)
def test_a_bare_column_tells_only_what_its_user_sees(result, shown):
    """That a bare client has no method of a guarded one is no finding."""
    assert matrix.seen(result) == shown
