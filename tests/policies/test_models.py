"""The models of a policy: frozen, bounded, with names that help."""

from __future__ import annotations

import math
import pickle
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from kafkaguard import Action, RetryPolicy, TopicFacts, classify, errors
from kafkaguard.policies import Backoff, CallContext, DeadLetter
from kafkaguard_policies.model.base import Part


def error_text(**settings):
    """What a policy with these settings is told."""
    with pytest.raises(ValidationError) as caught:
        RetryPolicy(**settings)
    return str(caught.value)


def test_a_policy_is_frozen():
    """Nothing of it can be changed; replace makes another one, checked."""
    policy = RetryPolicy()
    with pytest.raises(ValidationError):
        policy.max_attempts = 3
    with pytest.raises(ValidationError):
        policy.backoff.base = 3
    assert policy.replace(max_attempts=3).max_attempts == 3
    with pytest.raises(ValidationError):
        policy.replace(max_attempts=0)


@pytest.mark.parametrize(
    ("settings", "wrong", "right"),
    [
        ({"max_attemps": 3}, "max_attemps", "max_attempts"),
        ({"backoff": {"jiter": "full"}}, "jiter", "jitter"),
        ({"budget": {"capacty": 3}}, "capacty", "capacity"),
        ({"overrides": [{"when": {"codes": 3}, "action": "RETRY"}]}, "codes", "code"),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_name(settings, wrong, right):
    """At every depth: no such setting, did you mean."""
    text = error_text(**settings)
    assert wrong in text
    assert f"did you mean '{right}'?" in text


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"jitter": "full"},
            "'jitter' belongs in 'backoff' or in 'overrides.backoff'. ",
        ),
        (
            {"backoff": {"deadline": 3}},
            "'deadline' belongs at the top level or in 'overrides'. ",
        ),
        ({"overrides": [{"code": 3}]}, "'code' belongs in 'overrides.when'. "),
    ],
)
def test_a_key_that_stands_in_the_wrong_part_is_told_where_it_belongs(settings, said):
    """That is nearer to what was meant than another name."""
    assert said in error_text(**settings)


@pytest.mark.parametrize(
    "settings",
    [
        {"max_attempts": 0},
        {"max_attempts": 10_001},
        {"max_attempts": 2.5},
        {"max_attempts": True},
        {"max_attempts": "many"},
        {"deadline": 0},
        {"deadline": 8 * 86_400},
        {"deadline": math.nan},
        {"deadline": "30s"},
        {"attempt_timeout": "unbounded"},
        {"max_waits": -1},
        {"backoff": {"factor": 0.5}},
        {"backoff": {"cap": "unbounded"}},
        {"budget": {"deposit": -1}},
        {"breaker": {"failures": 0}},
    ],
)
def test_every_value_is_bounded(settings):
    """Out of range: the message says what is in range."""
    assert " from " in error_text(**settings)


@pytest.mark.parametrize("name", ["max_attempts", "deadline", "max_waits"])
def test_a_bound_is_removed_by_saying_so(name):
    """The word goes in, comes out again, and counts as endless."""
    policy = RetryPolicy(**{name: "unbounded"})
    assert policy.model_dump(mode="json")[name] == "unbounded"
    assert getattr(policy, name) > 10**9
    assert RetryPolicy(**policy.model_dump()) == policy


def test_a_policy_can_be_a_key():
    """Equal policies hash alike, also with a table of costs."""
    one, other = (RetryPolicy(budget={"cost": {"RETRY": 2}}) for _ in range(2))
    assert {one: 1} == {other: 1}


