"""What is handed over wrongly is refused in one sentence, before any connection."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer, KafkaProducer

from aiokafka import AIOKafkaConsumer
from kafkaguard import TopicFacts, classify, guard, load_policy, protocol
from kafkaguard.cluster import AsyncReportCalls, RemoteStorageWatch
from kafkaguard.policies import CallContext, PolicyWatcher, check_stacking
from kafkaguard.testing import ClusterError, FaultProxy, FaultSpecError, KafkaCluster
from kafkaguard_adapters.aiokafka._private.producing import moving
from kafkaguard_adapters.kafka_python.sending import check_partition
from kafkaguard_policies.advice.stacking import report_stacking

#: No broker is there: an attempt to connect would be another error.
NOWHERE = "127.0.0.1:1"
POLICY = load_policy("default")
METADATA = protocol.message("Metadata")
PROXY = FaultProxy(NOWHERE)


@pytest.fixture(scope="module")
def admin():
    """An admin whose calls never get as far as a broker."""
    with guard(factory=AdminClient, config={"bootstrap.servers": NOWHERE}) as guarded:
        yield guarded


@pytest.mark.parametrize(
    ("call", "arguments", "error", "text"),
    [
        ("lag", {"groups": 5}, TypeError, "groups takes a name or .*, not int"),
        ("lag", {"groups": b"g"}, TypeError, "groups takes .*, not bytes"),
        ("lag", {"groups": [5]}, TypeError, "groups takes names .*, not int"),
        ("lag", {"topics": 5}, TypeError, "topics takes a name or .*, not int"),
        ("lag", {"columns": 5}, TypeError, "columns takes .*, not int"),
        ("lag", {"columns": "zz"}, ValueError, "columns: 'zz' is not one of"),
        ("lag", {"isolation": []}, ValueError, "isolation: .* is not one of"),
        ("lag", {"timeout": "5"}, TypeError, "timeout takes seconds .*, not str"),
        ("lag", {"timeout": None}, TypeError, "timeout takes seconds .*, not None"),
        ("lag", {"timeout": True}, TypeError, "timeout takes seconds .*, not bool"),
        ("lag", {"timeout": -1}, ValueError, "timeout takes seconds above 0"),
        ("lag", {"timeout": float("nan")}, ValueError, "timeout takes seconds above 0"),
        ("lag", {"timeout": float("inf")}, ValueError, "timeout takes seconds above 0"),
        ("log_dirs", {"brokers": 0}, TypeError, "brokers takes a list .*, not int"),
        ("log_dirs", {"brokers": ["0"]}, TypeError, "brokers takes .*, not str"),
        ("log_dirs", {"brokers": "01"}, TypeError, "brokers takes .*, not str"),
        ("log_dirs", {"topics": 5}, TypeError, "topics takes .*, not int"),
        ("log_dirs", {"timeout": 0}, ValueError, "timeout takes seconds above 0"),
        ("end_offsets", {"partitions": "t"}, TypeError, "partitions takes .*, not str"),
        ("end_offsets", {"partitions": ["t"]}, TypeError, "a partition takes .* str"),
        ("end_offsets", {"partitions": 5}, TypeError, "partitions takes .*, not int"),
        ("beginning_offsets", {"partitions": [5]}, TypeError, "a partition takes"),
        ("beginning_offsets", {"partitions": [("t", "0")]}, TypeError, "a partition"),
        ("offsets_for_times", {"times": [("t", 0)]}, TypeError, "times takes .* list"),
        ("max_timestamp_offsets", {"partitions": None}, TypeError, "partitions takes"),
        (
            "max_timestamp_offsets",
            {"partitions": [("t", 0)], "timeout": "1"},
            TypeError,
            "timeout takes",
        ),
    ],
)
def test_calls_refuse_what_they_cannot_use(admin, call, arguments, error, text):
    """The argument, what it takes, and the type of what was given."""
    with pytest.raises(error, match=text) as caught:
        getattr(admin, call)(**arguments)
    assert "\n" not in str(caught.value)


def test_one_name_is_one_name(kafka_cluster, kafka_topic):
    """A text is never taken letter by letter."""
    config = {"bootstrap.servers": kafka_cluster.bootstrap_servers}
    with guard(factory=AdminClient, config=config) as admin:
        assert list(admin.lag(groups="gone", topics=kafka_topic).groups) == ["gone"]
        replicas = list(admin.log_dirs(topics=kafka_topic).replicas())
    assert [replica.topic for _, _, replica in replicas] == [kafka_topic]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"topics": ["t"]}, "topics takes TopicFacts by topic name.*, not list"),
        ({"topics": "t"}, "topics takes .*, not str"),
        ({"topics": 0}, "topics takes .*, not int"),
        ({"topics": {"t": True}}, "topics=.* takes TopicFacts"),
        ({"topics": {5: TopicFacts()}}, "topics takes names .str., not 5"),
        ({"on_event": 5}, "on_event takes a function, not int"),
        ({"config": ["a"]}, "config takes a mapping .*, not list"),
    ],
)
@pytest.mark.parametrize("cls", [KafkaProducer, KafkaConsumer, AdminClient])
def test_guard_refuses_what_it_cannot_use(cls, options, text):
    """Before a client is built from the factory."""

    def factory(**_):
        raise AssertionError("it was built")

    factory.__name__ = cls.__name__
    with pytest.raises(TypeError, match=text):
        guard(factory=factory, **options)


def test_a_watch_refuses_what_it_cannot_call():
    """A watch for remote storage raises TypeError for a hook that is not callable."""
    with pytest.raises(TypeError, match="on_event takes a function, not int"):
        RemoteStorageWatch(AsyncReportCalls(), 5)


@pytest.mark.parametrize("name", [None, 1.5, b"Produce", ["Produce"]])
def test_a_message_has_a_name_or_a_number(name):
    """message() raises TypeError for anything but a name or a number."""
    with pytest.raises(TypeError, match=r"takes a name .* or a number"):
        protocol.message(name)


@pytest.mark.parametrize("settings", [None, {}])
@pytest.mark.parametrize(
    ("kind", "client"), [("zz", "aiokafka"), ("producer", "zz"), ("admin", None)]
)
def test_stacking_knows_kinds_and_clients(kind, client, settings):
    """What cannot be compared is no good news."""
    with pytest.raises(ValueError, match="is not one of"):
        check_stacking(load_policy("default"), settings, kind=kind, client=client)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"super_users": ["zed"]}, "super user 'zed' cannot log in"),
        ({"super_users": "zed"}, "super user 'zed' cannot log in"),
        ({"users": {"zed": "x"}, "super_users": ["User:zed"]}, "without Kafka's User:"),
    ],
)
def test_a_super_user_can_come_in(arguments, text):
    """A name without a password, or with Kafka's prefix, would be nobody."""
    with pytest.raises(ClusterError, match=text):
        KafkaCluster(**arguments)


