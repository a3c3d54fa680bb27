"""A policy file written from the documentation alone, and mistakes made in it.

Each message must be enough to mend the file: the test reads nothing else.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kafkaguard import load_policy, policies
from kafkaguard.policies import PolicyError

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "policies.md").read_text()
EXAMPLE = re.search(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[1]


@pytest.fixture
def file(tmp_path):
    """The first example of the page, as a reader saves it."""
    path = tmp_path / "orders.yaml"
    path.write_text(EXAMPLE)
    return path


def test_the_example_of_the_page_is_a_policy(file):
    """Copied as it stands, it says what the page says."""
    policy = load_policy(file)
    assert (policy.name, policy.max_attempts, policy.deadline) == ("orders", 8, 60)
    assert policy.dead_letter.topic_for("orders") == "orders.rejected"
    assert policy.overrides[0].deadline == 300


#: The right text, the mistake, and how the message says what is right.
MISTAKES = [
    ("max_attempts: 8", "max_attemps: 8", r"did you mean '(?P<key>\w+)'"),
    ("deadline: 60 ", "deadline: 60s ", r"must be a number of (?P<unit>seconds)"),
    (
        "jitter: equal",
        "jitter: half",
        r"Input should be 'none', 'full' or '(?P<value>\w+)'",
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
    ("action: RETRY", "action: retry", r"Input should be '(?P<value>RETRY)'"),
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
    """Five of them in one file: five lines, in the order of the file."""
    text = EXAMPLE
    for right, wrong, _ in MISTAKES[:3] + MISTAKES[4:6]:
        text = text.replace(right, wrong)
    file.write_text(text)
    with pytest.raises(PolicyError) as caught:
        load_policy(file)
    lines = [problem.line for problem in caught.value.problems]
    assert lines == sorted(lines)
    assert len(set(lines)) == 5


@pytest.mark.parametrize(
    "part",
    ["Backoff", "Breaker", "Budget", "DeadLetter", "Override", "RetryPolicy", "When"],
)
def test_the_page_names_every_setting(part):
    """What can be written is documented."""
    for name in getattr(policies, part).model_fields:
        assert f"`{name}`" in PAGE or f"`{name}:" in PAGE, name
