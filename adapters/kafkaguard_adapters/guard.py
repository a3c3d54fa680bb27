"""``guard``: the function that puts a guard around a client.

``guarded.pyi`` has an overload for each client, for type checkers.
"""

from __future__ import annotations

from contextlib import ExitStack, suppress
from functools import partial
from importlib import import_module
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakValueDictionary

from kafkaguard._common.arguments import flag, hook, mapping
from kafkaguard._common.logs import Log
from kafkaguard._errors import ClientConfigurationError
from kafkaguard._errors.made import module_of
from kafkaguard._verdicts.context import TopicFacts
from kafkaguard._verdicts.topic_facts import TopicFactsCache
from kafkaguard_adapters.asking.cluster_view import explain
from kafkaguard_adapters.building import Wish, build
from kafkaguard_adapters.policy_uses import obeyed_by, unused_settings
from kafkaguard_adapters.stacking import compare, with_policy
from kafkaguard_adapters.wire.client_settings import SettingError, check_names
from kafkaguard_adapters.wire.io_thread import run
from kafkaguard_policies.reading.sources import load_policy, presets

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkaguard._retries.events import Event
    from kafkaguard_policies.retry_policy import RetryPolicy

_log = Log("guard")
#: Settings of a policy that apply only to records that are sent.
_OF_PRODUCERS = frozenset(
    {"null_key", "disguised_null_key", "on_reject", "dead_letter", "rescue", "in_doubt"}
)

#: The module whose ``wrap()`` guards a client, by the client's top-level package and
#: class name. Names only, so that no client is imported without need.
_HOMES = {
    ("aiokafka", "AIOKafkaAdminClient"): "kafkaguard_adapters.aiokafka.admin",
    ("aiokafka", "AIOKafkaConsumer"): "kafkaguard_adapters.aiokafka.consumer",
    ("aiokafka", "AIOKafkaProducer"): "kafkaguard_adapters.aiokafka.producer",
    ("confluent_kafka", "AIOProducer"): "kafkaguard_adapters.confluent.aio_producer",
    ("confluent_kafka", "AdminClient"): "kafkaguard_adapters.confluent.admin",
    ("confluent_kafka", "Consumer"): "kafkaguard_adapters.confluent.consumer",
    ("confluent_kafka", "Producer"): "kafkaguard_adapters.confluent.producer",
    ("kafka", "KafkaAdminClient"): "kafkaguard_adapters.kafka_python.admin",
    ("kafka", "KafkaConsumer"): "kafkaguard_adapters.kafka_python.consumer",
    ("kafka", "KafkaProducer"): "kafkaguard_adapters.kafka_python.producer",
}
#: The guards in this process, by the ``id`` of the client that each was given. Clients
#: of confluent-kafka have no weak references, but their guards have.
_GUARDS: WeakValueDictionary[int, Any] = WeakValueDictionary()


