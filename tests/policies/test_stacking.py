"""Two layers that try again: what is found, and that what is proposed works."""

from __future__ import annotations

import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaguard import load_policy
from kafkaguard.policies import (
    RetryPolicy,
    StackingError,
    StackingWarning,
    check_stacking,
    presets,
    report_stacking,
)

PRODUCER = {
    "retries": 2_147_483_647,
    "enable.idempotence": True,
    "delivery.timeout.ms": 120_000,
    "request.timeout.ms": 30_000,
    "max.block.ms": 60_000,
}
CONSUMER = {"max.poll.interval.ms": 300_000, "session.timeout.ms": 45_000}
ADMIN = {"request.timeout.ms": 30_000}


def found(policy, settings, kind="producer"):
    """The findings about a policy beside settings, by id."""
    findings = check_stacking(policy, settings, kind=kind, client="aiokafka")
    return {finding.id: finding for finding in findings}


@pytest.mark.parametrize(
    ("preset", "kind", "settings"),
    [
        ("default", "producer", PRODUCER),
        ("idempotent-producer", "producer", PRODUCER),
        ("bulk-load", "producer", PRODUCER),
        ("spark-sink", "producer", PRODUCER),
        ("consumer", "consumer", CONSUMER),
        ("consumer", "consumer", {**CONSUMER, "session.timeout.ms": 10_000}),
        ("admin", "admin", ADMIN),
        (
            "transactional-producer",
            "producer",
            {
                **PRODUCER,
                "transactional.id": "t",
                "transaction.timeout.ms": 60_000,
                "delivery.timeout.ms": 40_000,
                "max.block.ms": 10_000,
            },
        ),
    ],
)
def test_presets_go_with_the_clients_they_are_for(preset, kind, settings):
    """Kafka's own defaults beside the preset meant for them: nothing to say."""
    assert found(load_policy(preset), settings, kind) == {}


@pytest.mark.parametrize(
    ("policy", "kind", "settings", "finding"),
    [
        (
            {},
            "producer",
            {"retries": 5, "enable.idempotence": False},
            "retries-without-idempotence",
        ),
        ({"deadline": 60}, "producer", PRODUCER, "client-outlasts-policy"),
        (
            {"deadline": 60},
            "producer",
            {"max.block.ms": 60_000},
            "blocked-past-deadline",
        ),
        ({"deadline": "unbounded"}, "producer", PRODUCER, "multiplied-waits"),
        (
            {},
            "producer",
            {"request.timeout.ms": 9_000, "delivery.timeout.ms": 9_000},
            "client-never-retries",
        ),
        ({"attempt_timeout": 5}, "admin", ADMIN, "attempt-ends-in-doubt"),
        (
            {},
            "producer",
            {"transactional.id": "t", "transaction.timeout.ms": 50_000},
            "coordinator-aborts-first",
        ),
        ({"deadline": 400}, "consumer", CONSUMER, "rebalance-while-retrying"),
        ({"backoff": {"cap": 50}}, "consumer", CONSUMER, "session-ends-while-waiting"),
    ],
)
def test_a_combination_that_does_not_work_is_found(policy, kind, settings, finding):
    """The message names both settings and a value; that value works."""
    policy = RetryPolicy(**policy)
    one = found(policy, settings, kind)[finding]
    text = str(one)
    assert one.setting in text
    assert one.other in text
    assert f"{one.change} = {one.value} works" in text
    assert finding not in found(*changed(policy, settings, one), kind)


def changed(policy, settings, finding):
    """Follow what a finding proposes."""
    if "." in finding.change and not finding.change.startswith("backoff"):
        return policy, {**settings, finding.change: finding.value}
    if finding.change == "backoff.cap":
        backoff = {**policy.backoff.model_dump(), "cap": finding.value}
        return policy.replace(backoff=backoff), settings
    return policy.replace(**{finding.change: finding.value}), settings


@given(
    st.sampled_from(presets()),
    st.sampled_from(["producer", "consumer", "admin"]),
    st.fixed_dictionaries(
        {},
        optional={
            "retries": st.integers(0, 9),
            "enable.idempotence": st.booleans(),
            "delivery.timeout.ms": st.integers(1_000, 900_000),
            "request.timeout.ms": st.integers(1_000, 90_000),
            "max.block.ms": st.integers(1_000, 900_000),
            "transactional.id": st.just("t"),
            "transaction.timeout.ms": st.integers(1_000, 900_000),
            "max.poll.interval.ms": st.integers(1_000, 900_000),
            "session.timeout.ms": st.integers(1_000, 90_000),
        },
    ),
)
def test_following_a_proposal_mends_what_it_is_about(preset, kind, settings):
    """For any settings: each finding is gone once its value is taken."""
    policy = load_policy(preset)
    for finding in found(policy, settings, kind).values():
        try:
            mended = changed(policy, settings, finding)
        except ValueError:  # a cap below base: both must change
            assert finding.change == "backoff.cap"
            continue
        assert finding.id not in found(*mended, kind)


def test_settings_that_cannot_be_read_are_reported_as_such():
    """A bare confluent-kafka instance keeps them to itself."""
    (finding,) = check_stacking(
        RetryPolicy(), None, kind="producer", client="confluent-kafka"
    )
    assert finding.id == "settings-unreadable"
    assert "confluent-kafka" in str(finding)
    assert "config=" in str(finding)


def test_findings_are_warnings_and_errors_where_strict():
    """One warning for each; strict raises them together; none is silence."""
    settings = {**PRODUCER, "enable.idempotence": False}
    findings = check_stacking(
        RetryPolicy(deadline=60), settings, kind="producer", client="aiokafka"
    )
    assert len(findings) == 3
    with pytest.warns(StackingWarning) as caught:
        report_stacking(findings)
    assert [str(f) for f in findings] == [str(w.message) for w in caught]
    with pytest.raises(
        StackingError, match=r"enable.idempotence = True works"
    ) as refused:
        report_stacking(findings, strict=True)
    assert findings == refused.value.findings
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report_stacking((), strict=True)
