"""The site's own search, in a browser: what people type finds the page for it first."""

from __future__ import annotations

from urllib.parse import quote

import pytest

FIRST = "#search-results li:first-child a"


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("guard", "api"),
        ("retry", "policies"),
        ("poison", "recipes/poison_record"),
        ("dead letter", "policies"),
        ("lag", "cluster"),
        ("exactly once", "exactly_once"),
        ("verdict", "explorer"),
    ],
)
def test_a_query_finds_its_page_first(page, site, query, first):
    """The first result leads to the page."""
    page.goto(f"{site}/search.html?q={quote(query)}")
    page.wait_for_selector(FIRST)
    page.wait_for_function(
        "!/Searching/.test(document.getElementById('search-results').innerText)"
    )
    link = page.get_attribute(FIRST, "href")
    assert link.partition("#")[0].partition("?")[0] == f"{first}.html"


def test_the_name_of_the_package_is_no_match(page, site):
    """A name of the API is found by its last part: "guard" does not find all names."""
    page.goto(f"{site}/search.html?q=guard")
    page.wait_for_selector("#search-results li.kind-object")
    names = page.locator("#search-results li.kind-object a").all_inner_texts()
    assert [n for n in names if "guard" not in n.rpartition(".")[2].lower()] == []
