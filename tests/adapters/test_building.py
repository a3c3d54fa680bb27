"""How the guard builds a client again."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from kafka import KafkaProducer

from kafkaguard import errors, guard, load_policy
from kafkaguard.errors import PolicyError
from kafkaguard_adapters.building import Builder, Wish
from kafkaguard_adapters.kafka_python.errors import errors as client_errors

POLICY = load_policy("default")


class Client:
    """A client that keeps what it was built with."""

    def __init__(self, *args, **settings):
        self.args, self.settings = args, settings


def builder(settings=None, **wish):
    """Make a builder for a client whose settings were read, or not."""
    return Builder(Wish(POLICY, **wish), Client(), settings, client_errors.make)


def test_a_policy_that_does_not_exist_is_refused_before_a_client_connects():
    """A constructor that connects may take 30 s."""

    def factory(**_):
        raise AssertionError("a client was built")

    with pytest.raises(PolicyError, match="did you mean 'consumer'"):
        guard(factory=factory, config={}, policy="consumr")


def test_a_class_without_an_adapter_is_refused_before_it_builds_a_client():
    """Nobody would close it."""

    class Consumer:
        """A client of another package."""

        def __init__(self, _):
            raise AssertionError("a client was built")

    with pytest.raises(TypeError, match="no adapter for tests"):
        guard(factory=Consumer, config={})


def test_a_client_that_was_built_and_cannot_be_guarded_is_closed(kafka_cluster):
    """Its settings are not safe, or it is none."""
    closed = []

    class Producer(KafkaProducer):
        """It says when it is closed."""

        def close(self, timeout=None, **more):
            closed.append(type(self))
            super().close(timeout, **more)

    servers = {"bootstrap_servers": kafka_cluster.bootstrap_servers}
    unsafe = {**servers, "enable_idempotence": False, "retries": 5}
    with pytest.raises(errors.StackingError) as caught:
        guard(factory=Producer, config=unsafe, strict=True)
    assert Producer in closed, caught.value  # not by the garbage collector
    del caught
    closed.clear()
    with pytest.raises(TypeError, match="no adapter for"):
        guard(factory=lambda **_: SimpleNamespace(close=lambda: closed.append(None)))
    assert None in closed


@pytest.mark.parametrize(
    ("config", "args", "settings"),
    [
        (None, (), {}),
        ({}, (), {}),
        ({"client_id": "a"}, (), {"client_id": "a"}),
        ({"client.id": "a"}, ({"client.id": "a"},), {}),
    ],
)
def test_a_factory_is_called_as_at_first(config, args, settings):
    """With keywords, or with one dict where names have dots; what was read is unused."""
    one = builder({"acks": 1}, factory=Client, config=config)
    built = one.build()
    assert (args, settings) == (built.args, built.settings)
    assert one.was_given
    assert one.can_build


def test_without_a_factory_the_settings_that_were_read_are_used():
    """The caller's ``config`` is not: it may leave settings out."""
    one = builder({"acks": 1}, config={"client_id": "a"})
    assert one.build().settings == {"acks": 1}
    assert not one.was_given


def test_a_client_that_cannot_be_built_says_what_to_do():
    """Its class has an ``__init__`` of its own, or does not show its settings."""
    one = builder()
    assert not one.can_build
    with pytest.raises(errors.ClientClosedError, match=r"guard\(factory=") as caught:
        one.build()
    assert "Client has its own __init__" in str(caught.value)
