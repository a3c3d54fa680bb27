"""A policy file written from the documentation alone, and mistakes made in it.

Each message must be enough to mend the file: the test reads nothing else.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kafkaguard import load_policy, retry
from kafkaguard.errors import PolicyError
from kafkaguard.policies import check_stacking
from kafkaguard_adapters.policy_uses import USES, unused_settings
from kafkaguard_policies.reading.sources import presets

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "policies.md").read_text()
ON_PAGE = re.search(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[1]
EXAMPLE = ON_PAGE + "  - when: {code: 29}\n    action: RETRY\n"


@pytest.fixture
def file(tmp_path):
    """The first example of the page, with one more override."""
    path = tmp_path / "orders.yaml"
    path.write_text(EXAMPLE)
    return path


def test_the_example_of_the_page_is_a_policy(tmp_path):
    """Copied as it stands, it says what the page says."""
    file = tmp_path / "orders.yaml"
    file.write_text(ON_PAGE)
    policy = load_policy(file)
    assert (policy.name, policy.max_attempts, policy.deadline) == ("orders", 8, 600)
    assert policy.dead_letter.topic_for("orders") == "orders.rejected"
    assert policy.overrides[0].on_reject == "raise"


@pytest.mark.parametrize("client", ["kafka-python", "confluent-kafka", "aiokafka"])
def test_the_example_of_the_page_warns_of_nothing_when_a_producer_uses_it(
    client, tmp_path
):
    """Each client's own time limits are shorter, and each setting has an effect."""
    file = tmp_path / "orders.yaml"
    file.write_text(ON_PAGE)
    policy = load_policy(file)
    limit = 300_000 if client == "confluent-kafka" else 120_000
    limits = {"delivery.timeout.ms": limit, "max.block.ms": 60_000}
    assert check_stacking(policy, limits, kind="producer", client=client) == ()
    assert unused_settings(policy, USES[f"{client} producer"], presets()) == []


#: The right text, the mistake, and how the message says what is right.
MISTAKES = [
    ("max_attempts: 8", "max_attemps: 8", r"did you mean '(?P<key>\w+)'"),
    ("deadline: 600 ", "deadline: 600s ", r"must be a number of (?P<unit>seconds)"),
    (
        "jitter: equal",
        "jitter: half",
        r"must be 'none', 'full' or '(?P<value>\w+)'",
    ),
    (
        "extends: idempotent-producer",
        "extends: idempotent",
        r"did you mean '(?P<value>[\w-]+)'",
    ),
    (
        "on_reject: dead_letter",
        "on_reject: deadletter",
        r"'raise', '(?P<value>dead_letter)'",
    ),
    ("action: RETRY", "action: retry", r"did you mean '(?P<value>RETRY)'"),
    ("code: 29", "code: 229", r"the codes go from -1 to (?P<bound>\d+)"),
]


@pytest.mark.parametrize(("right", "wrong", "said"), MISTAKES)
def test_each_mistake_is_mended_from_its_message(file, right, wrong, said):
    """The line, the setting, and the right word stand in the message."""
    assert right in EXAMPLE
    file.write_text(EXAMPLE.replace(right, wrong))
    with pytest.raises(PolicyError) as caught:
        load_policy(file)
    (problem,) = caught.value.problems
    found = re.search(said, problem.message).groupdict()
    line = 1 + EXAMPLE[: EXAMPLE.index(right)].count("\n")
    assert (str(file), line) == (caught.value.source, problem.line)
    lines = file.read_text().splitlines()
    lines[line - 1] = mended(lines[line - 1], wrong, found)
    file.write_text("\n".join(lines))
    assert load_policy(file).name == "orders"


def mended(line, wrong, found):
    """Change the line as its message says, and no further."""
    key, _, value = wrong.partition(": ")
    if "key" in found:
        return line.replace(key, found["key"])
    if "unit" in found:  # seconds as a number: leave the unit out
        return line.replace(value.strip(), value.strip().rstrip("s"))
    return line.replace(value, found.get("value") or found["bound"])


def test_all_mistakes_are_told_at_once(file):
    """All of them in one file, a wrong parent and a key that stands twice included."""
    text = EXAMPLE
    for right, wrong, _ in MISTAKES:
        text = text.replace(right, wrong)
    text += "name: orders-2\n"
    file.write_text(text)
    lines = [problem.line for problem in problems_of(file)]
    assert lines == sorted(lines)
    assert len(set(lines)) == len(MISTAKES) + 1


def problems_of(source):
    """What is said about a policy that cannot be used."""
    with pytest.raises(PolicyError) as caught:
        load_policy(source)
    assert str(source) in str(caught.value) or caught.value.source in {
        "dict",
        "environment",
    }
    assert "Input should" not in str(caught.value)  # nothing in pydantic's words
    return caught.value.problems


