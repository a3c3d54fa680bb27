"""A kafka-python that has changed inside is noticed, and used by its public interface."""

from __future__ import annotations

import logging

import pytest
from kafka import KafkaConsumer
from kafka.errors import IllegalStateError

from kafkaguard import errors, guard
from kafkaguard_adapters.kafka_python._private.consuming import names
from kafkaguard_adapters.kafka_python.consumer import GuardedConsumer


@pytest.fixture
def consumer():
    """A consumer that reaches no broker, and needs none."""
    made = KafkaConsumer(bootstrap_servers="127.0.0.1:1", api_version=(2, 6))
    yield made
    made.close(timeout_ms=100)


def test_nothing_is_missing_today(consumer):
    """Every name is there in the version that is installed."""
    assert names.missing(consumer) == []


@pytest.mark.parametrize(
    ("owner", "name"),
    [("_fetcher", "_parse_fetched_data"), ("_subscription", "is_fetchable")],
)
def test_a_name_that_is_gone_is_said_and_the_rest_goes_on(
    consumer, monkeypatch, caplog, owner, name
):
    """One warning; polling still raises errors of both classes."""
    monkeypatch.delattr(type(getattr(consumer, owner)), name)
    with caplog.at_level(logging.WARNING, "kafkaguard.consumer"):
        guarded = guard(consumer)
    assert type(guarded) is not GuardedConsumer
    assert name in caplog.text
    monkeypatch.undo()
    guarded.close(timeout_ms=100)
    with pytest.raises(errors.ClientClosedError) as caught:
        guarded.poll()
    assert isinstance(caught.value, IllegalStateError)


def test_a_method_that_takes_something_else_counts_as_missing(consumer, monkeypatch):
    """What replaces it would be called wrongly."""
    monkeypatch.setattr(
        type(consumer._fetcher), "_fetchable_partitions", lambda self, nodes: []
    )
    assert names.missing(consumer) == ["fetcher._fetchable_partitions()"]


def test_what_replaces_a_method_takes_the_same(consumer):
    """Keywords and order are the client's own."""
    guard(consumer)
    assert names.missing(consumer) == []
