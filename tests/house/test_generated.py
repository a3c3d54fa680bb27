"""What is generated is what the scripts would make now."""

from __future__ import annotations

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


@pytest.mark.parametrize("name", ["demo.json", "lag.txt"])
def test_what_pictures_are_drawn_from_is_recorded(load_script, name):
    """The real output is kept beside the pictures."""
    assert (load_script("generate_pictures").RECORDED / name).stat().st_size > 0