#: Format, the text, the line of the mistake, and what must be said.
ONE_BY_ONE = [
    ("yaml", "max_attemps: 8", 1, "did you mean 'max_attempts'?"),
    ("yaml", "backoff:\n  bas: 1", 2, "did you mean 'base'?"),
    ("yaml", "overrides:\n- {whn: {code: 29}, action: RETRY}", 2, "'when'"),
    ("yaml", "overrides:\n- when: {cod: 29}\n  action: RETRY", 2, "'code'"),
    ("yaml", "max_attempts: many", 1, "a whole number of attempts from 1"),
    ("yaml", "deadline: 5min", 1, "write 300"),
    ("yaml", "deadline: 250ms", 1, "write 0.25"),
    ("yaml", "max_attempts: 0", 1, "from 1 to 10000, or the word 'unbounded'"),
    ("yaml", "backoff: {cap: unbounded}", 1, "a number of seconds from 0.001"),
    ("yaml", "deadline: none", 1, "or the word 'unbounded'"),
    ("yaml", "deadline: 1\ndeadline: 2", 2, "stands twice: keep one"),
    ("yaml", "extends: idempotent", 1, "did you mean 'idempotent-producer'?"),
    ("yaml", "deadline: 1\nbackoff:\n\tbase: 1", 3, "indent with spaces"),
    ("yaml", "dead_letter: {headers: sprint}", 1, "did you mean 'spring'?"),
    ("yaml", "dead_letter: {topic: '{name}.dlq'}", 1, "placeholder is {topic}"),
    ("yaml", "rescue: any-order", 1, "did you mean 'any_order'?"),
    ("yaml", "in_doubt: true", 1, "must be 'raise', 'report' or 'resend'"),
    ("yaml", "resend_in_doubt: true", 1, "did you mean 'in_doubt'?"),
    ("yaml", "dead_letter: {limit: {}}", 1, "give ratio, consecutive, or both"),
    ("yaml", "dead_letter: {limit: {ratio: 2}}", 1, "for each record from 1e-06 to 1"),
    ("yaml", "backoff: 3", 1, "must be a mapping of kind, base"),
    ("yaml", "overrides: 3", 1, "must be a list"),
    ("yaml", "overrides:\n- action: RETRY", 2, "must be given"),
    ("yaml", "overrides:\n- when: {code: '29'}\n  action: RETRY", 2, "without quotes"),
    ("yaml", "overrides:\n- when: {}\n  action: RETRY", 2, "names no failure"),
    ("yaml", "name: two words", 1, "letters, digits"),
    ("toml", 'max_attempts = "5"', None, "write 5 without quotes"),
    ("toml", '[backoff]\nbase = "0.5"', None, "write 0.5 without quotes"),
    ("toml", 'rescue = "maybe"', None, "must be 'ordered', 'any_order' or 'never'"),
    ("toml", "[backof]\nbase = 1", None, "did you mean 'backoff'?"),
    ("toml", "deadline: 3", 1, "not well-formed TOML"),
]


@pytest.mark.parametrize(("suffix", "text", "line", "said"), ONE_BY_ONE)
def test_a_mistake_says_where_and_what_to_write(tmp_path, suffix, text, line, said):
    """File, line, setting, and what is allowed."""
    file = tmp_path / f"mine.{suffix}"
    file.write_text(text + "\n")
    problems = problems_of(file)
    assert {line} == {problem.line for problem in problems}
    assert said in "\n".join(map(str, problems))


def test_mistakes_of_a_mapping_have_their_path():
    """A dict has no lines; the path tells."""
    problems = problems_of({"backoff": {"base": "fast"}, "max_attempts": 0.5})
    assert {str(p).partition(":")[0] for p in problems} == {
        "backoff.base",
        "max_attempts",
    }


def test_mistakes_of_the_environment_name_the_variables(monkeypatch):
    """All at once: misspelt, misspelt within, no number, no JSON, no such preset."""
    for name, value in {
        "KAFKAGUARD_POLICY": "idempotent",
        "KAFKAGUARD_POLICY_MAX_ATTEMPS": "3",
        "KAFKAGUARD_POLICY_BACKOFF__BAS": "3",
        "KAFKAGUARD_POLICY_DEADLINE": "5min",
    }.items():
        monkeypatch.setenv(name, value)
    said = "\n".join(map(str, problems_of("env")))
    assert "KAFKAGUARD_POLICY: there is no preset 'idempotent'" in said
    assert "KAFKAGUARD_POLICY_MAX_ATTEMPS: no such setting; did you mean" in said
    assert "KAFKAGUARD_POLICY_BACKOFF__BAS: no such setting; did you mean" in said
    assert re.search("KAFKAGUARD_POLICY_DEADLINE: must be .* write 300", said)


class Holder:
    """Has methods that are no plain functions."""

    @classmethod
    def of_class(cls):
        """Belong to the class."""

    @staticmethod
    def of_nobody():
        """Belong to nobody."""


@pytest.mark.parametrize(
    ("decorated", "said"),
    [
        (5, "decorates functions and coroutine functions, not 5"),
        (vars(Holder)["of_class"], "put @retry below @classmethod"),
        (vars(Holder)["of_nobody"], "put @retry below @staticmethod"),
    ],
)
def test_what_cannot_be_decorated_is_refused_with_the_reason(decorated, said):
    """At once, not at the first call."""
    with pytest.raises(TypeError, match=said):
        retry("default")(decorated)


def test_a_request_that_kafka_does_not_have_is_refused_at_once():
    """An unknown `api` raises at decoration, not at the first failure."""
    with pytest.raises(ValueError, match=r"did you mean 'Fetch'\?"):
        retry("default", api="Fetchh")


@pytest.mark.parametrize(
    "part",
    [
        *("Backoff", "Breaker", "Budget", "DeadLetter", "LetterLimit", "Override"),
        *("PolicyDocument", "OverrideCondition"),
    ],
)
def test_the_page_names_every_setting(part):
    """The page of settings is drawn from all parts of a policy."""
    assert f": models.{part},\n" in (DOCS / "reference.py").read_text()