def guard(
    client: Any = None,
    *,
    factory: Callable[..., Any] | None = None,
    config: Mapping[str, Any] | None = None,
    policy: Any = "default",
    topics: Mapping[str, TopicFacts] | None = None,
    strict: bool = False,
    on_event: Callable[[Event], object] | None = None,
) -> Any:
    """Guard a Kafka client.

    Args:
        client: A producer, consumer or admin client of kafka-python, confluent-kafka or
            aiokafka. After this call, use only the guarded client.
        factory: Builds the client, usually its class; give it instead of ``client``.
            A producer then gets the policy as settings, where ``config`` has none. The
            guard can build the client again if it dies, and in a forked child.
        config: The settings for ``factory``, or the settings of ``client`` if they
            cannot be read from it (confluent-kafka).
        policy: A :class:`~kafkaguard.RetryPolicy`, or an argument of
            :func:`~kafkaguard.load_policy`.
        topics: Known facts about topics, by topic name: ``{"flights":
            TopicFacts(compacted=True)}``. The guard does not look these topics up.
        strict: Refuse a client whose settings contradict the policy, can write a record
            twice, or cannot be read. Default: False, which issues a
            ``StackingWarning``, or logs a line if the settings cannot be read.
        on_event: Called with each event, such as a rejected record or a replaced
            client. It runs on a thread of the client or of the guard, so it must be
            quick. Its exceptions are logged. A :class:`kafkaguard.telemetry.Telemetry`
            also exports the counts of the client.

    Returns:
        The guarded client. ``isinstance`` is true for the client's class, and it has
        all attributes and methods of the client.

    Raises:
        TypeError: Neither a client nor a factory is given, there is no adapter for the
            client, the client is guarded already, or an argument has the wrong type.
        ClientConfigurationError: ``config`` has a setting that this kind of client does
            not have, or lacks ``bootstrap.servers`` (confluent-kafka).
        StackingError: ``strict`` is set, and the client's settings are not safe.
        PolicyError: The policy cannot be used.
    """
    if (client is None) == (factory is None):
        raise TypeError("guard() takes a client, or factory= and config= to build one")
    flag("guard(): strict", strict)
    _check_topics(topics)
    hook("guard(): on_event", on_event)
    if config is not None:
        mapping("guard(): config", config, "a mapping of the client's settings")
    loaded = load_policy(policy)  # before a client connects, which may take a minute
    with ExitStack() as unused:
        if factory is not None:
            client, config = _build(factory, config or {}, loaded)
            unused.callback(_close, client)
        _check_unguarded(client)
        home = _home_of(client)
        if config is not None and factory is None:
            _check_names(type(client), home, config)
        settings = compare(client, home, config, loaded, strict=strict)
        module = import_module(home)
        _warn_of_unused(loaded, obeyed_by(home), client)
        cache = TopicFactsCache(topics)
        wish = Wish(loaded, factory, config, cache, on_event, settings)
        guarded = module.wrap(client, wish)
        unused.pop_all()
    if client is not None:
        _GUARDS[id(client)] = guarded
    return guarded


def _close(client: Any) -> None:
    """Close a client that the guard has built and cannot use."""
    close = getattr(client, "close", None)
    # Those of aiokafka have begun nothing, and are closed in a loop only.
    if close is not None and not iscoroutinefunction(close):
        with suppress(Exception):  # the error that made it useless is raised
            close()


def _check_unguarded(client: Any) -> None:
    """Refuse a client that has a guard: two of them would both act on its records."""
    existing = _GUARDS.get(id(client))
    # A guard may have replaced its client, whose id another object then has.
    is_guarded = existing is not None and existing.client is client
    if is_guarded or type(client).__module__.startswith("kafkaguard_adapters."):
        raise TypeError(
            f"{client!s} is guarded already: use the object that guard() has returned"
        )


def _import_sibling(home: str, name: str) -> Any:
    """Import the module of this name in the folder of a client."""
    return import_module(f"{home.rpartition('.')[0]}.{name}")


def _check_names(kind: type, home: str, config: Mapping[str, Any]) -> None:
    """Refuse a setting that the client's class does not have."""
    names = _import_sibling(home, "settings").setting_names(kind)
    try:
        check_names(config, names or config)
    except SettingError as error:
        make = _import_sibling(home, "errors").errors.make
        raise make(ClientConfigurationError, f"guard(): config: {error}") from None


def _check_servers(kind: type, home: str, config: Mapping[str, Any]) -> None:
    """Refuse settings that name no broker, for a client that has no default for it.

    A class of the user's own may take other settings, so it is not checked.

    Raises:
        ClientConfigurationError: ``bootstrap.servers`` is missing or empty.
    """
    settings = _import_sibling(home, "settings")
    has_servers = getattr(settings, "has_servers", None)
    if has_servers is None or not settings.setting_names(kind) or has_servers(config):
        return
    raise _import_sibling(home, "errors").errors.make(
        ClientConfigurationError,
        "guard(): config has no bootstrap.servers, so the client would never connect: "
        'add it: config={"bootstrap.servers": "host:9092", ...}',
    )


