"""The built site in a real browser: ``make site`` builds it and runs these tests."""

from __future__ import annotations

import shutil
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

SITE = Path(__file__).resolve().parents[2] / "docs/_build/html"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        """Print nothing."""


@pytest.fixture(scope="session")
def site():
    """The address of the built site."""
    assert (SITE / "index.html").exists(), "build it with `make docs`"
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=SITE))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="session")
def browser():
    """A Chromium without a window."""
    programs = [path for name in BROWSERS if (path := shutil.which(name))]
    assert programs, f"no browser: install one of {', '.join(BROWSERS)}"
    with sync_playwright() as playwright:
        arguments = {"executable_path": programs[0], "args": ["--no-sandbox"]}
        running = playwright.chromium.launch(**arguments)
        yield running
        running.close()


@pytest.fixture
def page(browser):
    """An empty page; an error of a script fails the test."""
    with browser.new_context() as context:
        errors = []
        opened = context.new_page()
        opened.on("pageerror", lambda error: errors.append(error))  # noqa: PLW0108 - playwright takes no method of a list
        yield opened
        assert errors == []
