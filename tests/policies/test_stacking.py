"""Two layers that try again: what is found, and that what is proposed works."""

from __future__ import annotations

import linecache
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaguard import RetryPolicy, load_policy
from kafkaguard.errors import StackingError, StackingWarning
from kafkaguard.policies import check_stacking
from kafkaguard_policies.advice.stacking import report_stacking
from kafkaguard_policies.reading.sources import presets

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
    findings = check_stacking(policy, settings, kind=kind, client="kafka-python")
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
            {"retries": 4, "enable.idempotence": False},
            "retries-without-idempotence",
        ),
        (
            {"deadline": 60},
            "producer",
            {"delivery.timeout.ms": 90_000},
            "policy-overruled",
        ),
        ({"deadline": 60}, "producer", {"max.block.ms": 60_001}, "policy-overruled"),
        (
            {"attempt_timeout": 5},
            "producer",
            {"request.timeout.ms": 30_000},
            "policy-overruled",
        ),
        (
            {"backoff": {"base": 2}},
            "producer",
            {"retry.backoff.ms": 100},
            "policy-overruled",
        ),
        (
            {"max_attempts": 2},
            "producer",
            {"retries": 2, "enable.idempotence": False},
            "policy-overruled",
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


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("producer", {"transactional.id": "t", "transaction.timeout.ms": 3_000}),
        ("consumer", {"max.poll.interval.ms": 3_000, "session.timeout.ms": 1_000}),
    ],
)
def test_a_value_that_works_is_written_as_people_write_it(kind, settings):
    """A proposed value is rounded: 2.4, not 2.4000000000000004."""
    told = [str(each) for each in found(RetryPolicy(), settings, kind).values()]
    assert any(text.endswith("; deadline = 2.4 works") for text in told)


NONE = frozenset()


@pytest.mark.parametrize(
    ("policy", "kind", "settings", "ids"),
    [
        # Retries are safe with idempotence, and where there are none.
        ({}, "producer", {"retries": 5, "enable.idempotence": True}, NONE),
        ({}, "producer", {"retries": 0, "enable.idempotence": False}, NONE),
        ({}, "producer", {"retries": 5}, NONE),
        ({}, "consumer", {"retries": 5, "enable.idempotence": False}, NONE),
        # A broker that does not answer refuses nothing.
        ({}, "producer", {"acks": 0}, {"acks-none"}),
        ({}, "producer", {"acks": 1}, NONE),
        ({}, "admin", {"acks": 0}, NONE),
        # The client's delivery limit beside the deadline, whose default is 120 s.
        ({"deadline": 60}, "producer", {"delivery.timeout.ms": 60_000}, NONE),
        (
            {"deadline": 60},
            "producer",
            {"delivery.timeout.ms": 60_001},
            {"policy-overruled"},
        ),
        (
            {"deadline": 60},
            "producer",
            {"delivery.timeout.ms": 90_000, "transactional.id": "t"},
            NONE,
        ),
        # Both as they come: nobody chose them.
        ({}, "producer", {"delivery.timeout.ms": 120_000}, NONE),
        ({}, "producer", {"delivery.timeout.ms": 121_000}, {"policy-overruled"}),
        (
            {"deadline": 119},
            "producer",
            {"delivery.timeout.ms": 300_000},
            {"policy-overruled"},
        ),
        (
            {"deadline": 121},
            "producer",
            {"delivery.timeout.ms": 120_000},
            NONE,
        ),
        (
            {"deadline": 121},
            "producer",
            {"transactional.id": "t", "transaction.timeout.ms": 60_000},
            {"coordinator-aborts-first"},
        ),
        # What blocks beside the deadline.
        ({"deadline": 60}, "producer", {"max.block.ms": 60_000}, NONE),
        (
            {"deadline": 60},
            "producer",
            {"max.block.ms": 60_001},
            {"policy-overruled"},
        ),
        # Without a deadline attempts multiply.
        (
            {"deadline": "unbounded", "max_attempts": 2},
            "admin",
            {"request.timeout.ms": 1_000},
            {"multiplied-waits"},
        ),
        (
            {"deadline": "unbounded", "max_attempts": 1},
            "admin",
            {"request.timeout.ms": 1_000},
            NONE,
        ),
        ({"deadline": "unbounded"}, "admin", {}, NONE),
        ({"deadline": 3}, "admin", {"request.timeout.ms": 1_000}, NONE),
        # One request beside delivery, and beside an attempt.
        (
            {},
            "producer",
            {"request.timeout.ms": 8_999, "delivery.timeout.ms": 9_000},
            NONE,
        ),
        (
            {},
            "producer",
            {"request.timeout.ms": 9_000, "delivery.timeout.ms": 9_000},
            {"client-never-retries"},
        ),
        ({}, "producer", {"request.timeout.ms": 9_000}, NONE),
        ({"attempt_timeout": 5}, "admin", {"request.timeout.ms": 5_000}, NONE),
        (
            {"attempt_timeout": 5},
            "admin",
            {"request.timeout.ms": 5_001},
            {"attempt-ends-in-doubt"},
        ),
        # Transactions: as they come, at the limit, below it, and without one.
        (
            {},
            "producer",
            {"transactional.id": "t", "transaction.timeout.ms": 60_000},
            NONE,
        ),
        (
            {"deadline": 50},
            "producer",
            {"transactional.id": "t", "transaction.timeout.ms": 50_000},
            {"coordinator-aborts-first"},
        ),
        (
            {"deadline": 49},
            "producer",
            {"transactional.id": "t", "transaction.timeout.ms": 50_000},
            NONE,
        ),
        ({"deadline": 50}, "producer", {"transaction.timeout.ms": 50_000}, NONE),
        (
            {"deadline": 60},
            "producer",
            {"transactional.id": "t", "transaction.timeout.ms": 60_000},
            {"coordinator-aborts-first"},
        ),
        ({"deadline": 60}, "producer", {"transactional.id": "t"}, NONE),
        # The group's limits.
        (
            {"deadline": 300},
            "consumer",
            {"max.poll.interval.ms": 300_000},
            {"rebalance-while-retrying"},
        ),
        ({"deadline": 299}, "consumer", {"max.poll.interval.ms": 300_000}, NONE),
        ({"deadline": 300}, "producer", {"max.poll.interval.ms": 300_000}, NONE),
        (
            {},
            "consumer",
            {"session.timeout.ms": 5_000},
            {"session-ends-while-waiting"},
        ),
        ({}, "consumer", {"session.timeout.ms": 5_001}, NONE),
        # A negative limit is none, and what is missing is not compared.
        ({}, "producer", {"delivery.timeout.ms": -1, "max.block.ms": -1}, NONE),
        ({"deadline": 60}, "producer", {}, NONE),
        ({"deadline": 400}, "consumer", {}, NONE),
    ],
)
def test_settings_clash_from_where_they_do(policy, kind, settings, ids):
    """At the limit, just beside it, and where the other setting is not there."""
    assert ids == set(found(RetryPolicy(**policy), settings, kind))


