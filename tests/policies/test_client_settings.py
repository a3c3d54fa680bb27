"""A policy as settings of a client: which ones, and that each client takes them."""

from __future__ import annotations

from contextlib import suppress

import pytest
from confluent_kafka import KafkaException, Producer
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kafka.producer.record_accumulator import RecordAccumulator

from kafkaguard import RetryPolicy, load_policy
from kafkaguard_adapters.policy_in_effect import policy_for
from kafkaguard_policies.advice.client_settings import (
    DEFAULTS,
    added_settings,
    is_idempotent,
)
from kafkaguard_policies.reading.sources import presets

CLIENTS = sorted(DEFAULTS)
ORDERS = RetryPolicy(
    deadline=60,
    attempt_timeout=10,
    max_attempts=8,
    backoff={"base": 0.5, "cap": 4},
)
POLICIES = st.one_of(
    st.sampled_from(presets()).map(load_policy),
    st.builds(
        RetryPolicy,
        deadline=st.sampled_from([0.001, 1, 3, 60, 86_400, "unbounded"]),
        max_attempts=st.sampled_from([1, 2, 100, "unbounded"]),
        backoff=st.sampled_from([{"base": 0.001, "cap": 0.001}, {"cap": 600}]),
    ),
)


@pytest.mark.parametrize(
    ("client", "own", "added"),
    [
        (
            "confluent-kafka",
            {},
            {
                "delivery.timeout.ms": 60_000,
                "request.timeout.ms": 10_000,
                "retry.backoff.ms": 500,
                "retry.backoff.max.ms": 4_000,
                "retries": 7,
            },
        ),
        (
            "kafka-python",
            {},
            {
                "delivery.timeout.ms": 60_000,
                "request.timeout.ms": 10_000,
                "retry.backoff.ms": 500,
                "max.block.ms": 60_000,
            },
        ),
        (
            "kafka-python",
            {"enable.idempotence": False, "max.block.ms": 5, "retry.backoff.ms": 1},
            {
                "delivery.timeout.ms": 60_000,
                "request.timeout.ms": 10_000,
                "retries": 7,
            },
        ),
        ("aiokafka", {}, {"request.timeout.ms": 60_000, "retry.backoff.ms": 500}),
    ],
)
def test_a_policy_becomes_settings_where_the_application_set_none(client, own, added):
    """Attempts only without idempotence, which needs the client's own repeats."""
    assert added_settings(ORDERS, client, own) == added


@pytest.mark.parametrize(
    ("client", "own", "name", "value"),
    [
        # A request has a part of the time, so that one without an answer is repeated.
        ("kafka-python", {}, "request.timeout.ms", 750),
        ("kafka-python", {"linger.ms": 1_000}, "request.timeout.ms", 500),
        ("confluent-kafka", {"delivery.timeout.ms": 400}, "request.timeout.ms", 100),
        # The client refuses a shorter time.
        ("kafka-python", {"request.timeout.ms": 9_000}, "delivery.timeout.ms", 9_000),
        ("confluent-kafka", {"linger.ms": "5000"}, "delivery.timeout.ms", 5_001),
        # And one that outlasts its transaction.
        (
            "confluent-kafka",
            {"transactional.id": "t", "transaction.timeout.ms": 2_000},
            "delivery.timeout.ms",
            2_000,
        ),
    ],
)
def test_a_setting_fits_the_others(client, own, name, value):
    """A policy of 3 s beside settings of the application."""
    assert added_settings(RetryPolicy(deadline=3), client, own)[name] == value


def taken(**optional):
    """Settings of an application."""
    return st.fixed_dictionaries({}, optional=optional)


@settings(max_examples=30, deadline=None)
@given(
    POLICIES,
    taken(
        **{
            "linger.ms": st.integers(0, 900_000),
            "enable.idempotence": st.booleans(),
            "transactional.id": st.just("t"),
            "request.timeout.ms": st.integers(1, 900_000),
        }
    ),
)
@example(RetryPolicy(deadline="unbounded"), {"transactional.id": "t"})
def test_librdkafka_takes_what_is_added(policy, own):
    """Whatever the policy says: no producer is refused that was taken without it."""
    base = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}
    with suppress(KafkaException):
        Producer({**base, **own}).close()
        Producer({**base, **own, **added_settings(policy, "confluent-kafka", own)})
        return
    with pytest.raises(KafkaException):
        Producer({**base, **own})


@given(
    POLICIES,
    taken(
        **{
            "linger.ms": st.integers(0, 900_000),
            "delivery.timeout.ms": st.integers(1, 900_000),
            "request.timeout.ms": st.integers(1, 900_000),
        }
    ),
)
def test_kafka_python_takes_what_is_added(policy, own):
    """Its own check of three settings, unless the application has broken it."""
    added = added_settings(policy, "kafka-python", own)
    whole = {name.replace(".", "_"): value for name, value in (own | added).items()}
    names = ("linger_ms", "delivery_timeout_ms", "request_timeout_ms")
    config = {name: whole[name] for name in names if name in whole}
    fixed = own.get("delivery.timeout.ms")
    own_s = own.get("linger.ms", 0) + own.get("request.timeout.ms", 1)
    if fixed is None or fixed >= own_s:
        RecordAccumulator(**config)


@given(
    POLICIES,
    st.sampled_from(CLIENTS),
    taken(
        **{
            "retries": st.integers(0, 9),
            "acks": st.sampled_from([0, 1, -1, "all"]),
            "enable.idempotence": st.sampled_from([True, False, "true", "false"]),
            "linger.ms": st.sampled_from([5, "5", "five", None]),
        }
    ),
)
def test_nothing_of_the_application_changes(policy, client, own):
    """Nor is anything added to it twice; a value that is no number is the client's."""
    added = added_settings(policy, client, own)
    assert not added.keys() & own.keys()
    if is_idempotent(client, own):
        assert "retries" not in added
    assert added.keys() <= DEFAULTS[client].keys()


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("preset", presets())
def test_each_preset_shows_what_it_becomes(client, preset):
    """Each setting of the policy has a row, and somebody who obeys it."""
    effect = policy_for(load_policy(preset), client)
    shown = {row.setting for row in effect.settings}
    assert {"deadline", "max_attempts", "on_reject", "backoff.base"} <= shown
    lines = str(effect).splitlines()
    assert len(lines) == len(effect.settings) + 2
    for row in effect.settings:
        absent = row.setting == "attempt_timeout" and row.value == "none"
        assert bool(row.obeyed_by) is not absent
        if row.became:
            assert row.obeyed_by == "the client"
