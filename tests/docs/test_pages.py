"""The pages hang together: each can be reached, links lead somewhere, none is an end."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kafkaguard import errors

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(page for page in DOCS.glob("*.md") if page.name != "index.md")
RECIPES = sorted((DOCS / "recipes").glob("*.md"))
TEXTS = [
    *PAGES,
    *RECIPES,
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    ROOT / "examples/README.md",
]
FENCE = re.compile(r"^(`{3,}|:{3,}).*?^\1", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
LABEL = re.compile(r"^\(([\w-]+)\)=$", re.MULTILINE)


def _prose(page):
    return FENCE.sub("", page.read_text())


def _anchors(page):
    """Return what can stand behind ``#``: headings as GitHub spells them, and labels."""
    text = _prose(page)
    headings = (re.sub(r"[^\w\- ]", "", found) for found in HEADING.findall(text))
    return {each.lower().replace(" ", "-") for each in headings} | set(
        LABEL.findall(text)
    )


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: page.name)
def test_local_links_lead_to_a_file_and_a_heading(page):
    """Each link that is no address names a file that is there, and a heading in it."""
    broken = []
    for link in LINK.findall(_prose(page)):
        path, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", link):
            continue
        target = (page.parent / path).resolve() if path else page
        found = target.exists() and (not anchor or anchor in _anchors(target))
        broken += [] if found else [link]
    assert broken == []


def test_tests_that_a_page_names_are_there():
    """Each test in backticks is a function of the tests, or a file of them."""
    named = re.findall(r"`(test_\w+)`", (DOCS / "reliability.md").read_text())
    code = "".join(each.read_text() for each in ROOT.glob("tests/**/test_*.py"))
    code += "".join(each.read_text() for each in ROOT.glob("tests/contracts/*.py"))
    assert named
    assert [each for each in named if f"def {each}(" not in code] == []


def test_every_page_is_in_a_part_of_the_site():
    """The front page names each page once, under one of the four captions."""
    index = (DOCS / "index.md").read_text()
    parts = re.findall(r"^```\{toctree\}\n(.*?)^```", index, re.MULTILINE | re.DOTALL)
    named = re.findall(r"^(?!:)(\S+)$", "\n".join(parts), re.MULTILINE)
    assert re.findall(r"^:caption: (.*)$", index, re.MULTILINE) == [
        "Get started",
        "How-to",
        "Reference",
        "Understand",
    ]
    assert sorted(page.stem for page in PAGES) == sorted(named)


@pytest.mark.parametrize("page", [*PAGES, *RECIPES], ids=lambda page: page.stem)
def test_page_ends_with_a_next_step(page):
    """The last section is the same on every page, and it leads to another page."""
    *_, last = re.split(r"^## ", page.read_text(), flags=re.MULTILINE)
    assert last.startswith("Next step\n")
    assert LINK.search(last)


@pytest.mark.parametrize("page", [*PAGES, *RECIPES], ids=lambda page: page.stem)
def test_a_class_of_errors_has_its_full_name(page):
    """In prose a reader sees where to import it from; a client's class is no such."""
    if page.stem not in ("producer_contract", "design"):
        named = re.findall(r"`(?:errors\.)?([A-Z]\w+)`", _prose(page))
        assert sorted(set(named) & set(errors.__all__)) == []
