"""``guard``: the one line that puts kafkaguard in front of a client."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar, overload

from kafkaguard._verdict import TopicFacts
from kafkaguard_adapters._stacking import compare
from kafkaguard_policies import load_policy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ClientT = TypeVar("ClientT")

#: By the top-level package and the name of a client's class: the module whose
#: ``wrap()`` guards it. Names only, so that no client is imported for nothing.
_HOMES = {
    ("aiokafka", "AIOKafkaAdminClient"): "kafkaguard_adapters.aiokafka.admin",
    ("confluent_kafka", "AdminClient"): "kafkaguard_adapters.confluent.admin",
    ("kafka", "KafkaAdminClient"): "kafkaguard_adapters.kafka_python.admin",
    ("kafka", "KafkaProducer"): "kafkaguard_adapters.kafka_python.producer",
}


@overload
def guard(
    client: ClientT,
    *,
    config: Mapping[str, Any] | None = None,
    policy: Any = "default",
    topics: Mapping[str, TopicFacts] | None = None,
    strict: bool = False,
) -> ClientT: ...


@overload
def guard(
    *,
    factory: Callable[..., ClientT],
    config: Mapping[str, Any] | None = None,
    policy: Any = "default",
    topics: Mapping[str, TopicFacts] | None = None,
    strict: bool = False,
) -> ClientT: ...


def guard(
    client: Any = None,
    *,
    factory: Callable[..., Any] | None = None,
    config: Mapping[str, Any] | None = None,
    policy: Any = "default",
    topics: Mapping[str, TopicFacts] | None = None,
    strict: bool = False,
) -> Any:
    """Put kafkaguard in front of a Kafka client.

    Args:
        client: A producer of kafka-python, or an admin of any client. Use only the
            guarded one from then on.
        factory: Instead of ``client``: what builds it, usually its class. The guard
            can then build it again, should it die, and in a forked child.
        config: The settings for ``factory``; or those that ``client`` was built with,
            where they cannot be read from it.
        policy: A :class:`~kafkaguard.RetryPolicy`, or what
            :func:`~kafkaguard.load_policy` takes.
        topics: What you know about topics, so that nothing is looked up:
            ``{"flights": TopicFacts(compacted=True)}``.
        strict: Refuse a client whose own settings do not go with the policy, can
            write a record twice, or cannot be read; else a ``StackingWarning`` says
            so, and a line in the log where they cannot be read.

    Returns:
        A stand-in for the client: ``isinstance`` holds, and every attribute and method
        is there.

    Raises:
        TypeError: There is neither a client nor a factory, or no adapter for it.
        StackingError: ``strict``, and the client's settings are not safe.
        PolicyError: The policy cannot be used.
    """
    if (client is None) == (factory is None):
        raise TypeError("guard() takes a client, or factory= and config= to build one")
    _check_topics(topics)
    if factory is not None:
        client = _built(factory, dict(config or {}))
    home = _home_of(client)
    loaded = load_policy(policy)
    compare(client, home, config, loaded, strict=strict)
    return import_module(home).wrap(
        client,
        factory=factory,
        config=config,
        policy=loaded,
        topics=topics,
        strict=strict,
    )


def _check_topics(topics: Any) -> None:
    for topic, facts in (topics or {}).items():
        if not isinstance(facts, TopicFacts):
            raise TypeError(
                f"guard(): topics={{{topic!r}: ...}} takes TopicFacts(compacted=..., "
                f"tiered=...), not {facts!r}"
            )


def _built(factory: Callable[..., Any], config: dict[str, Any]) -> Any:
    """Build a client; settings with dots in their names go in one dict (librdkafka)."""
    return factory(config) if any("." in each for each in config) else factory(**config)


def _home_of(client: Any) -> str:
    if type(client).__module__.partition(".")[0] == "kafkaguard_adapters":
        raise TypeError(f"{client!r} is guarded already")
    for cls in type(client).__mro__:
        home = _HOMES.get((cls.__module__.partition(".")[0], cls.__name__))
        if home is not None:
            return home
    known = ", ".join(f"{package}.{name}" for package, name in _HOMES)
    raise TypeError(
        f"guard() has no adapter for {type(client).__module__}."
        f"{type(client).__qualname__}; it knows {known}"
    )
