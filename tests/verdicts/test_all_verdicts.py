"""The table of all verdicts: a changed rule shows as changed lines of it."""

from __future__ import annotations

import difflib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaguard._verdicts import classification
from kafkaguard._verdicts.rules import RULES


@pytest.fixture(scope="module")
def generator(load_script):
    """The generator, imported from its script."""
    return load_script("generate_verdicts")


@pytest.fixture(autouse=True)
def _memo_of_its_own(monkeypatch):
    """The table asks for more than others should find remembered."""
    monkeypatch.setattr(classification, "_MEMO", {})


def test_no_verdict_has_changed_unnoticed(generator):
    """If a change is meant, `make generate` writes it; its diff shows all of it."""
    written, drawn = generator.PATH.read_text(), generator.page()
    changed = difflib.unified_diff(
        written.splitlines(), drawn.splitlines(), "checked in", "now", n=4, lineterm=""
    )
    assert written == drawn, "\n".join(["run `make generate`", *changed])


def test_every_rule_and_every_fact_has_its_place_in_it(generator):
    """A new rule that no context reaches, or a new phase, needs a new context."""
    drawn = generator.PATH.read_text()
    missing = [rule.info.id for rule in RULES if f"| {rule.info.id}" not in drawn]
    assert missing == []
    used = {word for context in generator.CONTEXTS for word in context.split(" + ")}
    assert {*generator.SAID, *generator.KNOWN} == used


def test_requests_that_share_a_line_are_judged_alike(generator):
    """The table asks for one of the requests that no rule names."""
    subjects = st.sampled_from(generator.subjects())
    apis = st.sampled_from(generator.APIS)
    contexts = st.sampled_from(generator.CONTEXTS)

    @given(subjects, apis, contexts)
    def check(subject, api, context):
        answer = generator.verdict(subject, api, context)
        drawn = generator.decisions(subject)[api].get(context)
        assert drawn == (answer and generator.in_words(subject, answer))

    check()