def test_spark_calls_say_what_they_take():
    """What is no exception, or no function, is refused where it is handed over."""
    import kafkaguard.spark

    with pytest.raises(TypeError, match=r"error_from.* takes an exception, not str"):
        kafkaguard.spark.error_from("x")
    with pytest.raises(TypeError, match=r"on_report.* takes a function, not int"):
        kafkaguard.spark.foreach_batch("t", bootstrap_servers="a:1", on_report=5)


@pytest.mark.parametrize("kind", [KafkaProducer, Producer, AIOKafkaConsumer])
def test_a_class_is_no_client_and_the_error_says_how_to_give_it(kind):
    """guard(Producer) with a class raises an error that proposes factory=."""
    with pytest.raises(TypeError, match=rf"guard\(factory={kind.__qualname__}, "):
        guard(kind)


@pytest.mark.parametrize("kind", [Producer, Consumer])
def test_a_client_has_one_guard(kind):
    """A second guard would act on the same records."""
    own = {"enable.idempotence": True} if kind is Producer else {"group.id": "g"}
    config = {"bootstrap.servers": NOWHERE, "log_level": 0, **own}
    client = kind(config)
    with guard(client, config=config):
        with pytest.raises(TypeError, match="guarded already: use the object that"):
            guard(client, config=config)
        guard(kind(config), config=config).close()


FLAGS = {
    "guard(): strict": lambda flag: guard(Producer({}), strict=flag),
    "TopicFacts(): compacted": lambda flag: TopicFacts(compacted=flag),
    "TopicFacts(): tiered": lambda flag: TopicFacts(tiered=flag),
    "classify(): null_key": lambda flag: classify(87, null_key=flag),
    "classify(): idempotent": lambda flag: classify(6, idempotent=flag),
    "classify(): transactional": lambda flag: classify(6, transactional=flag),
    "CallContext(): null_key": lambda flag: CallContext(null_key=flag),
    "CallContext(): idempotent": lambda flag: CallContext(idempotent=flag),
    "CallContext(): transactional": lambda flag: CallContext(transactional=flag),
    "CallContext(): repeatable": lambda flag: CallContext(repeatable=flag),
    "report_stacking(): strict": lambda flag: report_stacking((), strict=flag),
    "KafkaCluster(): tls": lambda flag: KafkaCluster(tls=flag),
    "KafkaCluster(): oauth": lambda flag: KafkaCluster(oauth=flag),
    "KafkaCluster(): tiered": lambda flag: KafkaCluster(tiered=flag),
    "with_header": lambda flag: METADATA.serialize_request({}, 9, flag),
}


