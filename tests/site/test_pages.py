"""What a reader sees of the pages: contents beside them, copy buttons, no overflow."""

from __future__ import annotations

import pytest


def test_contents_stand_beside_a_page_of_1280_pixels(browser, site):
    """On a phone they are behind a button."""
    for width, visible in ((1280, True), (390, False)):
        with browser.new_context(viewport={"width": width, "height": 800}) as context:
            page = context.new_page()
            page.goto(f"{site}/producer.html")
            right = page.locator(".toc-drawer").bounding_box()["x"]
            assert (right < width) is visible


def test_a_prompt_is_not_copied(browser, site):
    """The button of a console block copies its commands."""
    with browser.new_context() as context:
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        page = context.new_page()
        page.goto(f"{site}/index.html")
        page.hover(".highlight-console pre")
        page.click(".highlight-console button.copybtn")
        copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == "pip install 'kafkaguard[cli,confluent]'"


@pytest.mark.parametrize("width", [1280, 390])
def test_no_page_is_wider_than_the_screen(browser, site, width):
    """Wide tables scroll by themselves."""
    with browser.new_context(viewport={"width": width, "height": 800}) as context:
        page = context.new_page()
        page.goto(f"{site}/index.html")
        links = page.eval_on_selector_all(
            ".sidebar-tree a.internal", "links => links.map((a) => a.href)"
        )
        wide = []
        for link in links:
            page.goto(link, wait_until="domcontentloaded")
            if page.evaluate("document.documentElement.scrollWidth") > width:
                wide.append(link)
    assert len(links) > 20
    assert wide == []