def test_what_is_proposed_leaves_room():
    """The values that are proposed, for one clash of each kind."""
    everything = {
        "enable.idempotence": False,
        "retries": 3,
        "acks": 0,
        "delivery.timeout.ms": 90_000,
        "max.block.ms": 61_000,
        "request.timeout.ms": 92_000,
        "transactional.id": "",
    }
    policy = RetryPolicy(deadline=92, attempt_timeout=10)
    ours = {f.id: (f.change, f.value) for f in found(policy, everything).values()}
    assert ours == {
        "retries-without-idempotence": ("enable.idempotence", True),
        "acks-none": ("acks", "all"),
        "client-never-retries": ("request.timeout.ms", 22_500),
        "policy-overruled": ("request.timeout.ms", 10_000),
    }
    endless = RetryPolicy(deadline="unbounded")
    (waits,) = found(
        endless, {"max.block.ms": 7_000, "request.timeout.ms": 2_000}
    ).values()
    assert (waits.setting, waits.change, waits.value) == (
        "max.block.ms",
        "deadline",
        14,
    )
    aborts = {"transactional.id": "t", "transaction.timeout.ms": 50_000}
    (first,) = found(policy, aborts).values()
    assert (first.change, first.value) == ("deadline", 40)
    group = found(
        RetryPolicy(deadline=900), {**CONSUMER, "session.timeout.ms": 3_000}, "consumer"
    )
    assert [(f.change, f.value) for f in group.values()] == [
        ("deadline", 240),
        ("backoff.cap", 1),
    ]


def test_a_kind_or_client_that_there_is_not_is_refused():
    """The error for an unknown kind or client lists those that exist."""
    with pytest.raises(ValueError, match="kind"):
        check_stacking(RetryPolicy(), {}, kind="stream", client="aiokafka")
    with pytest.raises(ValueError, match="client"):
        check_stacking(RetryPolicy(), {}, kind="admin", client="pykafka")


@pytest.mark.parametrize("client", ["kafka-python", "confluent-kafka", "aiokafka"])
def test_each_client_is_known(client):
    """It is named where its settings cannot be read."""
    (finding,) = check_stacking(RetryPolicy(), None, kind="admin", client=client)
    assert f"a bare {client} client" in finding.message


def changed(policy, settings, finding):
    """Follow what a finding proposes."""
    if finding.change.partition(".")[0] not in RetryPolicy.model_fields:
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
    for finding in check_stacking(policy, settings, kind=kind, client="kafka-python"):
        try:
            mended = changed(policy, settings, finding)
        except ValueError:  # a cap below base: both must change
            assert finding.change == "backoff.cap"
            continue
        others = check_stacking(*mended, kind=kind, client="kafka-python")
        assert (finding.id, finding.setting) not in {(f.id, f.setting) for f in others}


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
    settings = {**PRODUCER, "enable.idempotence": False, "acks": 0}
    findings = check_stacking(
        RetryPolicy(deadline=90), settings, kind="producer", client="kafka-python"
    )
    assert len(findings) == 4
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


@pytest.mark.parametrize("wrong", [{"strict": 1}, {"stacklevel": 0}])
def test_wrong_arguments_of_a_report_are_named(wrong):
    """Also where there is nothing to report."""
    with pytest.raises((TypeError, ValueError), match=next(iter(wrong))):
        report_stacking((), **wrong)


def test_a_warning_points_at_the_caller():
    """By default at the line that called the function that reports."""
    findings = check_stacking(RetryPolicy(), None, kind="admin", client="aiokafka")

    def report(**level):
        report_stacking(findings, **level)

    for level in ({}, {"stacklevel": 3}):
        with pytest.warns(StackingWarning) as caught:
            report(**level)
        (warning,) = caught
        assert warning.filename == __file__
        assert "report(**level)" in linecache.getline(__file__, warning.lineno)
        assert "report_stacking" not in linecache.getline(__file__, warning.lineno)
