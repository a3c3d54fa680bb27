"""What is generated is what the scripts would make now."""

from __future__ import annotations

import re

import pytest


def test_every_public_name_is_written_down(load_script):
    """A change of a public name or signature shows as a diff of ``public_api.txt``."""
    script = load_script("generate_public_api")
    assert script.PATH.read_text() == script.listed(), "run `make generate`"


def test_pictures_show_what_the_code_does(load_script):
    """Each picture is drawn from the code of now, and none fetches anything."""
    script = load_script("generate_pictures")
    for name, drawn in script.pictures().items():
        assert drawn == (script.IMAGES / name).read_text(), f"{name}: `make generate`"
        assert "url(http" not in drawn, name
        assert len(drawn) < 40_000, name


def test_what_is_recorded_is_not_older_than_the_release_before_this_one(load_script):
    """A picture shows its version, and `make pictures` makes it anew for a release."""
    script = load_script("generate_pictures")
    changelog = (script.ROOT / "CHANGELOG.md").read_text()
    versions = re.findall(r"^## (\d+\.\d+\.\d+)", changelog, re.MULTILINE)
    assert script.made()["version"] in versions[:2], "run `make pictures`"
    assert script.made()["date"] in (script.IMAGES / "demo.svg").read_text()


@pytest.mark.parametrize("name", ["demo.json", "lag.txt", "made.json"])
def test_what_pictures_are_drawn_from_is_recorded(load_script, name):
    """The real output is kept beside the pictures."""
    assert (load_script("generate_pictures").RECORDED / name).stat().st_size > 0
