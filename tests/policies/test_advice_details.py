"""What is said about a policy: tables, schema, doubts, sizes of files; each word."""

from __future__ import annotations

import json

import pytest

from kafkaguard import Action, RetryPolicy, load_policy
from kafkaguard.errors import PolicyError
from kafkaguard_policies.advice.ineffective_settings import find_doubts
from kafkaguard_policies.reading.schema import policy_schema
from kafkaguard_policies.reading.sources import MOST_BYTES, presets, read_text

PLAIN = {"kind": "exponential", "base": 1, "cap": 60, "jitter": "none"}


def test_the_table_of_a_preview_has_a_line_for_each_attempt():
    """Waits, their sums and how many calls get there, in columns."""
    policy = RetryPolicy(name="p", backoff=PLAIN, max_attempts=3, deadline=4)
    head, columns, *rows = str(policy.preview(runs=10)).splitlines()
    said = f"p ({policy.policy_id}): waits in seconds, if the verdict is RETRY"
    assert said == head
    assert columns.split()[:3] == ["attempt", "expected", "5"]
    assert [row.split() for row in rows] == [
        ["2", "1.000", "1.000", "1.000", "1.000", "1.000", "1.000", "100%"],
        ["3", "2.000", "2.000", "2.000", "2.000", "3.000", "3.000", "100%"],
    ]


def test_the_columns_of_a_preview_are_what_they_say():
    """With jitter: the mean, the tails, the worst case, and the sums of two of them."""
    policy = RetryPolicy(backoff={**PLAIN, "jitter": "full"}, max_attempts=3)
    preview = policy.preview(runs=200)
    for row, line in zip(preview.rows, str(preview).splitlines()[2:], strict=True):
        numbers = [float(word) for word in line.split()[1:-1]]
        waits = (row.expected, row.low, row.high, row.worst)
        sums = (row.expected_elapsed, row.worst_elapsed)
        assert numbers == pytest.approx([*waits, *sums], abs=0.001)
        assert row.low < row.expected < row.high < row.worst


def test_a_preview_of_waits_counts_no_attempts():
    """WAIT delays the first attempt as often as max_waits says, and grows."""
    policy = RetryPolicy(backoff=PLAIN, max_waits=3, max_attempts=9)
    rows = policy.preview(action=Action.WAIT, runs=2).rows
    assert [(row.attempt, row.worst) for row in rows] == [(1, 1.0), (1, 2.0), (1, 4.0)]


def test_decorrelated_schedules_grow_from_wait_to_wait():
    """After a failure; a wait that costs no attempt begins anew each time."""
    backoff = {"kind": "decorrelated", "base": 1, "cap": 1_000}
    policy = RetryPolicy(backoff=backoff, max_attempts=7, deadline="unbounded")
    retries, waits = (
        [row.expected for row in policy.preview(action=action, runs=300, limit=6).rows]
        for action in (Action.RETRY, Action.WAIT)
    )
    assert retries[5] > 3 * retries[0]
    assert waits[5] < 1.5 * waits[0]


def test_the_schema_tells_editors_the_bounds():
    """Numbers with both ends, whole ones as such, and the word where it is allowed."""
    schema = policy_schema()
    settings, parts = schema["properties"], schema["$defs"]
    assert next(iter(settings)) == "extends"
    assert settings["extends"]["type"] == "string"
    assert settings["extends"]["examples"] == list(presets())
    assert settings["extends"]["description"].startswith("A preset, or a file beside")
    cap = parts["Backoff"]["properties"]["cap"]
    assert (cap["type"], cap["minimum"], cap["maximum"]) == ("number", 0.001, 86_400)
    number, word = settings["max_attempts"]["anyOf"]
    assert number == {"type": "integer", "minimum": 1, "maximum": 10_000}
    assert word == {"const": "unbounded"}
    told = settings["max_attempts"]["description"]
    assert told == "How many attempts, the first one included."
    assert schema["title"] == "kafkaguard retry policy"
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"deadline": 1, "backoff": PLAIN}, "deadline (1 s) is over before the first"),
        ({"deadline": 1, "backoff": PLAIN, "max_attempts": 2}, "(1 s at least)"),
        ({"deadline": 1, "backoff": PLAIN, "max_attempts": 1}, None),
        ({"deadline": 1.01, "backoff": PLAIN}, None),
        (
            {"deadline": 0.5, "backoff": {**PLAIN, "jitter": "equal"}},
            "(0.5 s at least)",
        ),
        ({"deadline": 0.51, "backoff": {**PLAIN, "jitter": "equal"}}, None),
        ({"deadline": 0.5, "backoff": {**PLAIN, "jitter": "full"}}, None),
        (
            {"deadline": 2, "backoff": {**PLAIN, "jitter": "full", "floor": 2}},
            "(2 s at least)",
        ),
        (
            {"deadline": 9, "breaker": {"open_for": 10, "when_open": "pause"}},
            "open_for",
        ),
        ({"deadline": 10, "breaker": {"open_for": 10, "when_open": "pause"}}, None),
        ({"deadline": 9, "breaker": {"open_for": 10, "when_open": "fail"}}, None),
        ({"deadline": 9}, None),
        (
            {"dead_letter": {"topic": "x"}, "on_reject": "drop"},
            "dead_letter has no effect with on_reject: drop",
        ),
        ({"dead_letter": {"headers": "spring"}}, "has no effect with on_reject: raise"),
        ({"dead_letter": {"topic": "x"}, "on_reject": "dead_letter"}, None),
        (
            {
                "dead_letter": {"topic": "x"},
                "overrides": [{"when": {"code": 87}, "on_reject": "dead_letter"}],
            },
            None,
        ),
        ({"on_reject": "drop"}, None),
        (
            {"backoff": {"kind": "linear", "factor": 3}},
            "backoff.factor (3) has no effect with kind: linear",
        ),
        ({"backoff": {"kind": "exponential", "factor": 3}}, None),
        ({"backoff": {"kind": "linear"}}, None),
        (
            {
                "overrides": [
                    {"when": {"code": 7}, "backoff": {"kind": "fixed", "factor": 3}}
                ]
            },
            "overrides[0].backoff.factor (3) has no effect with kind: fixed",
        ),
        (
            {"budget": "none", "overrides": [{"when": {"code": 7}, "cost": 2}]},
            "overrides[0].cost (2) has no effect with budget: none",
        ),
        ({"overrides": [{"when": {"code": 7}, "cost": 2}]}, None),
        (
            {"max_attempts": "unbounded", "deadline": "unbounded"},
            "budget.capacity (100) ends a call all the same",
        ),
        ({"max_attempts": "unbounded"}, None),
        ({"deadline": "unbounded"}, None),
        (
            {"max_attempts": "unbounded", "deadline": "unbounded", "budget": None},
            None,
        ),
    ],
)
def test_a_setting_without_effect_is_doubted(settings, said):
    """From where it has none, and not before."""
    found = find_doubts(RetryPolicy(**settings))
    assert (said is None) == (not found)
    assert said is None or said in found[0]


