"""The verdict explorer decides as ``classify`` does, and keeps a choice."""

from __future__ import annotations

import pytest

from kafkaguard._verdicts.signals import signal_of
from kafkaguard.cli.lookup import find_error

DECIDE = """questions => questions.map(([key, context]) =>
    explorer.decide(explorer.errorOf(key), context).id)"""
READ = """texts => texts.map((text) => explorer.read(text)?.error)
    .map((error) => error?.code ?? error?.classes[0])"""


@pytest.fixture
def explorer(page, site):
    """Open the explorer with a choice."""

    def open_with(choice=""):
        page.goto(f"{site}/explorer.html{choice}")
        return page

    return open_with


def _context(script, api, context):
    """Return a context in the words of the script."""
    said, *known = context.split(" + ")
    told = {"api": api, "flag": None if said == "answer" else said}
    for word in known:
        for name, value in script.KNOWN[word].items():
            facts = (
                {"compacted": value.compacted, "tiered": value.tiered}
                if name == "facts"
                else {name: value}
            )
            told |= facts
    return told


def _key(subject, context):
    """Return a code, or the name of a class: of what was wrapped, if anything was."""
    if context == "wrapped":
        key = signal_of(subject.said_in(context)).key
    else:
        key = subject.error_class if subject.code is None else subject.code
    return key if isinstance(key, int) else key.__name__


def test_it_decides_as_classify_does(explorer, load_script):
    """For each error and request, in each context of the table of all verdicts."""
    script = load_script("generate_verdicts")
    questions, rules = [], []
    for subject in script.subjects():
        for apis in script.not_told_apart(subject):
            for context in script.CONTEXTS:
                verdict = script.verdict(subject, apis[0], context)
                if verdict is not None:
                    key = _key(subject, context)
                    questions.append((key, _context(script, apis[0], context)))
                    rules.append(verdict.rule.id)
    assert len(questions) > 10_000
    decided = explorer().evaluate(DECIDE, questions)
    wrong = [
        (question, rule, other)
        for question, rule, other in zip(questions, rules, decided, strict=True)
        if rule != other
    ]
    assert wrong == []


@pytest.mark.parametrize(
    "text",
    [
        *("87", "-195", "999", "invalid_record", "CLIENT_TIMEOUT"),
        "kafka.errors.NotLeaderForPartitionError: [Error 6] NotLeaderForPartitionError",
        'KafkaError{code=_MSG_TIMED_OUT,val=-192,str="Local: Message timed out"}',
        "Broker: Not enough in-sync replicas",
        "aiokafka.errors.UnknownTopicOrPartitionError",
        "org.apache.kafka.common.errors.RecordTooLargeException: The request is larger",
    ],
)
def test_it_reads_what_explain_reads(explorer, text):
    """The same error in a number, a name and a text of each client."""
    key = find_error(text).key
    [read] = explorer().evaluate(READ, [text])
    assert read == (key if isinstance(key, int) else key.__name__)


def test_a_choice_shows_the_next_step_and_is_kept_in_the_address(explorer):
    """Whoever opens the address sees the same."""
    page = explorer()
    page.fill("textarea", "INVALID_RECORD")
    page.select_option("select[name=api]", "Produce")
    page.select_option("select[name=client]", "aiokafka")
    page.check("text=the record has no key")
    page.check("text=the topic is compacted")
    shown = page.inner_text("output")
    for words in ("REJECT", "Written", "null-key-on-compacted-topic", "aiokafka"):
        assert words in shown
    assert "confluent-kafka" not in shown
    again = explorer(page.url[page.url.index("?") :])
    assert again.inner_text("output") == shown
    assert again.is_checked("text=the record has no key")


def test_two_boxes_about_one_fact_exclude_each_other(explorer):
    """A record has a key or has none."""
    page = explorer()
    page.check("text=the record has no key")
    page.check("text=the record has a key")
    assert not page.is_checked("text=the record has no key")


def test_what_would_change_the_verdict_is_one_click_away(explorer):
    """A line of "It depends" ticks its box."""
    page = explorer("?error=87&api=Produce")
    page.click("output button:has-text('the record has a key')")
    assert page.is_checked("text=the record has a key")
    assert "batch-mate-refused" in page.inner_text("output")


def test_a_text_is_shown_as_text(explorer):
    """A pasted text is no part of the page, and one without an error says so."""
    page = explorer("?error=%3Cimg+src%3Dx+onerror%3Dalert(1)%3E")
    assert "No Kafka error found" in page.inner_text("output")
    assert page.query_selector("output img") is None


def test_without_javascript_the_table_of_codes_is_there(browser, site):
    """And the form, which could do nothing, is not."""
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(f"{site}/explorer.html")
        assert not page.is_visible("#explorer")
        assert page.is_visible("td:has-text('INVALID_RECORD')")


@pytest.mark.parametrize("width", [1280, 390])
def test_it_fits_the_screen(browser, site, width):
    """The page is as wide as the screen, with a choice and its tables."""
    with browser.new_context(viewport={"width": width, "height": 800}) as context:
        page = context.new_page()
        page.goto(f"{site}/explorer.html?error=87&api=Produce")
        assert page.evaluate("document.documentElement.scrollWidth") == width
