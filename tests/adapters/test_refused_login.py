"""A refused login is told as one by every client that hides it."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from kafka import KafkaAdminClient, KafkaConsumer
from kafka.errors import KafkaConnectionError, KafkaTimeoutError

from aiokafka import AIOKafkaConsumer
from kafkaguard import Action, errors, guard
from kafkaguard_adapters.asking.cluster_view import explain
from kafkaguard_adapters.kafka_python.errors import errors as kafka_python
from kafkaguard_adapters.kafka_python.settings import read_settings
from tests import leaks

SECRET = "not-bobs-password"


def config(users, client, **settings):
    """Make settings with a wrong password."""
    known = users.client_config("SASL_PLAIN", client=client, user="bob")
    return {**known, "sasl_plain_password": SECRET, **settings}


def check(error):
    """Check what is told."""
    assert isinstance(error, errors.SaslAuthenticationFailedError)
    assert (error.code, error.verdict.action) == (58, Action.CONFIGURE)
    assert SECRET not in str(error)


@pytest.mark.parametrize("factory", [KafkaAdminClient, KafkaConsumer])
def test_the_clients_of_kafka_python_are_not_built(kafka_users, factory):
    """Their own constructors say only that no broker could be reached in time."""
    settings = config(kafka_users, "kafka-python", bootstrap_timeout_ms=2_000)
    with pytest.raises(KafkaTimeoutError) as caught:
        guard(factory=factory, config=settings)
    check(caught.value)
    leaks.end_unbuilt_clients()


@pytest.mark.parametrize("factory", [AIOKafkaAdminClient, AIOKafkaConsumer])
async def test_the_clients_of_aiokafka_do_not_start(kafka_users, factory):
    """Their own `start()` says that no broker could be reached."""
    client = guard(factory=factory, config=config(kafka_users, "aiokafka"))
    with pytest.raises(errors.SaslAuthenticationFailedError) as caught:
        await client.start()
    check(caught.value)


def translated(original):
    """Translate an exception of kafka-python."""
    return kafka_python.translate(original)


@pytest.mark.parametrize("original", [KafkaTimeoutError(), KafkaConnectionError()])
def test_a_login_that_succeeds_leaves_the_clients_own_error(kafka_users, original):
    """If the guard can log in, the client's own error is raised unchanged."""
    settings = kafka_users.client_config("SASL_PLAIN", user="bob")
    error = translated(original)

    def read():
        return read_settings(settings, kafka_python.make)

    assert error is asyncio.run(explain(error, read, kafka_python.make))


def test_an_error_about_something_else_costs_no_login():
    """Each further wrong login may lock the account."""
    error = translated(kafka_python.class_for(87)())
    assert error is asyncio.run(explain(error, None, kafka_python.make))
