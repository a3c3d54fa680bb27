"""A send that is refused while another thread ends the transaction."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kafkaguard.errors import InvalidRecordError
from kafkaguard_adapters.building import Wish
from kafkaguard_adapters.confluent.transactions import (
    Transactions as ConfluentTransactions,
)
from kafkaguard_adapters.kafka_python import transactions as kafka_python
from kafkaguard_adapters.producing.barrier import SendBarrier
from kafkaguard_adapters.producing.driver import ThreadDriver
from kafkaguard_adapters.producing.time_limit import TimeLimit
from tests.adapters.test_thread_driver import Client, NoFacts
from tests.delivery.world.words import PlainPolicy

NO_CLIENT = SimpleNamespace(is_transactional=True, producer=None)


@pytest.fixture
def driver():
    """The driver of a transactional client, which nothing is sent to."""
    client = Client(transactional=True)
    return ThreadDriver(client, Wish(PlainPolicy(), cache=NoFacts()), SendBarrier())


@pytest.fixture(params=["kafka-python", "confluent-kafka"])
def transactions(request, driver, monkeypatch):
    """Transactions of a client, one of which is open."""
    if request.param == "kafka-python":
        monkeypatch.setattr(kafka_python.inside, "mend", lambda _: None)
        monkeypatch.setattr(kafka_python.reading, "is_in_transaction", lambda _: True)
        return kafka_python.Transactions(NO_CLIENT, driver)
    made = ConfluentTransactions(NO_CLIENT, driver, None, TimeLimit(1.0, "timeout"))
    made._is_open = True
    return made


def test_it_spoils_the_transaction_that_is_open(transactions, driver):
    """As Java's producer does."""
    error = InvalidRecordError()
    transactions.spoil(error)
    assert driver.machine.transaction_failure is error


def test_it_does_not_spoil_the_next_one(transactions, driver, monkeypatch):
    """Another thread commits after the look at the state, and before the report."""
    spoil = driver.spoil_transaction

    def late(*what):
        driver.transaction_ended()
        spoil(*what)

    monkeypatch.setattr(driver, "spoil_transaction", late)
    transactions.spoil(InvalidRecordError())
    assert driver.machine.transaction_failure is None
