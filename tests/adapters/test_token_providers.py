"""A token provider that fails is told as one, and may work again: RETRY."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka.abc import AbstractTokenProvider as AwaitedTokenProvider
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaConnectionError
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.errors import KafkaTimeoutError
from kafka.net.sasl.oauth import AbstractTokenProvider

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from kafkaguard import Action, classify, errors, guard
from kafkaguard.testing import KafkaCluster
from tests import leaks

#: Nobody listens there.
NOWHERE = "127.0.0.1:9"
FAILURE = RuntimeError("the token server answered 503; password=hidden")


class Provider(AbstractTokenProvider):
    """A provider of kafka-python that fails."""

    def token(self):
        """Fail."""
        raise FAILURE


class AwaitedProvider(AwaitedTokenProvider):
    """A provider of aiokafka that fails."""

    async def token(self):
        """Fail."""
        raise FAILURE


def fail(_):
    """Fail, as an ``oauth_cb``."""
    raise FAILURE


def config(provider, **settings):
    """Make settings of kafka-python or aiokafka."""
    return {
        "bootstrap_servers": NOWHERE,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": provider,
        **settings,
    }


def check(error, theirs):
    """Check what the error says: what to do, and why."""
    assert isinstance(error, errors.TokenProviderError)
    assert isinstance(error, theirs)
    assert (error.verdict.action, error.verdict.written) == (Action.RETRY, "no")
    assert "the token provider failed" in str(error)
    assert "hidden" not in str(error)


def causes(error):
    """List what an error was raised from."""
    while (error := error.__cause__) is not None:
        yield error


@pytest.mark.parametrize("factory", [Consumer, Producer, AdminClient])
def test_an_oauth_cb_that_fails_while_the_client_is_built(factory):
    """Each of them raises its error, and not a SystemError, after 10 s of its own."""
    settings = {
        "bootstrap.servers": NOWHERE,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": fail,
    }
    more = {"group.id": "g"} if factory is Consumer else {}
    with pytest.raises(KafkaException) as caught:
        guard(factory=factory, config={**settings, **more})
    check(caught.value, KafkaException)
    assert FAILURE in causes(caught.value)


def test_an_error_that_is_hidden_twice_is_found():
    """A callback that raises while the client's own error is set hides it once more."""

    class Hiding(Producer):
        """A client whose callbacks run at the wrong moment."""

        def __init__(self, _):
            text = "Failed to acquire SASL OAUTHBEARER token: the provider failed"
            try:
                try:
                    raise KafkaException(KafkaError(KafkaError._AUTHENTICATION, text))
                except KafkaException:
                    raise FAILURE
            except RuntimeError as error:
                raise SystemError("returned a result with an exception set") from error

    with pytest.raises(KafkaException) as caught:
        guard(factory=Hiding, config={"bootstrap.servers": NOWHERE})
    check(caught.value, KafkaException)


def test_an_oauth_cb_that_fails_later():
    """The report in error_cb has the text of the callback's exception."""
    text = f"Failed to acquire SASL OAUTHBEARER token: {FAILURE}"
    verdict = classify(KafkaError(KafkaError._AUTHENTICATION, text))
    assert verdict.error_class is errors.TokenProviderError
    assert verdict.action is Action.RETRY


@pytest.mark.parametrize("factory", [KafkaAdminClient, KafkaConsumer, KafkaProducer])
def test_a_token_provider_of_kafka_python(factory):
    """Its own constructors say only that no broker could be reached in time."""
    settings = config(Provider(), bootstrap_timeout_ms=500)
    with pytest.raises(errors.TokenProviderError) as caught:
        guard(factory=factory, config=settings)
    check(caught.value, KafkaTimeoutError)
    assert FAILURE in causes(caught.value)
    leaks.end_unbuilt_clients()


CLIENTS = [AIOKafkaAdminClient, AIOKafkaConsumer, AIOKafkaProducer]


@pytest.mark.parametrize("factory", CLIENTS)
async def test_a_token_provider_of_aiokafka(factory):
    """Its own ``start`` says that no broker could be reached."""
    more = {"enable_idempotence": True} if factory is AIOKafkaProducer else {}
    client = guard(factory=factory, config=config(AwaitedProvider(), **more))
    with pytest.raises(errors.TokenProviderError) as caught:
        await client.start()
    check(caught.value, KafkaConnectionError)
    assert FAILURE in causes(caught.value)


@pytest.mark.parametrize("factory", CLIENTS)
async def test_aiokafka_takes_a_failed_token_for_a_failed_connection(factory):
    """Another exception would end start() without a verdict, or the producer's task."""
    more = {"enable_idempotence": True} if factory is AIOKafkaProducer else {}
    client = factory(**config(AwaitedProvider(), **more))
    guarded = guard(client)
    inner = getattr(client, "_client", None) or client.client
    with pytest.raises(KafkaConnectionError) as caught:
        await inner._sasl_oauth_token_provider.token()
    check(caught.value, errors.TokenProviderError)
    assert FAILURE in causes(caught.value)
    await guarded.close() if factory is AIOKafkaAdminClient else await guarded.stop()
    await asyncio.sleep(0)


class Recovering(AwaitedTokenProvider):
    """A provider of aiokafka whose token server is down at first."""

    def __init__(self, working):
        self.working, self.fails = working, True

    async def token(self):
        """Fail, or give the token."""
        if self.fails:
            raise FAILURE
        return await self.working.token()


@pytest.mark.java
async def test_a_broker_that_asks_for_a_token_is_reached_once_there_is_one():
    """aiokafka: ``start`` says whose failure it was, and works when called again."""
    with KafkaCluster(oauth=True, super_users=["alice"]) as cluster:
        settings = cluster.client_config("OAUTHBEARER", client="aiokafka", user="alice")
        provider = Recovering(settings["sasl_oauth_token_provider"])
        settings["sasl_oauth_token_provider"] = provider
        topic = cluster.create_topic()
        config = {**settings, "enable_idempotence": True}
        producer = guard(factory=AIOKafkaProducer, config=config)
        with pytest.raises(errors.TokenProviderError) as caught:
            await producer.start()
        check(caught.value, KafkaConnectionError)
        provider.fails = False
        await producer.start()
        try:
            assert (await producer.send_and_wait(topic, b"v", b"k")).offset == 0
        finally:
            await producer.stop()