@pytest.mark.parametrize(
    ("override", "settings", "doubted"),
    [
        ({}, {"on_reject": "dead_letter"}, True),
        ({"on_reject": "dead_letter"}, {}, True),
        ({"on_reject": "raise"}, {"on_reject": "dead_letter"}, False),
        ({}, {}, False),
        ({"when": {"topic": "orders"}}, {"on_reject": "dead_letter"}, False),
        (
            {"when": {"topic": "{topic}.x"}},
            {"on_reject": "dead_letter", "dead_letter": {"topic": "{topic}.x"}},
            False,
        ),
        (
            {},
            {"on_reject": "dead_letter", "dead_letter": {"topic": "{topic}.x"}},
            False,
        ),
    ],
)
def test_a_dead_letter_topic_has_no_dead_letters(override, settings, doubted):
    """An override about it that keeps them is doubted, whoever said so."""
    one = {"when": {"topic": "dead"}, "max_attempts": 2, **override}
    settings = {"dead_letter": {"topic": "dead"}, **settings}
    found = find_doubts(RetryPolicy(overrides=[one], **settings))
    assert doubted == any("overrides[0] is about topic" in each for each in found)


@pytest.mark.parametrize("preset", presets())
def test_a_preset_has_no_setting_without_effect(preset):
    """Whoever starts from a preset is not warned about it."""
    assert find_doubts(load_policy(preset)) == ()


def test_a_file_may_be_as_large_as_it_may_be(tmp_path):
    """1 MiB is read, a byte more is refused with both numbers."""
    file = tmp_path / "policy.yaml"
    file.write_bytes(b"#" * MOST_BYTES)
    assert len(read_text(file)) == MOST_BYTES
    file.write_bytes(b"#" * (MOST_BYTES + 1))
    with pytest.raises(
        PolicyError, match=f"{MOST_BYTES + 1} bytes, and a policy at most"
    ):
        read_text(file)


def test_a_path_that_no_file_can_have_is_refused(tmp_path):
    """A null character is not an error of the system's, and is told all the same."""
    with pytest.raises(PolicyError, match="cannot be read"):
        read_text(tmp_path / "a\0b.yaml")


def test_a_preset_that_there_is_not_is_told_with_the_nearest_or_without():
    """A name that is near none ends with the sentence."""
    with pytest.raises(PolicyError, match="did you mean"):
        load_policy("defaul")
    with pytest.raises(PolicyError) as caught:
        load_policy("zzzzzzzz")
    assert "did you mean" not in str(caught.value)


def test_a_preview_as_json_says_unbounded_where_it_is():
    """JSON has no infinity; everything else is as in the object."""
    for deadline in (7.0, "unbounded"):
        preview = RetryPolicy(backoff=PLAIN, deadline=deadline).preview(runs=2)
        told = preview.to_dict()
        assert told["deadline"] == deadline
        assert told["rows"][0]["worst"] == 1.0
        assert preview.to_json() == json.dumps(told, indent=2)


def test_a_preview_is_complete_where_all_its_rows_are_there():
    """Four waits of five attempts; one row is enough for a preview."""
    policy = RetryPolicy(backoff=PLAIN, max_attempts=5, deadline="unbounded")
    previews = [policy.preview(runs=2, limit=limit) for limit in (1, 3, 4, 5)]
    assert [len(each.rows) for each in previews] == [1, 3, 4, 4]
    assert [each.complete for each in previews] == [False, False, True, True]
    for wrong in ({"limit": 0}, {"runs": 1}):
        with pytest.raises(ValueError, match=r"a whole number of [12] or more"):
            policy.preview(**{"runs": 2, **wrong})


@pytest.mark.parametrize(
    ("settings", "action", "said"),
    [
        ({}, Action.IN_DOUBT, "stops: it may have been done already"),
        ({}, Action.CONFIGURE, "stops: configuration"),
        ({"deadline": 0.5}, Action.RETRY, "after the deadline"),
        ({"max_attempts": 1}, Action.RETRY, "all attempts"),
        ({"on_reject": "drop"}, Action.REJECT, "a record is dropped"),
        ({}, Action.IGNORE, "goes on: it is not a failure"),
    ],
)
def test_a_preview_without_a_wait_says_why(settings, action, said):
    """A preview without a wait has the reason that explain gives."""
    preview = RetryPolicy(backoff=PLAIN, **settings).preview(action=action, runs=2)
    assert preview.rows == ()
    assert said in preview.ending
