"""Each check of a policy's settings: what it says to the word, and where it ends."""

from __future__ import annotations

import pickle
from decimal import Decimal
from typing import Annotated, Literal

import pytest
from pydantic import Field, StrictBool, ValidationError

from kafkaguard import Action, RetryPolicy, load_policy
from kafkaguard.errors import PolicyError
from kafkaguard.policies import Backoff
from kafkaguard_policies.model.base import Part
from kafkaguard_policies.model.problems import Problem, problems_of


def told(part=RetryPolicy, **settings):
    """What is said about each of these settings: type, place and text."""
    with pytest.raises(ValidationError) as caught:
        part(**settings)
    return [
        (each["type"], each["loc"], each["msg"], each["input"])
        for each in caught.value.errors()
    ]


def said(part=RetryPolicy, **settings):
    """The one text that is said about these settings."""
    ((_, _, text, _),) = told(part, **settings)
    return text.removeprefix("Value error, ")


class Short(Part):
    """A part with a short text."""

    word: Annotated[str, Field(max_length=3)] = ""


class Kinds(Part):
    """A part with a setting of each kind."""

    flag: bool = False
    strict_flag: StrictBool = False
    number: int = 0
    table: dict[str, int] | None = None
    items: list[int] | None = None
    others: tuple[int, ...] = ()
    word: Annotated[str, Field(min_length=1, max_length=3)] = "x"
    name: Annotated[str, Field(pattern="^[a-z]+$")] = "x"
    choice: Literal["red", "blue"] = "red"
    one_of: Action = Action.RETRY


@pytest.mark.parametrize(
    ("setting", "value", "text"),
    [
        ("flag", "perhaps", "must be true or false"),
        ("strict_flag", 1, "must be true or false"),
        ("number", 2.5, "must be a whole number"),
        ("number", "x", "must be a whole number"),
        ("number", [], "must be a whole number, without quotes"),
        ("table", 1, "must be a mapping"),
        ("items", 1, "must be a list"),
        ("others", 1, "must be a list"),
        ("word", "", "must not be empty"),
        ("word", "long", "must be shorter: at most 3 characters"),
        ("word", 1, "must be a text: put it in quotes"),
        ("word", [1], "must be a text, not a list"),
        ("word", {"a": 1}, "must be a text, not a mapping"),
        ("name", "?", "must be 1 to 64 letters, digits, '.', '_' or '-'"),
        ("choice", "bleu", "must be 'red' or 'blue'; did you mean 'blue'?"),
    ],
)
def test_each_kind_of_mistake_is_told_in_words(setting, value, text):
    """Each kind of mistake has a text of ours, not of pydantic."""
    assert said(Kinds, **{setting: value}) == text


def test_what_is_missing_must_be_given():
    """A missing setting without a default is an error."""
    assert said(overrides=[{"action": "RETRY"}]) == "must be given"


def test_an_action_that_is_none_is_told_the_nearest():
    """An unknown action is answered with all actions and the closest one."""
    text = said(Kinds, one_of="RETRI")
    assert text.startswith("must be 'IGNORE', 'RETRY', ")
    assert text.endswith("; did you mean 'RETRY'?")


def test_a_part_that_is_no_mapping_is_told_its_settings():
    """A value in place of a mapping is answered with the settings of the mapping."""
    names = "kind, base, factor, floor, cap, jitter, honour_throttle"
    text = f"must be a mapping of {names}"
    assert told(backoff=3) == [("policy_model_type", ("backoff",), text, 3)]


def test_an_unknown_setting_without_a_near_one_is_told_what_is_allowed():
    """An unknown setting without a close one is answered with all names."""
    names = ", ".join(Backoff.model_fields)
    assert said(backoff={"xyzzyx": 1}) == f"no such setting. Allowed here: {names}"
    assert said(Short, xyzzyx=1) == "no such setting. Allowed here: word"


