"""Sphinx settings."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import kafkaguard
from kafkaguard import __version__

# A class shows its public module as soon as that has loaded it.
for _name in kafkaguard.__all__:
    _module = getattr(kafkaguard, _name)
    for _each in getattr(_module, "__all__", ()):
        getattr(_module, _each)

project = "kafkaguard"
author = "the kafkaguard maintainers"
copyright = "the kafkaguard maintainers, Apache-2.0"  # noqa: A001 - Sphinx's name
release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_click",
    "sphinx_copybutton",
    "sphinx_design",
    "explorer",
    "figures",
    "no_release",
    "record_life",
    "search_words",
    "state_pictures",
    "reference",
    "rights",
    "tables",
    "atlas_tables",
]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented_params"
exclude_patterns = ["_build"]
html_static_path = ["_static"]
html_theme = "furo"
html_title = f"kafkaguard {__version__}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["search.js"]
# A prompt is not copied.
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True
