"""What one transaction of kafka-python leaves for the next one, without a broker."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from kafka.errors import KafkaError

from kafkaguard_adapters.kafka_python import transactions as module
from kafkaguard_adapters.kafka_python.transaction_errors import words


@pytest.fixture
def renewed():
    """The new producers that took over the id."""
    return []


@pytest.fixture
def transactions(monkeypatch, renewed):
    """The transactions of a producer that succeeds in all."""
    for name in ("mend", "begin_transaction"):
        monkeypatch.setattr(module.inside, name, lambda _: None)
    manager = SimpleNamespace(is_bumping_epoch=lambda: False, has_error=lambda: False)
    producer = SimpleNamespace(
        _transaction_manager=manager, _sender=None, _closed=False
    )
    shell = SimpleNamespace(
        is_transactional=True, producer=producer, renew=renewed.append
    )
    driver = SimpleNamespace(
        transaction_ended=lambda: None,
        recreated=lambda: None,
        retire=lambda: None,
        machine=SimpleNamespace(transaction_failure=None, has_gap=False),
    )
    return module.Transactions(shell, driver)


@pytest.mark.parametrize(
    ("name", "left"),
    [
        ("_stuck", words.not_aborted(KafkaError("no answer"))),
        ("_lost_commit", KafkaError("no answer")),
        ("_needs_new_epoch", True),
    ],
)
def test_a_transaction_that_did_not_end_costs_one_new_producer(
    transactions, renewed, name, left
):
    """The second begin after it finds nothing of it."""
    setattr(transactions, name, left)
    transactions._open_end = (False, None, None)
    transactions._open_offsets = ({}, "g", None)
    transactions.begin()
    assert len(renewed) == 1
    assert transactions._open_end is None
    assert transactions._open_offsets is None
    assert not getattr(transactions, name)
    transactions.begin()
    assert len(renewed) == 1