@pytest.mark.parametrize(
    ("value", "meant"),
    [
        ("30s", "; write 30"),
        ("500 ms", "; write 0.5"),
        ("2H", "; write 7200"),
        ("30", "; write 30 without quotes"),
        ("30 parsecs", ""),
        ("soon", ""),
        (10**400, ""),
        (Decimal("sNaN"), ""),
        ([], ""),
        (b"x", ""),
    ],
)
def test_what_is_no_duration_is_told_what_it_seems_to_mean(value, meant):
    """A text such as "5 s" is answered with the number to write."""
    ((kind, _, text, _),) = told(deadline=value)
    wanted = "must be a number of seconds from 0.001 to 604800, or the word 'unbounded'"
    assert (kind, text) == ("policy_out_of_range", wanted + meant)


def test_a_unit_of_time_says_nothing_about_a_count():
    """A unit of time after a number of attempts has no proposal."""
    text = "must be a whole number of attempts from 1 to 10000, or the word 'unbounded'"
    assert said(max_attempts="30s") == text
    assert said(max_attempts="30") == f"{text}; write 30 without quotes"


@pytest.mark.parametrize(
    ("settings", "range_"),
    [
        ({"max_waits": -1}, "a whole number of waits from 0 to 1000000"),
        ({"attempt_timeout": 0}, "a number of seconds from 0.001 to 86400"),
        ({"backoff": {"floor": -1}}, "a number of seconds from 0 to 86400"),
        ({"backoff": {"factor": 0}}, "a number of times from 1 to 100"),
        ({"breaker": {"failures": 0}}, "a whole number of calls from 1 to 1000000"),
        ({"budget": {"deposit": -1}}, "a number of tokens from 0 to 1000000"),
        (
            {"dead_letter": {"limit": {"consecutive": 0}}},
            "a whole number of records from 1 to 1000000000",
        ),
        (
            {"dead_letter": {"limit": {"ratio": 0}}},
            "a number of dead letters for each record from 1e-06 to 1",
        ),
    ],
)
def test_what_is_out_of_range_is_told_what_is_counted(settings, range_):
    """The unit and both ends, of each kind of number."""
    assert said(**settings).split(",")[0] == f"must be {range_}"


@pytest.mark.parametrize(
    "settings",
    [
        {"backoff": {"floor": 5, "cap": 5}},
        {"backoff": {"base": 5, "cap": 5}},
        {"deadline": 3, "attempt_timeout": 3},
        {"budget": {"capacity": 1}},
        {"dead_letter": {"topic": "t"}},
        {"dead_letter": {"limit": {"ratio": 0.5}}},
        {"dead_letter": {"limit": {"consecutive": 1}}},
        {"overrides": [{"when": {"code": -192}, "max_attempts": 2}]},
        {"overrides": [{"when": {"code": -1}, "max_attempts": 2}]},
    ],
)
def test_bounds_belong_to_what_is_allowed(settings):
    """The largest and the smallest that make sense."""
    assert RetryPolicy(**settings) == RetryPolicy(**settings).replace()


@pytest.mark.parametrize(
    ("topic", "text"),
    [
        ("{0}.dlq", "the only placeholder is {topic}"),
        ("{}.dlq", "the only placeholder is {topic}"),
        ("{other}.dlq", "the only placeholder is {topic}"),
        ("{topic", "the only placeholder is {topic}"),
        ("{topic:>5}.dlq", "not a valid topic name: "),
        ("{topic:.1}.dlq", "write the placeholder exactly as {topic}"),
        ("{topic}", "this is the record's own topic, so "),
        ("{{topic}}.dlq", "not a valid topic name: "),
    ],
)
def test_a_pattern_of_a_topic_has_one_placeholder_as_it_stands(topic, text):
    """Each other one is told what is wrong with it."""
    assert said(dead_letter={"topic": topic}).startswith(text)


def test_a_limit_that_limits_nothing_is_refused():
    """It has neither of its two settings."""
    text = said(dead_letter={"limit": {}})
    assert text == "limits nothing; give ratio, consecutive, or both"


@pytest.mark.parametrize("code", [0, 999])
def test_what_is_no_error_code_is_none_in_an_override(code):
    """Code 0 in an override is refused, because 0 is not an error."""
    text = said(overrides=[{"when": {"code": code}, "action": "RETRY"}])
    assert f" has no error code {code}; the codes go from -1 to " in text


