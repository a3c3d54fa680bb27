"""What a guarded admin's calls raise, and what they find there already."""

from __future__ import annotations

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewPartitions as AioPartitions
from aiokafka.errors import IllegalStateError, KafkaConnectionError
from confluent_kafka import KafkaException
from confluent_kafka import admin as confluent
from kafka import KafkaAdminClient
from kafka import errors as kafka_errors
from kafka.admin import NewPartitions, NewTopic
from kafka.errors import KafkaError

from aiokafka import AIOKafkaConsumer
from kafkaguard import Action, errors, guard
from kafkaguard_adapters import admin_calls
from kafkaguard_adapters.kafka_python.errors import errors as python_errors
from tests.contracts.producer import until
from tests.groups import joining


@pytest.fixture
def python_admin(kafka_faults):
    """A guarded admin of kafka-python behind the proxy."""
    bare = KafkaAdminClient(bootstrap_servers=kafka_faults.bootstrap_servers)
    with guard(bare) as guarded:
        yield guarded


@pytest.fixture
def confluent_admin(kafka_faults):
    """A guarded admin of confluent-kafka behind the proxy."""
    config = {"bootstrap.servers": kafka_faults.bootstrap_servers}
    with guard(factory=confluent.AdminClient, config=config) as guarded:
        yield guarded


@pytest.fixture
def create(request, python_admin, confluent_admin):
    """Create a topic with one of the clients."""

    def by_kafka_python(name, partitions, **settings):
        python_admin.create_topics([NewTopic(name, partitions, 1, None, settings)])

    def by_kafka_python_options(name, partitions, **settings):
        options = {"num_partitions": partitions, "configs": settings}
        python_admin.create_topics({name: options})

    def by_confluent(name, partitions, **settings):
        topic = confluent.NewTopic(name, partitions, 1, config=settings)
        return confluent_admin.create_topics([topic])[name].result(30)

    ways = {
        "kafka-python": by_kafka_python,
        "kafka-python, options": by_kafka_python_options,
        "confluent-kafka": by_confluent,
    }
    return ways[request.param]


CREATE = pytest.mark.parametrize(
    "create",
    ["kafka-python", "kafka-python, options", "confluent-kafka"],
    indirect=True,
)


@CREATE
def test_topic_that_is_there_is_an_error_of_both_classes(kafka_cluster, create):
    """Creating a topic that exists raises TopicAlreadyExistsError with its request."""
    there = kafka_cluster.create_topic(config={"cleanup.policy": "compact"})
    with pytest.raises(errors.TopicAlreadyExistsError) as caught:
        create(there, 1, **{"cleanup.policy": "compact"})
    assert isinstance(caught.value, KafkaError | KafkaException)
    assert caught.value.api == "CreateTopics"


def test_administrator_is_told_to_stop_the_members(
    kafka_cluster, kafka_topic, confluent_admin
):
    """A group in use cannot be deleted, and nobody is told to poll."""
    with joining(
        kafka_topic, bootstrap_servers=kafka_cluster.bootstrap_servers, group_id="used"
    ) as member:
        until(lambda: member.poll(100) or member.assignment(), 60)
        with pytest.raises(errors.NonEmptyGroupError) as caught:
            confluent_admin.delete_consumer_groups(["used"])["used"].result(60)
    assert isinstance(caught.value, KafkaException)
    assert (caught.value.api, caught.value.verdict.action) == (
        "DeleteGroups",
        "CONFIGURE",
    )


@pytest.mark.parametrize("code", [25, 68, 86])
@pytest.mark.parametrize(
    "call", [name for name in admin_calls.REQUESTS if "group" in name]
)
def test_administrator_is_no_member(call, code):
    """Whatever is asked of a group in use: its members are stopped first."""
    theirs = kafka_errors.for_code(code)()
    told = admin_calls.admin_error(python_errors, theirs, admin_calls.REQUESTS[call])
    assert told.verdict.action == "CONFIGURE"
    assert "stop its members first" in str(told)


def test_what_the_client_refuses_by_itself_is_its_own(python_admin, confluent_admin):
    """A wrong argument is no answer of Kafka's; what succeeds comes through."""
    with pytest.raises(ValueError, match="No valid topics"):
        python_admin.create_topics([])
    with pytest.raises(AttributeError, match="no attribute 'topic'"):
        confluent_admin.create_topics([object()])
    assert python_admin.list_topics() is not None


def test_partitions_of_a_missing_topic_are_a_verdict(confluent_admin, python_admin):
    """The error of a missing topic has a verdict, and names the request that was made."""
    for grow in (
        lambda: python_admin.create_partitions({"gone": NewPartitions(3)}),
        lambda: confluent_admin.create_partitions([confluent.NewPartitions("gone", 3)])[
            "gone"
        ].result(30),
    ):
        with pytest.raises(errors.UnknownTopicOrPartitionError) as caught:
            grow()
        assert caught.value.api == "CreatePartitions"


async def test_admin_that_was_not_started_says_so(kafka_cluster):
    """Whatever it is asked; after a failed start and after its end likewise."""
    config = {"bootstrap_servers": kafka_cluster.bootstrap_servers}
    admin = guard(AIOKafkaAdminClient(**config))
    with pytest.raises(errors.ClientStateError, match="was not started: await") as said:
        await admin.list_topics()
    assert isinstance(said.value, IllegalStateError)
    async with admin:
        assert isinstance(await admin.list_topics(), list)
        with pytest.raises(errors.UnknownTopicOrPartitionError) as caught:
            await admin.create_partitions({"gone": AioPartitions(3)})
    assert caught.value.api == "CreatePartitions"
    with pytest.raises(errors.ClientClosedError, match="was closed: build a new one"):
        await admin.list_topics()


@pytest.mark.parametrize("build", [AIOKafkaAdminClient, AIOKafkaConsumer])
async def test_failed_start_is_not_told_as_an_end(build):
    """It can be started again, so that is said."""
    guarded = guard(build(bootstrap_servers="localhost:1"))
    with pytest.raises(KafkaConnectionError):
        await guarded.start()
    ask = guarded.list_topics if build is AIOKafkaAdminClient else guarded.getone
    with pytest.raises(
        errors.ClientClosedError, match="did not start: correct"
    ) as caught:
        await ask()
    assert "was closed" not in str(caught.value)
    assert "build" not in str(caught.value)
    assert caught.value.verdict.action is Action.CONFIGURE