def test_durations_are_seconds_or_timedeltas():
    """Both give the same policy with the same id."""
    one = RetryPolicy(deadline=90, backoff={"base": timedelta(milliseconds=200)})
    other = RetryPolicy(deadline=timedelta(seconds=90), backoff={"base": 0.2})
    assert one == other
    assert one.policy_id == other.policy_id


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"backoff": {"floor": 9}}, r"floor (9) must not be above cap (5)"),
        ({"backoff": {"base": 9}}, r"base (9) must not be above cap (5)"),
        (
            {"backoff": {"kind": "decorrelated", "jitter": "full"}},
            "jitter must be none",
        ),
        ({"deadline": 1, "attempt_timeout": 2}, "must not be above deadline (1)"),
        ({"budget": {"capacity": 0.5}}, "for no bucket write budget: none"),
        ({"dead_letter": {"topic": "{topics}.dlq"}}, "the only placeholder is {topic}"),
        ({"dead_letter": {"topic": "a b"}}, "not a valid topic name: 1 to 249"),
        ({"overrides": [{"when": {}, "action": "RETRY"}]}, "names no failure"),
        ({"overrides": [{"when": {"code": 29}}]}, "changes nothing"),
        (
            {"overrides": [{"when": {"code": 999}, "action": "RETRY"}]},
            "no error code 999",
        ),
        (
            {"overrides": [{"when": {"code": 90}, "action": "RETRY"}]},
            "always stops (FENCED)",
        ),
        (
            {"overrides": [{"when": {"error": "PRODUCER_FENCED"}, "action": "RETRY"}]},
            "always stops (FENCED)",
        ),
        (
            {"overrides": [{"when": {"action": "FENCED"}, "action": "RETRY"}]},
            "always stops",
        ),
        (
            {"overrides": [{"when": {"error": "NOT_COORDINATR"}, "action": "RETRY"}]},
            "did you mean 'NOT_COORDINATOR'?",
        ),
        (
            {"overrides": [{"when": {"error": "RetryableError"}, "action": "RETRY"}]},
            "did you mean 'RetriableError'?",
        ),
        (
            {"overrides": [{"when": {"api": "Produced"}, "action": "RETRY"}]},
            "did you mean 'Produce'?",
        ),
        (
            {"overrides": [{"when": {"rule": "denid"}, "action": "RETRY"}]},
            "did you mean 'denied'?",
        ),
        (
            {"overrides": [{"when": {"code": 29}, "action": "REJOIN"}]},
            "'RETRY', 'REFRESH'",
        ),
        ({"name": "a b"}, "name"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, said):
    """The message says what does not fit and what would."""
    assert said in error_text(**settings)


def test_decorrelated_needs_no_word_about_jitter():
    """`kind: decorrelated` is valid without a jitter."""
    assert Backoff(kind="decorrelated").jitter == "none"


def test_dead_letter_topic_is_made_of_the_topic():
    """The pattern's placeholder is the record's own topic."""
    assert DeadLetter(topic="dlq-{topic}").topic_for("orders") == "dlq-orders"
    assert RetryPolicy().dead_letter.topic_for("orders") == "orders.dlq"


def test_policy_id_is_of_the_content():
    """Name and description do not count; each setting does; it is stable."""
    policy = RetryPolicy()
    assert policy.policy_id == RetryPolicy(name="x", description="y").policy_id
    assert policy.policy_id == pickle.loads(pickle.dumps(policy)).policy_id
    assert policy.policy_id == "ed24292cfebb"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("500 ms", "0.5"),
        ("5s", "5"),
        ("5 sec", "5"),
        ("2 m", "120"),
        ("2min", "120"),
        ("1.5 H", "5400"),
        ("7", "7 without quotes"),
    ],
)
def test_a_time_with_a_unit_is_refused_with_the_number_to_write(text, seconds):
    """Each unit that people write; settings are numbers of seconds."""
    assert f"; write {seconds}" in error_text(deadline=text)


def settings_of(model, without=()):
    """Each setting of a model, in parts too, as a change to another value."""
    for name, field in model.model_fields.items():
        if name in without:
            continue
        value = CHANGES.get(name)
        if value is None and isinstance(field.default, Part):
            part = type(field.default)
            yield from ({name: inner} for inner in settings_of(part))
        else:
            assert value is not None, f"give another value for {name}"
            yield {name: value}


#: Another value than the default, for each setting of a policy.
CHANGES = {
    "on_offset_reset": "raise",
    "keep_pauses": True,
    "kind": "linear",
    "base": 0.2,
    "factor": 3,
    "floor": 0.05,
    "cap": 9,
    "jitter": "equal",
    "honour_throttle": False,
    "capacity": 7,
    "deposit": 0.5,
    "cost": {"RETRY": 2},
    "breaker": {"failures": 3},
    "topic": "{topic}.dead",
    "headers": "spring",
    "limit": {"ratio": 0.01, "consecutive": 1000},
    "max_attempts": 6,
    "deadline": 60,
    "attempt_timeout": 3,
    "max_waits": 5,
    "on_reject": "drop",
    "in_doubt": "resend",
    "rescue": "never",
    "null_key": "send",
    "disguised_null_key": "send",
    "overrides": [{"when": {"code": 29}, "action": "RETRY"}],
    "max_age": 60,
    "retry_on": "OSError",
    "reject_on": "ValueError",
    "wait_on": "ConnectionError",
    "timeout": 3,
    "commit_interval": 1,
    "max_in_flight": 100,
    "drain_timeout": 1,
}


def test_policy_id_tells_each_setting_apart():
    """Whichever is changed, it is another policy; names are not settings."""
    changes = list(settings_of(RetryPolicy, without={"name", "description"}))
    ids = [RetryPolicy(**change).policy_id for change in changes]
    assert len(changes) > 20
    assert len({RetryPolicy().policy_id, *ids}) == 1 + len(changes)