@pytest.mark.parametrize("argument", FLAGS)
@pytest.mark.parametrize("given", ["yes", "false", 1])
def test_a_text_is_no_yes_or_no(argument, given):
    """The text "false" is true in Python."""
    kind = type(given).__name__
    text = rf"^{re.escape(argument)} takes True(, False)? or (False|None), not {kind}$"
    with pytest.raises(TypeError, match=text):
        FLAGS[argument](given)


NUMBERS = {
    "preview(): seed": lambda number: POLICY.preview(seed=number),
    "preview(): runs": lambda number: POLICY.preview(runs=number),
    "preview(): limit": lambda number: POLICY.preview(limit=number),
    "PolicyWatcher(): interval": lambda n: PolicyWatcher("default", interval=n),
    "stop(): timeout": lambda number: PolicyWatcher("default").stop(number),
    "report_stacking(): stacklevel": lambda n: report_stacking((), stacklevel=n),
    "FaultProxy(): journal_size": lambda n: FaultProxy(NOWHERE, journal_size=n),
    "FaultProxy(): max_frame_bytes": lambda n: FaultProxy(NOWHERE, max_frame_bytes=n),
    "wait_for(): count": lambda number: PROXY.wait_for("Produce", count=number),
    "wait_for(): timeout": lambda number: PROXY.wait_for("Produce", timeout=number),
    "KafkaCluster(): brokers": KafkaCluster,
    "start(): timeout": lambda number: KafkaCluster().start(number),
    "RemoteStorageWatch(): patience": lambda n: RemoteStorageWatch(
        AsyncReportCalls(), patience=n
    ),
}


@pytest.mark.parametrize("argument", NUMBERS)
@pytest.mark.parametrize("given", ["5", True, None, b"1"])
def test_a_text_is_no_number(argument, given):
    """It would fail later, far from the call, or wait for ever."""
    kind = "None" if given is None else type(given).__name__
    with pytest.raises(
        TypeError, match=rf"^{re.escape(argument)} takes .*, not {kind}"
    ):
        NUMBERS[argument](given)


@pytest.mark.parametrize("argument", NUMBERS)
@pytest.mark.parametrize("given", [-1, float("nan"), float("inf")])
def test_a_number_is_in_its_bounds(argument, given):
    """The seed may be any whole number."""
    if argument == "preview(): seed" and given == -1:
        assert POLICY.preview(seed=-1).seed == -1
        return
    with pytest.raises((TypeError, ValueError, ClusterError)):
        NUMBERS[argument](given)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda proxy: proxy.on("Produce", partition="0"),
        lambda proxy: proxy.on("Produce", broker=True),
        lambda proxy: proxy.on("Produce", seed="x"),
        lambda proxy: proxy.on("Produce", skip=-1),
        lambda proxy: proxy.on("Produce").fail(7, written="no"),
        lambda proxy: proxy.on("Produce").fail(7, records="12"),
        lambda proxy: proxy.on("Produce").delay(1, before="no"),
        lambda proxy: proxy.on("Produce").close(written="no"),
        lambda proxy: proxy.on("Produce").cut(keep=-1),
    ],
)
def test_a_fault_with_a_wrong_argument_is_not_set(spoil):
    """It would never happen, or at another request."""
    with pytest.raises(FaultSpecError, match=" takes "):
        spoil(PROXY)
    assert PROXY.faults == ()


def test_a_flush_takes_seconds():
    """A negative number waits until nothing is pending, as the client's own flush."""
    config = {"bootstrap.servers": NOWHERE, "log_level": 0, "enable.idempotence": True}
    with guard(Producer(config), config=config) as producer:
        assert producer.flush(-1) == 0
        with pytest.raises(TypeError, match=r"flush\(\): timeout takes seconds .* str"):
            producer.flush("5")


def test_only_what_the_user_has_set_is_said_to_be_unused(caplog):
    """Not what a preset sets that their policy extends."""
    policy = {"extends": "consumer", "on_offset_reset": "raise"}
    config = {"bootstrap.servers": NOWHERE, "group.id": "g", "log_level": 0}
    guard(factory=Consumer, config=config, policy=policy).close()
    assert not [text for text in caplog.messages if "does not use" in text]


def _add_topic(topic):
    """Add a topic to a client of aiokafka whose topic names are checked."""
    client = SimpleNamespace(add_topic=str)
    moving.check_topic_names(SimpleNamespace(client=client))
    client.add_topic(topic)


@pytest.mark.parametrize("check", [_add_topic, check_partition])
def test_a_value_in_the_wrong_place_is_not_shown(check):
    """With swapped arguments, a record's value arrives as its topic or partition."""
    with pytest.raises(TypeError, match="not bytes; nothing was sent") as caught:
        check(b"card 4111")
    assert "card" not in str(caught.value)