def test_an_override_that_changes_nothing_is_told_what_it_could():
    """All its settings, without the word that says about what it is."""
    names = "action, max_attempts, deadline, backoff, in_doubt, on_reject, cost"
    text = said(overrides=[{"when": {"code": 29}}])
    assert text == f"changes nothing; give one of {names}"


def test_a_name_that_is_no_error_of_kafkas_is_none_in_an_override():
    """Whatever else the module has under that name."""
    for name in ("annotations", "for_code"):
        text = said(overrides=[{"when": {"error": name}, "action": "RETRY"}])
        assert f"kafkaguard.errors has no class {name!r}" in text


def test_only_decorrelated_waits_have_no_jitter_by_themselves():
    """`kind: decorrelated` sets the jitter to none, and no other kind does."""
    assert Backoff(base=0.2).jitter == "full"
    assert Backoff(kind="linear").jitter == "full"
    assert Backoff(kind="decorrelated", base=0.2).jitter == "none"


def test_a_policy_with_changes_keeps_its_other_numbers():
    """Only what is endless is written as the word."""
    policy = RetryPolicy(max_attempts=3, deadline="unbounded", max_waits="unbounded")
    changed = policy.replace(rescue="never")
    assert (changed.max_attempts, changed.deadline, changed.max_waits) == (
        policy.max_attempts,
        policy.deadline,
        policy.max_waits,
    )
    assert changed.model_dump()["deadline"] == "unbounded"


def test_a_problem_is_one_line_with_its_place():
    """File, line, path and words, as far as they are known."""
    path = ("overrides", 1, "backoff", "base")
    assert str(Problem("bad", path)) == "overrides[1].backoff.base: bad"
    assert str(Problem("bad", path, 7)) == "line 7: overrides[1].backoff.base: bad"
    assert str(Problem("bad", (), 7, "b.yaml")) == "b.yaml: line 7: bad"
    assert str(Problem("bad")) == "bad"
    assert str(Problem("bad", ("backoff", "base "))) == "backoff.'base ': bad"


def test_problems_are_in_the_order_of_the_file():
    """Problems without a line come first; the file comes before files it extends."""
    problems = [
        Problem("c", line=2),
        Problem("b", line=1),
        Problem("a"),
        Problem("d", line=1, source="base.yaml"),
    ]
    error = PolicyError("x.yaml", (each for each in problems))
    assert [each.message for each in error.problems] == ["a", "b", "c", "d"]
    again = pickle.loads(pickle.dumps(error))
    assert (again.source, again.problems) == (error.source, error.problems)
    assert str(again) == (
        "the policy in x.yaml cannot be used:\n  a\n  line 1: b\n  line 2: c\n"
        "  base.yaml: line 1: d"
    )


def test_an_inherited_override_is_not_counted_in_a_place():
    """The document's own come after those of what it extends."""
    override = {"when": {"code": 29}, "max_attempts": 2}
    with pytest.raises(ValidationError) as caught:
        RetryPolicy(overrides=[override, override, {**override, "cost": -1}])
    (problem,) = problems_of(caught.value, len, inherited=2)
    assert (problem.path, problem.line) == (("overrides", 0, "cost"), 3)
    (problem,) = problems_of(caught.value, len)
    assert problem.path == ("overrides", 2, "cost")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ({"deadlin": 3}, "the policy given as a mapping of settings cannot be used:\n"),
        ("spark-snik", "there is no preset 'spark-snik'; did you mean 'spark-sink'?"),
        ("nosuch.yaml", "nosuch.yaml cannot be read: No such file or directory"),
    ],
)
def test_the_text_begins_with_what_cannot_be_used(source, said):
    """A source that is not there is told at once, with the closest name."""
    with pytest.raises(PolicyError) as caught:
        load_policy(source)
    assert said == str(caught.value)[: len(said)]


def test_the_environment_is_named_as_such(monkeypatch):
    """A policy of variables has no file."""
    monkeypatch.setenv("KAFKAGUARD_POLICY_MAX_ATTEMPTS", "0")
    with pytest.raises(
        PolicyError, match="the policy in the environment variables cannot be used"
    ):
        load_policy("env")