def ruled(overrides, code, api="Produce", **context):
    """What a policy with these overrides says about a code."""
    policy = RetryPolicy(overrides=overrides)
    known = {k: v for k, v in context.items() if k != "topic"}
    verdict = classify(code, api=api, **known)
    return policy.ruling(verdict, CallContext(api=api, **context), code)


@pytest.mark.parametrize(
    ("when", "matching", "other"),
    [
        ({"code": 29}, {"code": 29}, {"code": 30}),
        ({"code": [29, 30]}, {"code": 30}, {"code": 31}),
        ({"error": "TOPIC_AUTHORIZATION_FAILED"}, {"code": 29}, {"code": 30}),
        ({"error": "AuthorizationError"}, {"code": 30}, {"code": 10}),
        ({"action": "CONFIGURE"}, {"code": 29}, {"code": 10}),
        ({"rule": "denied"}, {"code": 29}, {"code": 10}),
        ({"api": "Fetch"}, {"code": 29, "api": "Fetch"}, {"code": 29}),
        (
            {"topic": "orders-*"},
            {"code": 29, "topic": "orders-eu"},
            {"code": 29, "topic": "x"},
        ),
        ({"topic": "orders-*"}, {"code": 29, "topic": "orders-eu"}, {"code": 29}),
        ({"client": "aiokafka"}, {"code": 29, "client": "aiokafka"}, {"code": 29}),
        (
            {"code": 29, "api": "Fetch"},
            {"code": 29, "api": "Fetch"},
            {"code": 30, "api": "Fetch"},
        ),
    ],
)
def test_overrides_match_what_they_name(when, matching, other):
    """All that is said must hold; what is not said matches anything."""
    overrides = [{"when": when, "max_attempts": 7}]
    assert (
        ruled(overrides, **matching).max_attempts,
        ruled(overrides, **matching).override,
    ) == (7, 0)
    assert (
        ruled(overrides, **other).max_attempts,
        ruled(overrides, **other).override,
    ) == (5, None)


def test_of_the_overrides_that_match_the_last_one_decides():
    """Alone: what an earlier one says does not count any more."""
    overrides = [
        {"when": {"action": "CONFIGURE"}, "action": "RETRY", "max_attempts": 3},
        {"when": {"code": 29}, "action": "RETRY", "deadline": 10},
        {"when": {"code": 30}, "action": "RETRY"},
    ]
    ruling = ruled(overrides, 29)
    assert (
        ruling.override,
        ruling.action,
        ruling.max_attempts,
        ruling.deadline,
    ) == (1, Action.RETRY, 5, 10)


def test_an_override_by_code_matches_what_the_broker_answered():
    """A code that context gave another class is still that code."""
    overrides = [{"when": {"code": 9}, "max_attempts": 30}]
    policy = RetryPolicy(overrides=overrides)
    verdict = classify(9, api="Fetch", facts=TopicFacts(tiered=True))
    assert verdict.error_class is errors.RemoteStorageNotReadyError
    assert policy.ruling(verdict, CallContext(api="Fetch"), 9).max_attempts == 30


def test_cost_is_set_by_action():
    """The budget's table first, an override's word last; WAIT is free."""
    policy = RetryPolicy(
        budget={"cost": {"REFRESH": 0.5}},
        overrides=[{"when": {"code": 15}, "cost": 9}],
    )
    costs = [
        policy.ruling(classify(code, api=api), CallContext(api=api), code).cost
        for code, api in (
            (14, "FindCoordinator"),
            (6, "Fetch"),
            (89, "CreateTopics"),
            (15, "FindCoordinator"),
        )
    ]
    assert costs == [1.0, 0.5, 0.0, 9.0]


@given(
    st.builds(
        RetryPolicy,
        max_attempts=st.integers(1, 10_000) | st.just("unbounded"),
        deadline=st.floats(0.001, 604_800) | st.just("unbounded"),
        budget=st.none() | st.just({"capacity": 7, "cost": {"RETRY": 2}}),
        on_reject=st.sampled_from(["raise", "dead_letter", "drop"]),
        in_doubt=st.sampled_from(["raise", "report", "resend"]),
        overrides=st.lists(
            st.sampled_from(
                [
                    {"when": {"code": 29}, "action": "RETRY"},
                    {"when": {"topic": "a*"}, "on_reject": "drop"},
                ]
            ),
            max_size=3,
        ),
    )
)
def test_every_policy_survives_the_way_through_json(policy):
    """Written and read again it is the same, with the same id."""
    again = RetryPolicy.model_validate_json(policy.model_dump_json())
    assert again == policy
    assert again.policy_id == policy.policy_id