def _warn_of_unused(policy: RetryPolicy, obeyed: frozenset[str], client: Any) -> None:
    """Warn about settings of a user's policy that this client does not obey."""
    unused = unused_settings(policy, obeyed, presets())
    if not unused:
        return
    of_producers = _OF_PRODUCERS.issuperset(
        name.removeprefix("overrides.") for name in unused
    )
    _log.warning(
        "settings_unused",
        "guard(): policy %s sets %s, which a guarded %s does not use: %s",
        policy.name,
        ", ".join(unused),
        type(client).__name__,
        "guarded producers and Spark writes use these settings"
        if of_producers
        else (
            "the client's own settings say how often and how long it tries. For "
            "attempts and waits of the policy, put @retry(policy) around the call"
        ),
        policy=policy.name,
        client=type(client).__name__,
    )


def _check_topics(topics: Any) -> None:
    wanted = "TopicFacts by topic name: topics={'t': TopicFacts(compacted=True)}"
    given = {} if topics is None else topics
    for topic, facts in mapping("guard(): topics", given, wanted).items():
        if not isinstance(topic, str):
            raise TypeError(f"guard(): topics takes names (str), not {topic!r}")
        if not isinstance(facts, TopicFacts):
            raise TypeError(
                f"guard(): topics={{{topic!r}: ...}} takes TopicFacts(compacted=..., "
                f"tiered=...), not {facts!r}"
            )


def _build(
    factory: Callable[..., Any], config: Mapping[str, Any], policy: RetryPolicy
) -> tuple[Any, Mapping[str, Any]]:
    """Build a client, whose settings are the policy where the application set none.

    Returns:
        The client, and its settings with those of the policy, and with the callbacks
        that an adapter has added, since they must be given when the client is built.

    Raises:
        KafkaGuardError: What a client's class raises, also of its own class.
    """
    home = _home_of_class(factory) if isinstance(factory, type) else None
    if home is None:
        if isinstance(factory, type):  # before it builds what nobody would close
            raise _has_no_adapter(factory)
        return build(factory, config), config
    _check_names(cast("type", factory), home, config)
    _check_servers(cast("type", factory), home, config)
    prepare = getattr(import_module(home), "prepare", None)
    whole = with_policy(cast("type", factory), home, config, policy)
    prepared: Mapping[str, Any] = prepare(whole) if prepare else whole
    errors = _import_sibling(home, "errors").errors
    try:
        return build(factory, prepared), prepared
    except (errors.base, SystemError) as raised:
        # confluent-kafka hides its error in a SystemError if a callback ran after it.
        error: BaseException | None = raised
        while error is not None and not isinstance(error, errors.base):
            error = error.__cause__ or error.__context__
        if error is None:
            raise
        read_settings = _import_sibling(home, "settings").read_settings
        settings = partial(read_settings, config, errors.make)
        failure = run(explain(errors.translate(error), settings, errors.make))
        raise failure from failure.__cause__


def _home_of_class(kind: type) -> str | None:
    names = ((module_of(cls).partition(".")[0], cls.__name__) for cls in kind.__mro__)
    return next((_HOMES[each] for each in names if each in _HOMES), None)


def _home_of(client: Any) -> str:
    if isinstance(client, type) and _home_of_class(client) is not None:
        name = client.__qualname__
        raise TypeError(
            f"guard() takes a client, not the class {name}: give {name}(...), or "
            f"guard(factory={name}, config={{...}})"
        )
    home = _home_of_class(type(client))
    if home is None:
        raise _has_no_adapter(type(client))
    return home


def _has_no_adapter(kind: type) -> TypeError:
    clients = ", ".join(f"{package}.{name}" for package, name in _HOMES)
    return TypeError(
        f"guard() has no adapter for {kind.__module__}.{kind.__qualname__}; it knows "
        f"{clients}"
    )
