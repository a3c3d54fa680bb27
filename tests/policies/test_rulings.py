"""Rulings: what a policy says about each of many failures, from one instance."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaguard import Action, RetryPolicy, TopicFacts, classify, errors
from kafkaguard._retries.machine import Ruling
from kafkaguard.policies import CallContext
from kafkaguard_policies.model.policy import Backoff
from kafkaguard_policies.running import rulings

TIERED = TopicFacts(tiered=True)
#: Values that an override may give; among them every one that is false in Python.
SETTINGS = st.fixed_dictionaries(
    {},
    optional={
        "action": st.sampled_from(["RETRY", "REJECT", "IN_DOUBT"]),
        "max_attempts": st.integers(1, 4),
        "deadline": st.sampled_from([0.5, 7.0]),
        "backoff": st.just({"base": 3.0, "floor": 0}),
        "in_doubt": st.sampled_from(["raise", "report", "resend"]),
        "on_reject": st.sampled_from(["raise", "drop"]),
        "cost": st.sampled_from([0, 2.5]),
    },
).filter(bool)
CODES = (6, 10, 90, 9, -1)
APIS = ("Produce", "Fetch")
TOPICS = ("orders", "orders-eu", None)
CLIENTS = ("aiokafka", "kafka-python", None)
CLASSES = {
    "RefreshRetriableError": errors.RefreshRetriableError,
    "MESSAGE_TOO_LARGE": errors.MessageTooLargeError,
}
WHENS = st.fixed_dictionaries(
    {},
    optional={
        "code": st.sampled_from([6, 10, 9, -1]),
        "error": st.sampled_from(sorted(CLASSES)),
        "action": st.sampled_from(["REFRESH", "REJECT", "IN_DOUBT"]),
        "rule": st.sampled_from(["record-too-large", "refresh-and-retry"]),
        "api": st.sampled_from(APIS),
        "topic": st.sampled_from(["orders", "orders-*"]),
        "client": st.sampled_from(["aiokafka", "kafka-python"]),
    },
).filter(bool)
FAILURES = st.tuples(
    st.sampled_from(CODES),
    st.sampled_from(APIS),
    st.sampled_from(TOPICS),
    st.sampled_from(CLIENTS),
)


def holds(when, verdict, code, api, topic, client):
    """Whether all that ``when`` names is so: the rule in plain words."""
    cls = verdict.error_class
    facts = {
        "code": lambda said: code == said,
        "error": lambda said: issubclass(cls, CLASSES[said]),
        "action": lambda said: verdict.action == said,
        "rule": lambda said: verdict.rule.id == said,
        "api": lambda said: api == said,
        "topic": lambda said: topic is not None and fnmatchcase(topic, said),
        "client": lambda said: client == said,
    }
    return all(facts[name](said) for name, said in when.items())


def expected(policy, overrides, verdict, failure):
    """The ruling that the last matching override makes of the policy."""
    said, index = {}, None
    for number, override in enumerate(overrides):
        if holds(override["when"], verdict, *failure):
            said = {k: v for k, v in override.items() if k != "when"}
            index = number
    action = verdict.action
    if action is not Action.FENCED:
        action = Action(said.get("action", action))
    return Ruling(
        action=action,
        max_attempts=said.get("max_attempts", policy.max_attempts),
        max_waits=policy.max_waits,
        deadline=said.get("deadline", policy.deadline),
        backoff=Backoff(**said["backoff"]) if "backoff" in said else policy.backoff,
        in_doubt=said.get("in_doubt", policy.in_doubt),
        on_reject=said.get("on_reject", policy.on_reject),
        cost=said.get("cost", policy.budget.cost.get(action, 1.0)),
        override=index,
    )


@given(
    st.lists(st.tuples(WHENS, SETTINGS), min_size=1, max_size=4),
    st.lists(FAILURES, min_size=2, max_size=12),
    st.sampled_from(["raise", "resend"]),
)
def test_one_policy_rules_each_failure_by_itself(overrides, failures, resend):
    """Whatever it ruled before: topic, API, client and code decide anew each time."""
    overrides = [{"when": when, **settings} for when, settings in overrides]
    policy = RetryPolicy(
        overrides=overrides,
        in_doubt=resend,
        on_reject="dead_letter",
        budget={"cost": {"REFRESH": 3}},
        max_waits=7,
    )
    for failure in failures:
        code, api, topic, client = failure
        verdict = classify(code, api=api, client=client, facts=TIERED)
        context = CallContext(api=api, topic=topic, client=client)
        ruling = policy.ruling(verdict, context, code)
        assert expected(policy, overrides, verdict, failure) == ruling


@pytest.mark.parametrize(
    ("fact", "one", "other"),
    [
        ("api", "Fetch", "ListOffsets"),
        ("topic", "a", "b"),
        ("client", "aiokafka", "kafka-python"),
    ],
)
def test_what_was_ruled_elsewhere_says_nothing_here(fact, one, other):
    """The same failure of another request, topic or client, one after the other."""
    policy = RetryPolicy(overrides=[{"when": {fact: one}, "max_attempts": 2}])
    verdict = classify(6, api="Fetch")
    ruled = [
        policy.ruling(verdict, CallContext(**{fact: said}), 6)
        for said in (other, one, other)
    ]
    assert [ruling.max_attempts for ruling in ruled] == [5, 2, 5]


def test_codes_that_share_a_verdict_are_told_apart():
    """9 and -1 of a tiered topic have one rule and one class."""
    policy = RetryPolicy(overrides=[{"when": {"code": -1}, "max_attempts": 2}])
    context = CallContext(api="Fetch", facts=TIERED)
    verdict = classify(9, api="Fetch", facts=TIERED)
    assert verdict is classify(-1, api="Fetch", facts=TIERED)
    attempts = [policy.ruling(verdict, context, code).max_attempts for code in (9, -1)]
    assert attempts == [5, 2]


def test_classes_that_share_a_rule_are_told_apart():
    """Two errors without a code, which the same rule judges."""
    override = {"when": {"error": "RemoteStorageNotReadyError"}, "max_attempts": 2}
    policy = RetryPolicy(overrides=[override])
    attempts = [
        policy.ruling(classify(error), CallContext(), error).max_attempts
        for error in (errors.RetriableError(), errors.RemoteStorageNotReadyError())
    ]
    assert attempts == [5, 2]


def test_the_default_and_zero_of_an_override_count():
    """They are values, and not the absence of one."""
    policy = RetryPolicy(
        in_doubt="resend",
        budget={"cost": {"IN_DOUBT": 5}},
        overrides=[{"when": {"code": 7}, "in_doubt": "raise", "cost": 0}],
    )
    verdict = classify(7, api="Produce")
    ruling = policy.ruling(verdict, CallContext(api="Produce"), 7)
    assert (ruling.in_doubt, ruling.cost) == ("raise", 0)


def test_without_overrides_the_policy_itself_rules():
    """All of its settings, and the costs of its budget."""
    policy = RetryPolicy(
        max_attempts=3,
        max_waits=4,
        deadline=5,
        backoff={"base": 0.5},
        in_doubt="resend",
        on_reject="drop",
        budget={"cost": {"REFRESH": 2}},
    )
    ruling = policy.ruling(classify(6, api="Fetch"), CallContext(api="Fetch"), 6)
    assert ruling == Ruling(
        Action.REFRESH, 3, 4, 5, Backoff(base=0.5), "resend", "drop", 2, None
    )


@pytest.mark.parametrize(("budget", "cost"), [({}, 1.0), (None, 1.0)])
def test_a_retry_costs_one_token_and_a_wait_none(budget, cost):
    """With a budget that names no costs, and without one."""
    policy = RetryPolicy(budget=budget)
    for code, api, paid in ((14, "FindCoordinator", cost), (89, "CreateTopics", 0.0)):
        ruling = policy.ruling(classify(code, api=api), CallContext(api=api), code)
        assert paid == ruling.cost


def test_overrides_see_what_the_broker_said_and_who_reported_it():
    """Not the number alone: an exception has a code and a client of its own."""
    from confluent_kafka import KafkaError, KafkaException

    policy = RetryPolicy(
        overrides=[
            {"when": {"code": 9, "client": "confluent-kafka"}, "max_attempts": 2},
            {"when": {"code": 10}, "max_attempts": 3},
        ]
    )
    error = KafkaException(KafkaError(9))
    verdict = classify(error, api="Fetch", facts=TIERED)
    ruled = policy.ruling(verdict, CallContext(api="Fetch"), error)
    assert ruled.max_attempts == 2
    # The client that the caller names goes before the one that the exception shows.
    ours = CallContext(api="Fetch", client="aiokafka")
    assert policy.ruling(verdict, ours, error).max_attempts == 5
    # An exception without a code is judged by the class of its verdict.
    too_large = errors.MessageTooLargeError()
    verdict = classify(too_large, api="Produce")
    assert policy.ruling(verdict, CallContext(), too_large).max_attempts == 3
    verdict = classify(10, api="Produce")
    assert policy.ruling(verdict, CallContext(), None).max_attempts == 3


def test_the_memory_of_rulings_is_bounded(monkeypatch):
    """Topics without end do not fill it, and what is not kept is ruled all the same."""
    monkeypatch.setattr(rulings, "_MEMO_LIMIT", 10)
    policy = RetryPolicy(overrides=[{"when": {"topic": "t*"}, "max_attempts": 2}])
    verdict = classify(6, api="Fetch")
    for number in range(30):
        context = CallContext(api="Fetch", topic=f"t{number}")
        assert policy.ruling(verdict, context, 6).max_attempts == 2
    assert len(policy._rulings._memo) == 10
    again = CallContext(api="Fetch", topic="t0")
    assert policy.ruling(verdict, again, 6) is policy.ruling(verdict, again, 6)


def test_nothing_overrules_fenced_and_everything_else_may_be():
    """An override that matches by topic orders RETRY of all but that."""
    policy = RetryPolicy(overrides=[{"when": {"topic": "t"}, "action": "RETRY"}])
    context = CallContext(api="Produce", topic="t")
    actions = {
        code: policy.ruling(classify(code, api="Produce"), context, code).action
        for code in (90, 10, 46)
    }
    assert actions == {90: Action.FENCED, 10: Action.RETRY, 46: Action.RETRY}


def test_the_rule_that_decided_counts():
    """The same code of a producer with and without a sequence number."""
    override = {"when": {"rule": "answer-lost"}, "max_attempts": 2}
    policy = RetryPolicy(overrides=[override])
    ruled = [
        policy.ruling(
            classify(7, api="Produce", idempotent=known), CallContext(api="Produce"), 7
        )
        for known in (True, False, True)
    ]
    assert [ruling.max_attempts for ruling in ruled] == [5, 2, 5]


def test_before_any_failure_a_retry_is_ruled():
    """What the breaker's pause and the deadline go by."""
    policy = RetryPolicy(budget={"cost": {"RETRY": 3, "REFRESH": 4}})
    assert (policy.first_ruling.action, policy.first_ruling.cost) == (Action.RETRY, 3)
